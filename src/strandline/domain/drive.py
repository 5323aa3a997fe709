"""The two drivers of steps: one blocks, one awaits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, TypeVar

from ..errors import StrandlineError

S = TypeVar("S")
T = TypeVar("T")
Errors = tuple[type[BaseException], ...]


def drive(
    steps: Generator[S, Any, T], perform: Callable[[S], Any], *, errors: Errors = (StrandlineError,)
) -> T:
    """Take steps until there is a result; errors of a step are thrown in where the step was asked for.

    So is an interrupt between two steps, if it is one of the errors. The steps are over when this ends, however it ends.
    """
    error: BaseException | None = None
    answer: Any = None
    try:
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
                error = None
                answer = perform(step)
            except errors as raised:
                if getgeneratorstate(steps) == GEN_CLOSED:  # they ended with it
                    raise
                error, answer = raised, None
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        error = None  # which would keep this frame, which would keep it
        steps.close()


async def drive_async(
    steps: Generator[S, Any, T],
    perform: Callable[[S], Awaitable[Any]],
    *,
    errors: Errors = (StrandlineError,),
) -> T:
    """Like `drive`, awaited."""
    error: BaseException | None = None
    answer: Any = None
    try:
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
                error = None
                answer = await perform(step)
            except errors as raised:
                if getgeneratorstate(steps) == GEN_CLOSED:
                    raise
                error, answer = raised, None
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        error = None
        steps.close()
