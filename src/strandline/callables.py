"""Functions of users: whether a call does what they wrote, or only makes a generator or a coroutine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, signature
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a function, or an object that can be called, has to be awaited."""
    return _is(function, iscoroutinefunction)


def never_runs(function: Callable[..., Any]) -> bool:
    """Whether nothing happens if it is only called: it has to be awaited, or iterated over."""
    return any(_is(function, such) for such in (iscoroutinefunction, isgeneratorfunction, isasyncgenfunction))


def takes(function: Callable[..., Any], arguments: Sequence[object]) -> bool:
    """Whether a function can be called with these positional arguments, as far as Python knows."""
    try:
        known = signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # it is written in C
        return True
    try:
        known.bind(*arguments)
    except TypeError:
        return False
    return True


def _is(function: Callable[..., Any], such: Callable[[Any], bool]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004  (of an object this is what runs)
    return such(function) or such(called)
