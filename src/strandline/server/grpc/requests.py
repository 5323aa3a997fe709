"""Messages of UmaDB's clients as values of Strandline."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from ...append import AppendCondition
from ...errors import InvalidEvent, InvalidQuery
from ...event import Event
from ...names import RESERVED
from ...query import Query, QueryItem
from .marks import event_from_umadb

BEYOND_ALL = 2**64 - 1
"""No event has this position. A subscription after it ends at once."""
_UUID = re.compile(
    r"[0-9a-f]{32}|(urn:uuid:|\{)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}?",
    re.IGNORECASE,
)


class MalformedUuid(InvalidEvent):
    """The uuid of an event cannot be read."""


def events_of(message: Any) -> list[Event]:
    """Return the events to append."""
    return [_event(each) for each in message.events]


def query_of(message: Any) -> Query:
    """Return the query of a condition. Without items it asks for every event."""
    if not message.items:
        return Query.all()
    return Query([_item(each) for each in message.items])


def visible_query_of(message: Any) -> Query:
    """Return the query of a read. It leaves out the events of the store itself, which UmaDB's clients do not know."""
    query = query_of(message)
    return Query.user() if query.is_all else query


def condition_of(message: Any) -> AppendCondition | None:
    """Return the condition of an append."""
    if not message.HasField("condition"):
        return None
    condition = message.condition
    return AppendCondition(query_of(condition.fail_if_events_match), after=condition.after)


def tracking_of(message: Any) -> tuple[str, int] | None:
    """Return what an append tracks."""
    if not message.HasField("tracking_info"):
        return None
    return message.tracking_info.source, message.tracking_info.position


def _event(message: Any) -> Event:
    return event_from_umadb(
        message.event_type,
        message.data,
        list(message.tags),
        _uuid(message.uuid) if message.uuid else None,
        _metadata(message.metadata) if message.metadata else None,
    )


def _metadata(entries: Iterable[Any]) -> dict[str, str]:
    metadata: dict[str, str] = {}
    for entry in entries:
        if entry.key in metadata:
            raise InvalidEvent(
                f"the metadata name {entry.key!r:.80} is there twice", hint="give each name once"
            )
        if entry.key.startswith(RESERVED):
            raise InvalidEvent(
                f"a metadata name that starts with {RESERVED!r} is reserved: {entry.key!r:.80}",
                hint="choose a name that starts with another character",
            )
        metadata[entry.key] = entry.value
    return metadata


def _uuid(text: str) -> UUID:
    if not _UUID.fullmatch(text) or text.startswith("{") != text.endswith("}"):
        raise MalformedUuid(
            f"{text!r:.80} is not a UUID", hint="leave the uuid of the event empty to get a new one"
        )
    return UUID(text)


def _item(message: Any) -> QueryItem:
    types = list(message.types)
    for name in types:
        if name.startswith(RESERVED):
            raise InvalidQuery(
                f"a type that starts with {RESERVED!r} is reserved: {name!r:.80}",
                hint="ask for types of your own",
            )
    return QueryItem(types, list(message.tags))
