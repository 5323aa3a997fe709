"""What a job says at the end."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..screen import facts, for_people, write_json


def show(outcome: msgspec.Struct, *, as_json: bool) -> None:
    """The fields of a result: a table for people, one line of JSON for pipes."""
    fields = msgspec.to_builtins(outcome, builtin_types=(datetime,))
    if not for_people(as_json=as_json):
        write_json(fields)
        return
    facts((name, _shown(value)) for name, value in fields.items())


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, dict):
        return "\n".join(f"{name}  {_shown(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return "\n".join(str(_shown(each)) for each in value) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
