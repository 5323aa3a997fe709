"""The two drivers of steps: one blocks, one awaits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from ..errors import StrandlineError

S = TypeVar("S")
T = TypeVar("T")
Errors = tuple[type[BaseException], ...]


def drive(
    steps: Generator[S, Any, T], perform: Callable[[S], Any], *, errors: Errors = (StrandlineError,)
) -> T:
    """Take steps until there is a result; errors of a step are thrown in where the step was asked for."""
    try:
        step = next(steps)
        while True:
            try:
                answer = perform(step)
            except errors as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def drive_async(
    steps: Generator[S, Any, T],
    perform: Callable[[S], Awaitable[Any]],
    *,
    errors: Errors = (StrandlineError,),
) -> T:
    """Like `drive`, awaited."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await perform(step)
            except errors as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
