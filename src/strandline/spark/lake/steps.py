"""The steps of an export, told as they are passed, so that tests can end the process between any two."""

from __future__ import annotations

from collections.abc import Callable

Listener = Callable[[str], None]

_listeners: list[Listener] = []


def passed(step: str) -> None:
    """Tell that a step is done."""
    for listener in _listeners:
        listener(step)
