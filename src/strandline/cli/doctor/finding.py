"""What a look at the machine or at a store found."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["ok", "absent", "warning", "bad"]


class Finding(msgspec.Struct, frozen=True):
    """One line of the diagnosis; `fix` is the command or change that makes it good."""

    name: str
    state: State
    found: str
    fix: str = ""


def judged(name: str, found: str, fix: str, *, good: bool, otherwise: State = "bad") -> Finding:
    """A finding whose fix is named only if it is needed."""
    return Finding(name, "ok", found) if good else Finding(name, otherwise, found, fix)
