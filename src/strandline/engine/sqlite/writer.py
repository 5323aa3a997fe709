"""The critical section: judges requests one after another and writes them, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from ...append import AppendCondition, AppendRequest, AppendResult
from ...errors import AppendConditionFailed, EventIdConflict, StrandlineError
from ...event import Event, SequencedEvent, encode_metadata, encode_sorted, join_tags
from ...names import RESERVED, RETAGGED, index_tags
from ...query import Query
from ...retag import Change, Retag, changes_of, meaning_changed, plan, retag_events
from .. import Outcome, Work
from ..rules import Time, is_repeat, position_beyond_head, record_status, retag_hint
from .conditions import NOT_AUDITABLE, NOT_RECORDED, Shape, pack
from .connection import Connection
from .names import Interning, Names
from .pending import PendingEvents, Settling
from .recent import Recent, Segment
from .search import Range, Search, events_of
from .statements import sql

_BEGIN = "begin immediate"
_POSITION_BY_ID = sql("position_by_id")
_POSITION_BY_IDS = sql("position_by_ids")
_APPEND_HOLDING = sql("append_holding")
_EVENTS_APPENDED = sql("events_appended")
_POSTING_INSERT = sql("posting_insert")
_LAST_APPEND = sql("last_append")
_POSTING_DELETE = sql("posting_delete")
_SHAPE_BY_TEXT = sql("shape_by_text")
_SHAPE_INSERT = sql("shape_insert")
_RETAG_EVENT = sql("retag_event")
_KEEP_APPENDED_TAGS = sql("keep_appended_tags")
_COUNT_REFUSED = sql("count_refused")


class Writer:
    """Writes batches through one connection. One thread at a time."""

    def __init__(
        self, connection: Connection, names: Names, recent: Recent, time: Time, *, record_conditions: bool
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._interning = Interning(names, connection)
        self._recent = recent
        self._search = Search(connection, names, recent, self._interning.find)
        self._pending = PendingEvents(connection)
        self._settling = Settling(connection)
        self._time = time
        self._record_conditions = record_conditions
        self._shapes: dict[Shape, int] = {}
        self._refused = 0
        # What the log was like after the last transaction; unknown while one is open, or if it failed.
        self._known_head: int | None = None
        self._appends = 0
        self._last_retag = 0
        # What belongs to the transaction that is open.
        self._new = Segment(0)
        self._new_entries = 0
        self._new_shapes: dict[Shape, int] = {}

    def write(self, batch: Sequence[Work]) -> list[Outcome]:
        """One transaction for the whole batch; whatever fails or interrupts it, it leaves no trace."""
        try:
            self._begin()
            outcomes = [self._outcome(work) for work in batch]
            if self._search.head > self._new.after:
                self._commit()
            self._known_head = (
                self._search.head
            )  # last: whatever comes before it makes the next one look again
            return outcomes
        finally:
            self._connection.roll_back()

    def count_refused(self) -> None:
        """Write down the refusals that no commit has carried yet."""
        if self._refused:
            self._execute(_COUNT_REFUSED, (self._refused,))
            self._refused = 0

    @property
    def refused(self) -> int:
        """Refusals that are not written down yet."""
        return self._refused

    def _begin(self) -> None:
        known, self._known_head = self._known_head, None
        self._pending.clear()
        self._interning.rolled_back()
        self._new_shapes.clear()
        self._new_entries = 0
        self._connection.roll_back()
        self._connection.run(_BEGIN)
        search = self._search
        search.look()
        if known is None:
            self._settling.start_again()
            search.forget_numbers()
        if search.head != known:
            self._catch_up()
        self._new = Segment(search.head)
        search.segments = (*search.segments, self._new)

    def _catch_up(self) -> None:
        """Learn what another process wrote."""
        head = self._search.head
        retagged = self._interning.find(RETAGGED)
        retag = None if retagged is None else self._search.last_of_type(retagged)
        self._last_retag = retag or 0
        self._appends = self._execute(_LAST_APPEND, (head,))[0][0] if head else 0

    def _commit(self) -> None:
        refused, search = self._refused, self._search
        self._pending.write()
        self._settling.settle(search.segments[:-1], search.indexed_to, self._new_entries)
        self.count_refused()
        try:
            self._connection.run("commit")
        except BaseException:
            self._refused = refused
            raise
        self._interning.committed()
        self._shapes.update(self._new_shapes)
        self._recent.committed(self._new)

    def _outcome(self, work: Work) -> Outcome:
        try:
            return self._retag(work) if isinstance(work, Retag) else self._append(work)
        except StrandlineError as error:
            self._refused += isinstance(error, AppendConditionFailed)
            return error

    def _append(self, request: AppendRequest) -> AppendResult:
        repeated = self._repeat(request.events)
        if repeated is not None:
            return repeated
        if request.unless_exists is not None:
            self._pending.write()
            found = self._search.first(request.unless_exists, 0)
            if found is not None:
                return self._result_holding(found)
        for part in () if request.condition is None else request.condition.parts:
            self._check(part)
        return self._insert(request.events, request.guard())

    def _repeat(self, events: Sequence[Event]) -> AppendResult | None:
        ids = {event.raw_id for event in events}
        if not ids.isdisjoint(self._pending.ids):
            self._pending.write()
        found = self._position_of(ids)
        if not found and len(ids) == len(events):
            return None
        if found:
            result = self._result_holding(found[0][0])
            rows = self._execute(_EVENTS_APPENDED, (result.first - 1, result.last))
            earlier = events_of(rows)
            if is_repeat(events, earlier, [event.tags for event in earlier]):
                return result
        raise EventIdConflict("an id of the append is taken already, and it is not a repeat")

    def _position_of(self, ids: set[bytes]) -> list[tuple[int]]:
        if len(ids) == 1:
            return self._execute(_POSITION_BY_ID, (*ids,))
        return self._execute(_POSITION_BY_IDS, (apsw.carray(tuple(ids)),))

    def _check(self, part: AppendCondition) -> None:
        query, after, head = part.fail_if_events_match, part.after, self._search.head
        if after > head:
            raise position_beyond_head(after, head)
        if after == head:
            return
        retag = self._conflicting_retag(query, after) if self._last_retag > after else None
        if any(item.where is not None or not (item.types or item.index_tags()) for item in query.items):
            self._pending.write()  # these are judged on the events themselves
        found = self._search.first(query, after)
        if found is None and retag is None:
            return
        self._pending.write()
        if retag is not None and (found is None or retag[0] <= found):
            found, hint = retag[0], retag_hint(retag[1])
        else:
            hint = None
        (conflict,) = self._search.events_at([found])  # type: ignore[list-item]
        raise AppendConditionFailed(conflict=conflict, query=query, after=after, hint=hint)

    def _conflicting_retag(self, query: Query, after: int) -> tuple[int, int] | None:
        """The first retag that changed what the query means, and a position it retagged.

        Goes back from the newest retag, whose new tags are the present ones, undoing each.
        """
        self._pending.write()
        conflict = None
        tags: dict[int, tuple[str, ...]] = {}
        for retag in reversed(self._retags_after(after)):
            changes = changes_of(retag)
            targets = {
                event.position: event for event in self._search.events_at([c.position for c in changes])
            }
            changed = None
            for change in changes:
                event = targets[change.position]
                new = tags.get(change.position, event.tags)
                old = tags[change.position] = change.undo(new)
                if changed is None and meaning_changed(query, event, old, new):
                    changed = change.position
            if changed is not None:
                conflict = (retag.position, changed)
        return conflict

    def _retags_after(self, after: int) -> list[SequencedEvent]:
        query = Query.types(RETAGGED)
        return self._search.candidates(query, Range(after, self._search.head), self._search.head)

    def _insert(self, events: Sequence[Event], guard: AppendCondition | None) -> AppendResult:
        search, pending, intern = self._search, self._pending, self._interning.intern
        recorded_at = search.recorded_at = self._time.now(search.recorded_at)
        first = search.head + 1
        self._appends += 1
        shape, arguments = self._recorded(guard, first)
        about_append: tuple[int | None, int | None, int | None, str | None] = (
            self._appends,
            None if len(events) == 1 else len(events),
            shape,
            arguments,
        )
        for position, event in enumerate(events, first):
            tags = [intern(tag) for tag in index_tags(event.tags, event.stream, event.subject)]
            self._new.add(position, intern(event.type), tags)
            self._new_entries += 1 + len(tags)
            pending.ids.add(event.raw_id)
            pending.rows.append(
                (
                    position, event.type, event.data, join_tags(event.tags), event.stream, event.subject,
                    event.raw_id, encode_metadata(event.metadata), recorded_at, *about_append,
                )
            )  # fmt: skip
            about_append = (None, first - position - 1, None, None)
        search.head = first + len(events) - 1
        return AppendResult(first, search.head, len(events))

    def _recorded(self, guard: AppendCondition | None, first: int) -> tuple[int | None, str | None]:
        match record_status(guard, record_conditions=self._record_conditions):
            case "not_recorded":
                return NOT_RECORDED, None
            case "not_auditable":
                return NOT_AUDITABLE, None
        return (None, None) if guard is None else pack(guard, first, self._interning.intern, self._shape)

    def _shape(self, shape: Shape) -> int:
        known = self._shapes.get(shape) or self._new_shapes.get(shape)
        if known is None:
            text = encode_sorted(shape).decode()
            rows = self._execute(_SHAPE_BY_TEXT, (text,)) or self._execute(_SHAPE_INSERT, (text,))
            known = self._new_shapes[shape] = int(rows[0][0])
        return known

    def _retag(self, retag: Retag) -> AppendResult:
        search = self._search
        self._pending.write()
        changes = list(plan(retag, self._targets(retag)))
        if not changes:
            return AppendResult(search.head, search.head, 0)
        result = self._insert(retag_events([change for _, change, _ in changes]), None)
        self._last_retag = result.last
        search.indexed_to = self._settling.settle_all(search.segments, search.indexed_to)
        for event, change, tags in changes:
            self._retag_event(event, change, tags)
        return result

    def _targets(self, retag: Retag) -> list[SequencedEvent]:
        if isinstance(retag.target, Query):
            found = self._search.matching(retag.target)
            return [event for event in found if not event.type.startswith(RESERVED)]
        events = {event.position: event for event in self._search.events_at(retag.target)}
        return [retag.checked(position, events.get(position)) for position in retag.target]

    def _retag_event(self, event: SequencedEvent, change: Change, tags: tuple[str, ...]) -> None:
        intern, position = self._interning.intern, event.position
        type_ = intern(event.type)
        self._execute(_KEEP_APPENDED_TAGS, (position,))
        self._execute(_RETAG_EVENT, (position, join_tags(tags)))
        self._connection.run_many(_POSTING_DELETE, [(intern(tag), type_, position) for tag in change.removed])
        self._connection.run_many(_POSTING_INSERT, [(intern(tag), type_, position) for tag in change.added])

    def _result_holding(self, position: int) -> AppendResult:
        self._pending.write()
        ((first, last),) = self._execute(_APPEND_HOLDING, (position,))
        return AppendResult(first, last, last - first + 1, duplicate=True)
