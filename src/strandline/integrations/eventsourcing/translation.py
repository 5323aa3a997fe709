"""Between the words of `eventsourcing` and ours: events, queries, conditions, errors."""

from __future__ import annotations

from eventsourcing.dcb.api import DCBAppendCondition, DCBEvent, DCBQuery, DCBQueryItem, DCBSequencedEvent
from eventsourcing.persistence import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    PersistenceError,
    ProgrammingError,
)

from ...append import AppendCondition
from ...errors import (
    AppendConditionFailed,
    CorruptLog,
    EventIdConflict,
    Forbidden,
    InvalidEvent,
    InvalidInput,
    InvalidQuery,
    NotFound,
    PayloadTooLarge,
    SchemaMismatch,
    StoreClosed,
    StrandlineError,
    Unauthorized,
    Unavailable,
)
from ...event import Event, SequencedEvent
from ...names import RESERVED
from ...query import Query, QueryItem

TRACKED = "eventsourcing:Tracked"
GIVEN_TAGS = "eventsourcing.tags"

# Matches no system event either: those match only Query.all() and items that name their type.
EVERY_EVENT = Query.of(QueryItem(exclude_types=[TRACKED]))

_ERRORS: dict[type[StrandlineError], type[PersistenceError]] = {
    AppendConditionFailed: IntegrityError,
    EventIdConflict: IntegrityError,
    InvalidEvent: DataError,
    PayloadTooLarge: DataError,
    InvalidInput: ProgrammingError,
    Forbidden: OperationalError,
    NotFound: OperationalError,
    SchemaMismatch: OperationalError,
    Unauthorized: OperationalError,
    Unavailable: OperationalError,
    StoreClosed: InterfaceError,
    CorruptLog: InternalError,
}


def to_query(query: DCBQuery | None) -> Query:
    """The query in our words; without items, or with an item that asks for nothing, it is every event."""
    items = query.items if query is not None else []
    if not items or any(not item.types and not item.tags for item in items):
        return EVERY_EVENT
    return Query(map(_to_item, items))


def _to_item(item: DCBQueryItem) -> QueryItem:
    ours = QueryItem(item.types, item.tags)
    for name in ours.types:
        if name.startswith(RESERVED) or name == TRACKED:
            raise InvalidQuery(
                f"events of type {name!r} are the store's own", hint="read them with strandline.connect(url)"
            )
    return ours


def to_condition(condition: DCBAppendCondition) -> AppendCondition:
    """The condition in our words."""
    return AppendCondition(to_query(condition.fail_if_events_match), to_after(condition.after))


def to_after(after: int | None) -> int:
    """The position to begin after; None and what is below 0 mean the beginning."""
    return max(after or 0, 0)


def to_event(event: DCBEvent) -> Event:
    """The event in our words; the order of its tags, if it says anything, goes into the metadata."""
    if event.type == TRACKED:
        raise InvalidEvent(f"the type {TRACKED!r} is reserved", hint="choose another type")
    if not isinstance(event.data, (bytes, bytearray, memoryview)):
        raise InvalidEvent(
            f"the data of a DCBEvent is bytes, not {type(event.data).__name__}",
            hint="let the mapper encode it",
        )
    ours = Event(event.type, event.data, tags=event.tags)
    if list(ours.tags) == list(event.tags):
        return ours
    return Event(event.type, event.data, tags=ours.tags, metadata={GIVEN_TAGS: "\n".join(event.tags)})


def from_event(event: SequencedEvent) -> DCBSequencedEvent:
    """The recorded event in their words, with its present tags."""
    tags = list(event.tags)
    if event.raw_metadata is not None:
        tags = _as_given(tags, event.metadata.get(GIVEN_TAGS, ""))
    return DCBSequencedEvent(DCBEvent(event.type, event.data, tags), event.position)


def _as_given(present: list[str], given: str) -> list[str]:
    """The present tags in the order in which they were given; those that a retag added come last."""
    order = given.split("\n")
    return [tag for tag in order if tag in present] + [tag for tag in present if tag not in order]


def to_their_error(error: StrandlineError) -> PersistenceError:
    """The error that users of `eventsourcing` expect; raise it from ours, which knows more."""
    kind = next((_ERRORS[ours] for ours in type(error).__mro__ if ours in _ERRORS), DatabaseError)
    return kind(f"{error} ({error.hint})" if error.hint else str(error))
