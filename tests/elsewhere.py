"""What another user of the store does in the middle of a decision, which may not do it itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def elsewhere(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make the call in another thread, and return its result."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call, *args, **kwargs).result()
