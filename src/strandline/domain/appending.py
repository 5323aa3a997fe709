"""What a command appends: the events that it decided on, under the condition that its boundary is as it was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..append import AppendCondition, AppendRequest
from ..event import Event
from ..query import Query, QueryItem
from .boundary import Written, nothing_newer, unchanged
from .clashes import refuse_clashes
from .codec import ENCODER
from .command import Command
from .event import DomainEvent
from .member import Member
from .missing_tags import without_tags
from .steps import TellMissingTags
from .usual import native

ToAppend = tuple[AppendRequest, list[Written], Sequence[TellMissingTags]]
"""The request, its events with what readers make of them, and what there is to tell about them."""


def append_of(
    command: Command[Any, Any],
    members: list[Member],
    decided: list[Event | DomainEvent],
    once: Query | None,
    arguments: str = "",
) -> ToAppend:
    """What a command appends, if it decided on these events; `once` has those of an earlier execution."""
    if native is not None and once is None and not command.commutative and command.options.metadata is None:
        usual: tuple[AppendRequest, list[Written]] | None = native.append_of(members, decided, ENCODER.encode)
        if usual is not None:
            return *usual, ()
    refuse_other_classes(members, decided)
    written = _to_write(decided, command, arguments)
    events = [event for event, _ in written]
    request = AppendRequest(events, condition_of(command, members), unless_exists=once)
    return request, written, without_tags([member.item for member in members], events)


def refuse_other_classes(members: Sequence[Member], decided: Iterable[Event | DomainEvent]) -> None:
    """Refuse an event of another class than the boundary's own for that type: who reads it next could not."""
    for event in decided:
        if isinstance(event, DomainEvent):
            for member in members:
                handled = member.shape.handlers.get(event.event_type)
                if handled is not None and handled[1] is not type(event):
                    refuse_clashes("a decision", (handled[1], type(event)), ())


def condition_of(command: Command[Any, Any], members: list[Member]) -> AppendCondition | None:
    """What the append of a command depends on."""
    if not command.commutative:
        return unchanged(members)
    if not command.guard:
        return None
    types = [cls.event_type for cls in command.guard]
    keys = {(member.item.tags, member.head) for member in members}
    return nothing_newer([(Query.of(QueryItem(types, tags)), head) for tags, head in sorted(keys)])


def _to_write(
    decided: Sequence[Event | DomainEvent], command: Command[Any, Any], arguments: str
) -> list[Written]:
    metadata, key = command.options.metadata or None, command.key
    written = [_one_to_write(event, metadata) for event in decided]
    return written if key is None else [(event.with_key(key, arguments), read) for event, read in written]


def _one_to_write(event: Event | DomainEvent, metadata: Mapping[str, str] | None) -> Written:
    if not isinstance(event, DomainEvent):
        return _with_more(event, metadata), None
    if type(event).to_event is not DomainEvent.to_event:  # a class may add to what it writes
        return _with_more(event.to_event(), metadata), None
    return event._written(metadata=metadata)


def _with_more(event: Event, metadata: Mapping[str, str] | None) -> Event:
    """The event with a command's metadata, unless it says something else itself."""
    return event if metadata is None else event.with_metadata({**metadata, **event.metadata})
