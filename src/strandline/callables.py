"""What users give to be called: whether a call does what they wrote, or only makes something that somebody has to run."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a function, or an object that can be called, has to be awaited."""
    return _is(function, iscoroutinefunction)


def never_runs(function: Callable[..., Any]) -> bool:
    """Whether nothing happens if it is only called: it has to be awaited, or iterated over."""
    return any(_is(function, such) for such in (iscoroutinefunction, isgeneratorfunction, isasyncgenfunction))


def _is(function: Callable[..., Any], such: Callable[[Any], bool]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004  (of an object this is what runs)
    return such(function) or such(called)
