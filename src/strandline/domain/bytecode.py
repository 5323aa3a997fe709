"""What the code of a function tells about it without running it."""

from __future__ import annotations

import dis
import itertools
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from ..callables import never_runs

# What looks at variables without naming them.
_SEES_ALL = {"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack", "breakpoint"}


def may_look(function: Any, parameter: str) -> bool:
    """Whether a function may look at one of its parameters: its code names it, or it is not the code that we see."""
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        return True
    code = function.__code__
    if parameter not in code.co_varnames[: code.co_argcount] or not _SEES_ALL.isdisjoint(code.co_names):
        return True
    named = (step.argval for step in dis.get_instructions(code))
    return any(parameter == name or (isinstance(name, tuple) and parameter in name) for name in named)


def gives_nothing(function: Any) -> bool:
    """Whether a function returns, and never anything but None."""
    given = [
        before.argval if before.opname == "LOAD_CONST" else before
        for before, step in itertools.pairwise(dis.get_instructions(function))
        if step.opname == "RETURN_VALUE"
    ]
    # From Python 3.12 on there is one step for both.
    given += [step.argval for step in dis.get_instructions(function) if step.opname == "RETURN_CONST"]
    returns_none = bool(given) and all(value is None for value in given)
    return returns_none and not never_runs(function)


def attributes_set(function: Any) -> Iterator[str]:
    """The attributes that a method gives values to, by `self.x = …` and `self.x += …`."""
    if type(function) is not FunctionType or not function.__code__.co_argcount:
        return
    own = function.__code__.co_varnames[0]
    steps = [step for step in dis.get_instructions(function) if step.opname != "EXTENDED_ARG"]
    for first, second, third in zip(steps, steps[1:], steps[2:], strict=False):
        is_set = third.opname == "STORE_ATTR" and _is_variable(second, own)
        is_changed = third.opname == "LOAD_ATTR" and second.opname == "COPY" and _is_variable(first, own)
        if is_set or is_changed:
            yield third.argval


def _is_variable(step: dis.Instruction, name: str) -> bool:
    """Whether a step puts a variable on top; newer Pythons put two at once."""
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    return step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and names[-1] == name
