"""Marks: how far something has read a log, and proof that it is still the same log with the same past."""

from __future__ import annotations

import hashlib

import msgspec

from ..engine import Engine, Span
from ..errors import InvalidInput
from ..event import SequencedEvent
from ..query import Query


class Mark(msgspec.Struct, frozen=True):
    """A position of a log, with the fingerprint of the event there; position 0 has none."""

    log: str
    position: int
    fingerprint: str = ""


def mark_at(engine: Engine, position: int) -> Mark:
    """The mark of a position that the log has."""
    event = _event_at(engine, position)
    if event is None and position > 0:
        raise InvalidInput(
            f"the log has no position {position}, it ends at {engine.head()}",
            hint="check that the position is one of this log",
        )
    return Mark(str(engine.log_id()), position, fingerprint(event) if event else "")


def check_mark(engine: Engine, mark: Mark, *, hint: str) -> None:
    """Refuse a log that is another one, or whose past has changed since the mark was made."""
    log = str(engine.log_id())
    if log != mark.log:
        raise InvalidInput(
            f"position {mark.position} was reached in the log {mark.log}, and this is {log}", hint=hint
        )
    if mark.position == 0:
        return
    event = _event_at(engine, mark.position)
    if event is None:
        raise InvalidInput(
            f"position {mark.position} was reached before, and the log ends at {engine.head()} now:"
            " an older state was restored",
            hint=hint,
        )
    if fingerprint(event) != mark.fingerprint:
        raise InvalidInput(
            f"the event at position {mark.position} is not the one that was there before:"
            " an older state was restored, and went another way since",
            hint=hint,
        )


def fingerprint(event: SequencedEvent) -> str:
    """What tells the event from any other; its tags are left out, for they may change."""
    fields = (
        event.raw_id,
        event.raw_recorded_at,
        event.type,
        event.data,
        event.stream,
        event.subject,
        event.raw_metadata,
    )
    return hashlib.sha256(msgspec.msgpack.encode(fields)).hexdigest()[:32]


def _event_at(engine: Engine, position: int) -> SequencedEvent | None:
    found = engine.read_page(Query.all(), Span(position - 1, position), 1).events if position > 0 else []
    return found[0] if found else None
