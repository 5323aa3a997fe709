"""Appends: what is asked of the log (request, condition) and what it answers (result, record)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Protocol

import msgspec

from .errors import InvalidInput, InvalidQuery, PayloadTooLarge
from .event import Event, SequencedEvent, encode_sorted
from .names import MAX_POSITION, an, check_tracking
from .query import FrozenValue, Query
from .speedups import native

MAX_EVENTS = 10_000
MAX_APPEND_BYTES = 64 * 1024 * 1024
MAX_DATA_BYTES = 1024 * 1024


def check_position(value: object, name: str) -> int:
    """Return `value` if it can be a position or 0."""
    if type(value) is int and 0 <= value <= MAX_POSITION:  # as most are
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(
            f"{name} is a position: a whole number from 0, not {value!r:.40}",
            hint="use read.head, result.position or event.position",
        )
    return min(value, MAX_POSITION)


class AppendCondition(FrozenValue):
    """Refuses an append if an event that matches the query has a position greater than `after`.

    `AppendCondition.all_of(a, b)` has several parts, each with its own `after`; see `parts`. Its own query is
    that of all parts together, its own `after` the lowest of theirs.
    """

    __slots__ = ("_joined", "after", "fail_if_events_match")

    fail_if_events_match: Query
    after: int
    _joined: tuple[AppendCondition, ...] | None

    def __init__(self, fail_if_events_match: Query, after: int = 0) -> None:
        if native is not None and native.fill_condition(self, fail_if_events_match, after, Query):
            return
        if not isinstance(fail_if_events_match, Query):
            raise InvalidQuery(
                f"fail_if_events_match is a Query, not {type(fail_if_events_match).__name__}",
                hint="write AppendCondition(Query.of(…), after=read.head)",
            )
        put = object.__setattr__
        after = check_position(after, "after")
        put(self, "fail_if_events_match", fail_if_events_match)
        put(self, "after", after)
        put(self, "_joined", None)

    def _key(self) -> Any:
        return frozenset([(part.fail_if_events_match, part.after) for part in self.parts])

    @classmethod
    def all_of(cls, *conditions: AppendCondition) -> AppendCondition:
        """The condition that holds if all of these hold."""
        parts = [part for condition in conditions for part in check_condition(condition).parts]
        unique = tuple(dict.fromkeys(parts))
        if not unique:
            raise InvalidInput("all_of needs a condition", hint="leave the condition out to append always")
        return cls.of_parts(unique)

    @classmethod
    def of_parts(cls, parts: tuple[AppendCondition, ...]) -> AppendCondition:
        """`all_of` for parts that are known to differ."""
        if len(parts) == 1:
            return parts[0]
        joined = object.__new__(cls)
        object.__setattr__(joined, "_joined", parts)
        return joined

    @property
    def parts(self) -> tuple[AppendCondition, ...]:
        """The conditions that must all hold."""
        return self._joined or (self,)  # not kept: what refers to itself is left to the garbage collector

    def __getattr__(self, name: str) -> Any:
        # Of a condition with several parts, and only if somebody asks: decisions make many that nobody looks at.
        if name == "fail_if_events_match":
            return Query(item for part in self.parts for item in part.fail_if_events_match.items)
        if name == "after":
            return min(part.after for part in self.parts)
        raise AttributeError(name)

    def to_json(self) -> str:
        """The stable JSON form."""
        return encode_sorted(self._fields()).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> AppendCondition:
        """The condition that `to_json` wrote."""
        try:
            return cls.from_fields(msgspec.json.decode(text))
        except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
            raise InvalidInput(f"not the JSON form of an append condition: {error}", hint=_FORM) from error

    def _fields(self) -> dict[str, Any]:
        if len(self.parts) > 1:
            return {"parts": [part._fields() for part in self.parts]}
        return {"after": self.after, "fail_if_events_match": self.fail_if_events_match.to_fields()}

    @classmethod
    def from_fields(cls, fields: Any) -> AppendCondition:
        """The condition of a decoded JSON form."""
        match fields:
            case {"parts": [*parts]} if len(fields) == 1:
                return cls.all_of(*(cls.from_fields(part) for part in parts))
            case {"fail_if_events_match": query} if fields.keys() <= {"after", "fail_if_events_match"}:
                return cls(Query.from_fields(query), fields.get("after", 0))
        raise InvalidInput(
            f"not the JSON form of an append condition: {fields!r:.80}",
            hint=_FORM,
        )

    def __repr__(self) -> str:
        if len(self.parts) > 1:
            return f"AppendCondition.all_of({', '.join(map(repr, self.parts))})"
        return f"AppendCondition({self.fail_if_events_match!r}, after={self.after})"

    def __reduce__(self) -> tuple[object, ...]:
        if len(self.parts) > 1:
            return AppendCondition.all_of, self.parts
        return AppendCondition, (self.fail_if_events_match, self.after)


_FORM = 'write {"fail_if_events_match": {"items": […]}, "after": 0}'


class Typed(Protocol):
    """A typed event: it knows the event to write."""

    def to_event(self) -> Event:
        """The event to write."""
        ...


AnyEvent = Event | Typed


class AppendRequest(FrozenValue):
    """One append: its events, and what must hold. Checked when it is made; it does not change.

    `tracking` is a source and a position of it, which must be newer than the one that the log has. An append that only
    moves the position has no events.
    """

    __slots__ = ("condition", "events", "stream", "tracking", "unless_exists")

    events: tuple[Event, ...]
    condition: AppendCondition | None
    stream: str | None
    unless_exists: Query | None
    tracking: tuple[str, int] | None

    def __init__(
        self,
        events: AnyEvent | Iterable[AnyEvent],
        condition: AppendCondition | None = None,
        stream: str | None = None,
        unless_exists: Query | None = None,
        tracking: tuple[str, int] | None = None,
    ) -> None:
        if (
            native is not None
            and stream is None
            and unless_exists is None
            and tracking is None
            and native.fill_request(self, events, condition, Event, AppendCondition)
        ):
            return
        if unless_exists is not None and not isinstance(unless_exists, Query):
            raise InvalidQuery(
                f"unless_exists is a Query, not {type(unless_exists).__name__}",
                hint="write unless_exists=Query.of(…)",
            )
        put = object.__setattr__
        put(self, "tracking", None if tracking is None else check_tracking(tracking))
        put(self, "events", _events(events, stream, least=1 if tracking is None else 0))
        put(self, "condition", None if condition is None else check_condition(condition))
        put(self, "stream", stream)
        put(self, "unless_exists", unless_exists)

    def _key(self) -> Any:
        return self.events, self.condition, self.stream, self.unless_exists, self.tracking

    def to_write(self) -> tuple[Event, ...]:
        """Return the events as the log keeps them: each says which position came with it."""
        if self.tracking is None:
            return self.events
        return tuple(event.with_tracking(*self.tracking) for event in self.events)

    def guard(self) -> AppendCondition | None:
        """What the log records: the condition, with `unless_exists` as a part after 0."""
        if self.unless_exists is None:
            return self.condition
        never_before = AppendCondition(self.unless_exists)
        return (
            never_before if self.condition is None else AppendCondition.all_of(self.condition, never_before)
        )

    def refuse_callables(self) -> None:
        """Raise if a Python function decides whether the append is accepted: only this process can call it."""
        for part in () if self.condition is None else self.condition.parts:
            part.fail_if_events_match.refuse_callables()
        if self.unless_exists is not None:
            self.unless_exists.refuse_callables()

    def __reduce__(self) -> tuple[object, ...]:
        return AppendRequest, self._key()

    def __repr__(self) -> str:
        tracking = "" if self.tracking is None else f", tracking={self.tracking!r}"
        return f"AppendRequest({list(self.events)!r}, {self.condition!r}{tracking})"


class AppendResult(msgspec.Struct, frozen=True):
    """Where the events are: positions `first` to `last`; `duplicate` if an earlier append wrote them."""

    first: int
    last: int
    count: int
    duplicate: bool = False

    @property
    def position(self) -> int:
        """The last position: what a reader must have seen to have seen this append."""
        return self.last

    @property
    def changed(self) -> int:
        """How many events a retag has changed; 0 for any other append."""
        return 0


class Check(msgspec.Struct, frozen=True):
    """What an append under `condition` would meet now, in one snapshot of the log.

    `holds` says whether it would be accepted. If not, `conflict` is the first event that refuses it. `part` is the
    index of the part that fails in `condition.parts`, `item` the index of the item that matches in that part's query
    (None if the conflict is a retag of an event that you read, or should have read). `conflicts` are the first
    events that conflict with any part, in the order of the log; `complete` says that there are no others. `condition`
    has the same parts with `after=head`. Append with it once your decision has seen all the conflicts. After a retag
    there is no such condition: it is None, and you have to read again.
    """

    holds: bool
    head: int
    conflict: SequencedEvent | None
    part: int | None
    item: int | None
    conflicts: tuple[SequencedEvent, ...]
    complete: bool
    condition: AppendCondition | None


Status = Literal["unconditional", "recorded", "not_recorded", "not_auditable"]


class RecordedAppend(msgspec.Struct, frozen=True):
    """An append as the log remembers it, with the condition under which it was accepted."""

    first: int
    last: int
    condition: AppendCondition | None
    status: Status
    recorded_at: datetime

    def to_json(self) -> str:
        """The stable JSON form."""
        fields = msgspec.structs.asdict(self)
        fields["condition"] = None if self.condition is None else self.condition._fields()
        return encode_sorted(fields).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> RecordedAppend:
        """The recorded append that `to_json` wrote."""
        try:
            fields = _RECORDED.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidInput(
                f"not the JSON form of a recorded append: {error}", hint="pass what to_json() returned"
            ) from error
        given = fields.condition
        condition = None if given is None else AppendCondition.from_fields(given)
        return cls(fields.first, fields.last, condition, fields.status, fields.recorded_at.astimezone(UTC))


class _RecordedFields(msgspec.Struct, forbid_unknown_fields=True):
    first: Annotated[int, msgspec.Meta(ge=1)]
    last: Annotated[int, msgspec.Meta(ge=1)]
    condition: dict[str, Any] | None
    status: Status
    recorded_at: Annotated[datetime, msgspec.Meta(tz=True)]


_RECORDED = msgspec.json.Decoder(_RecordedFields)  # made here, by one thread: see domain/codec.py


def check_max_data_bytes(value: object) -> int:
    """The limit of an event's data."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_APPEND_BYTES:
        raise InvalidInput(
            f"max_data_bytes is a whole number from 1 to {MAX_APPEND_BYTES:,}, not {value!r:.40}",
            hint=f"leave it out for {MAX_DATA_BYTES:,}",
        )
    return value


def check_size(events: Sequence[Event], max_data_bytes: int) -> None:
    """Refuse data over the limits of one event and of one append."""
    if native is not None and native.is_small(events, max_data_bytes, MAX_APPEND_BYTES):
        return
    total = 0
    for event in events:
        size = len(event.data)
        total += size
        if event.metadata:
            total += sum(len(name) + len(value) for name, value in event.metadata.items())
        if size > max_data_bytes:
            raise PayloadTooLarge(
                f"the data of {an(event.type)} has {size:,} bytes, the limit is {max_data_bytes:,}",
                hint="store large values elsewhere and their address in the event, or connect(max_data_bytes=…)",
            )
    if total > MAX_APPEND_BYTES:
        raise PayloadTooLarge(
            f"the append has {total:,} bytes of data and metadata, the limit is {MAX_APPEND_BYTES:,}",
            hint="split it into several appends",
        )


def check_condition(value: object) -> AppendCondition:
    """Return `value` if it is a condition."""
    if not isinstance(value, AppendCondition):
        raise InvalidInput(
            f"a condition is an AppendCondition, not {type(value).__name__}",
            hint="write AppendCondition(query, after=read.head)",
        )
    return value


def _events(events: AnyEvent | Iterable[AnyEvent], stream: str | None, *, least: int) -> tuple[Event, ...]:
    if isinstance(events, Event):
        listed: tuple[Event, ...] = (events,)
    elif isinstance(events, (list, Iterable)) and not isinstance(events, (str, bytes, dict)):
        listed = tuple(map(_event, events))
    else:
        listed = (_event(events),)
    if not least <= len(listed) <= MAX_EVENTS:
        raise InvalidInput(
            f"an append has {least} to {MAX_EVENTS:,} events, this one has {len(listed):,}",
            hint="append nothing by not calling append; split large appends",
        )
    return listed if stream is None else tuple(event.in_stream(stream) for event in listed)


def _event(event: object) -> Event:
    if isinstance(event, Event):
        return event
    to_event: Callable[[], Event] | None = getattr(event, "to_event", None)
    if isinstance(event, type) and to_event is not None:
        raise InvalidInput(
            f"{event.__name__} is a class of events, not an event", hint=f"write {event.__name__}(…)"
        )
    if to_event is None:
        raise InvalidInput(
            f"events are Events, not {type(event).__name__}", hint='write [Event("Type", {…}, tags=[…])]'
        )
    return to_event()


if native is not None:
    native.know_appends(AppendCondition, AppendRequest)
