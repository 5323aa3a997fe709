"""The two drivers of steps: one blocks, one awaits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..errors import StrandlineError
from .steps import Answer, Step, Steps

T = TypeVar("T")


def drive(steps: Steps[T], perform: Callable[[Step], Answer]) -> T:
    """Take steps until there is a result; an error of a step is thrown in where the step was asked for."""
    try:
        step = next(steps)
        while True:
            try:
                answer = perform(step)
            except StrandlineError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def drive_async(steps: Steps[T], perform: Callable[[Step], Awaitable[Any]]) -> T:
    """Like `drive`, awaited."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await perform(step)
            except StrandlineError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
