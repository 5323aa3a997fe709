"""A batch of appends as the arrays that `append_v3` takes, and its answer as outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ...append import AppendCondition, AppendRequest, AppendResult
from ...event import Event, encode_metadata
from ...names import index_tags
from ...query import Query, QueryItem
from ..rules import record_status
from .binary import Value, bigint, bigint_array, boolean, bytes_array, int_array, text_array, uuid_array
from .items import Items, is_plain

T = TypeVar("T")

MAX_RIVALS = 1_000
UNLESS_EXISTS = 0  # its part number; the parts of the condition follow


class Batch:
    """Collects requests. Their events are numbered from 1, and so are they."""

    def __init__(self, *, record_conditions: bool) -> None:
        self._record_conditions = record_conditions
        self.requests: list[AppendRequest] = []
        self._sizes: list[int] = []
        self._events: list[Event] = []
        self._by_tag: dict[str, list[int]] = {}
        self._indexed = 0
        self._e_request: list[int] = []
        self._e_span: list[int] = []
        self._e_tags: list[str] = []
        self._e_metadata: list[bytes | None] = []
        self._e_condition: list[str | None] = []
        self._i_request: list[int] = []
        self._i_part: list[int] = []
        self._i_after: list[int] = []
        self._i_rivals: list[str | None] = []
        self._newest_after = 0
        self._has_rivals = False
        self._rival_count = 0
        self._items = Items()
        self._t_request: list[int] = []
        self._t_source: list[str] = []
        self._t_position: list[int] = []

    def add(self, request: AppendRequest) -> None:
        """A request that the database can judge."""
        self.requests.append(request)
        number = len(self.requests)
        if request.unless_exists is not None:
            self._must_not_match(number, UNLESS_EXISTS, request.unless_exists, 0)
        for part, condition in enumerate(() if request.condition is None else request.condition.parts, 1):
            self._must_not_match(number, part, condition.fail_if_events_match, condition.after)
        if request.tracking is not None:
            self._track(number, *request.tracking)
        self.add_events(request.to_write(), request.guard())

    @property
    def is_crowded(self) -> bool:
        """Whether the requests get in each other's way so much that the rest is judged better after these are written."""
        return self._rival_count > MAX_RIVALS

    def add_events(self, events: Sequence[Event], guard: AppendCondition | None) -> None:
        """Events to write; `guard` is what to record of their condition."""
        self._sizes.append(len(events))
        number, count = len(self._sizes), len(events)
        if not count:
            return
        self._e_condition.append(self._recorded(guard))
        self._e_span.append(count)
        if count > 1:
            self._e_condition.extend([None] * (count - 1))
            self._e_span.extend(range(-1, -count, -1))
        self._e_request.extend([number] * count)
        self._e_tags.extend([event.raw_tags for event in events])
        self._e_metadata.extend([encode_metadata(event.metadata) for event in events])
        self._events.extend(events)

    def parameters(self, refused: int, now: int | None) -> tuple[Value, ...]:
        """What to call `append_v3` with."""
        events = self._events
        return (
            bigint(refused),
            bigint(now),
            int_array(self._e_request),
            int_array(self._e_span),
            uuid_array([event.raw_id for event in events]),
            text_array([event.type for event in events]),
            text_array(self._e_tags),
            text_array(_unless_all_null([event.stream for event in events])),
            text_array(_unless_all_null([event.subject for event in events])),
            bytes_array(_unless_all_null(self._e_metadata)),
            text_array(_unless_all_null(self._e_condition)),
            bytes_array([event.data for event in events]),
            bigint(self._newest_after),
            boolean(self._has_rivals),
            int_array(self._i_request),
            int_array(self._i_part),
            bigint_array(self._i_after),
            text_array(self._i_rivals if self._has_rivals else None),
            *self._items.parameters(),
            int_array(self._t_request),
            text_array(self._t_source),
            bigint_array(self._t_position),
        )

    def written(self, head: int, refused: Iterable[int]) -> dict[int, AppendResult]:
        """Where the accepted requests are: one after another after the head, by number."""
        results = {}
        outside = set(refused)
        for number, size in enumerate(self._sizes, 1):
            if number not in outside:
                results[number] = AppendResult(head + min(size, 1), head + size, size)
                head += size
        return results

    def _track(self, request: int, source: str, position: int) -> None:
        self._t_request.append(request)
        self._t_source.append(source)
        self._t_position.append(position)

    def _must_not_match(self, request: int, part: int, query: Query, after: int) -> None:
        rivals = None
        if self._events and (numbers := self._rivals(query)):
            self._rival_count += len(numbers)
            self._has_rivals = True
            rivals = ",".join(map(str, numbers))
        self._newest_after = max(self._newest_after, after)
        for item in query.items:
            self._i_request.append(request)
            self._i_part.append(part)
            self._i_after.append(after)
            self._i_rivals.append(rivals)
            self._items.add(item)

    def _rivals(self, query: Query) -> list[int]:
        """The numbers of those events already in the batch that match."""
        found: set[int] = set()
        self._index()
        for item in query.items:
            found.update(
                number for number in self._candidates(item) if item.matches(self._events[number - 1])
            )
        return sorted(found)

    def _index(self) -> None:
        """Know by their tags all events so far; a batch of one request has nobody who asks."""
        for place in range(self._indexed, len(self._events)):
            event = self._events[place]
            for tag in index_tags(event.tags, event.stream, event.subject, event.key):
                if tag in self._by_tag:
                    self._by_tag[tag].append(place + 1)
                else:
                    self._by_tag[tag] = [place + 1]
        self._indexed = len(self._events)

    def _candidates(self, item: QueryItem) -> Sequence[int]:
        tags = item.index_tags()
        if len(tags) == 1:
            return self._by_tag.get(tags[0], ())
        if tags:
            return min((self._by_tag.get(tag, ()) for tag in tags), key=len)
        return range(1, len(self._events) + 1)

    def _recorded(self, guard: AppendCondition | None) -> str | None:
        status = record_status(guard, record_conditions=self._record_conditions)
        if guard is None:
            return None
        return guard.to_json() if status == "recorded" else status


def _unless_all_null(values: list[T | None]) -> list[T | None] | None:
    """Nothing instead of nothing but nulls; the function takes it for as many nulls as it needs. No value is empty."""
    return values if any(values) else None


def database_can_judge(request: AppendRequest) -> bool:
    """Whether the database needs no Python to judge it."""
    for part in () if request.condition is None else request.condition.parts:
        if not is_plain(part.fail_if_events_match):
            return False
    return request.unless_exists is None or is_plain(request.unless_exists)
