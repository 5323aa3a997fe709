"""The critical section: judges requests one after another and writes them, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...append import AppendCondition, AppendResult
from ...event import Event, SequencedEvent, encode_metadata, encode_sorted
from ...names import RETAGGED, index_tags
from ...query import Query
from ...retag import Change
from ...speedups import speedup
from .. import Outcome, Work
from ..judge import Judge, PlannedChange
from ..rules import Time, record_status
from .conditions import NOT_AUDITABLE, NOT_RECORDED, Shape, pack
from .connection import Connection, Execute
from .file_lock import FileLock
from .names import Interning, Names
from .pending import EVENT_INSERT, POSTING_INSERT, PendingEvents, Settling
from .recent import Recent, Segment
from .search import Range, Search
from .statements import sql

plain = speedup("strandline.engine.sqlite.plain")

_IDS_IN_LOG = sql("ids_in_log")
_POSITION_BY_IDS = sql("position_by_ids")
_APPEND_HOLDING = sql("append_holding")
_EVENTS_APPENDED = sql("events_appended")
_LAST_APPEND = sql("last_append")
_POSTING_DELETE = sql("posting_delete")
_SHAPE_BY_TEXT = sql("shape_by_text")
_SHAPE_INSERT = sql("shape_insert")
_RETAG_EVENT = sql("retag_event")
_KEEP_APPENDED_TAGS = sql("keep_appended_tags")
_COUNT_REFUSED = sql("count_refused")
TRACKED = sql("tracked")
_TRACK = sql("track")


class Writer(Judge):
    """Writes batches through one connection. One thread at a time."""

    def __init__(
        self,
        connection: Connection,
        file_lock: FileLock,
        names: Names,
        recent: Recent,
        time: Time,
        *,
        record_conditions: bool,
    ) -> None:
        self._connection = connection
        self._file_lock = file_lock
        self._execute = connection.rows
        self._interning = Interning(names, connection)
        self._recent = recent
        self._pending = PendingEvents(connection)
        self._search = Search(connection, names, recent, self._interning.find, self._pending.write)
        self._settling = Settling(connection)
        self._time = time
        self._record_conditions = record_conditions
        self._shapes: dict[Shape, int] = {}
        # What the log was like after the last transaction; unknown while one is open, or if it failed.
        self._known_head: int | None = None
        self._appends = 0
        self._retagged_at = 0
        # What belongs to the transaction that is open.
        self._new = Segment(0)
        self._new_entries = 0
        self._taken: set[bytes] = set()
        self._new_shapes: dict[Shape, int] = {}
        self._has_tracked = False
        self._plain = plain and plain.Plain(
            self._search, self._interning, time, self._shapes, self._pending.rows, record_conditions
        )

    def write(self, batch: Sequence[Work]) -> list[Outcome]:
        """One transaction for the whole batch; whatever fails or interrupts it, it leaves no trace."""
        try:
            self._begin()
            if self._plain is not None and (unknown := self._plain.unknown(batch)):
                self._interning.learn(unknown)
            self._taken = self._ids_in_log(batch)
            outcomes = (
                [self.outcome(work) for work in batch]
                if self._plain is None
                else self._plain.outcomes(self, batch)
            )
            if self._search.head > self._new.after or self._has_tracked:
                self._commit()
            # Last: whatever comes before it makes the next one look again.
            self._known_head = self._search.head
            return outcomes
        finally:
            if self._connection._database.in_transaction:
                self._connection.undo()

    def count_refused(self) -> None:
        """Write down the refusals that no commit has carried yet."""
        self._count_refused(self._connection.slow_rows)  # a commit of its own, when the store is closed

    def _count_refused(self, execute: Execute) -> None:
        if self.refused:
            execute(_COUNT_REFUSED, (self.refused,))
            self.refused = 0

    def _begin(self) -> None:
        known, self._known_head = self._known_head, None
        self._pending.clear()
        self._interning.rolled_back()
        self._new_shapes.clear()
        self._new_entries = 0
        self._has_tracked = False
        self._connection.roll_back()
        self._connection.begin()
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
        self._retagged_at = retag or 0
        self._appends = self._execute(_LAST_APPEND, (head,))[0][0] if head else 0

    def _ids_in_log(self, batch: Sequence[Work]) -> set[bytes]:
        """Those ids of the batch that the log has already: one look for all, because it has none, as a rule."""
        ids = [event.raw_id for work in batch for event in work.events]
        return {id_ for (id_,) in self._execute(_IDS_IN_LOG, (ids,))} if ids else set()

    def _commit(self) -> None:
        refused, search = self.refused, self._search
        entries = self._settling.due(search.segments[:-1], search.indexed_to, self._new_entries)
        self._count_refused(self._execute)
        try:
            self._connection.commit(
                [(EVENT_INSERT, self._pending.rows), (POSTING_INSERT, entries)], self._file_lock
            )
        except BaseException:
            self.refused = refused
            raise
        self._interning.committed()
        self._shapes.update(self._new_shapes)
        self._recent.committed(self._new)

    def _head(self) -> int:
        return self._search.head

    def _last_retag(self) -> int:
        return self._retagged_at

    def _position_of(self, ids: set[bytes]) -> int | None:
        if ids.isdisjoint(self._taken):
            return None
        self._pending.write()
        ((position,),) = self._execute(_POSITION_BY_IDS, (list(ids),))
        return int(position)

    def _first(self, query: Query, after: int) -> int | None:
        return self._search.first(query, after)

    def _matching(self, query: Query) -> Iterator[SequencedEvent]:
        return self._search.matching(query)

    def _events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        return self._search.events_at(positions)

    def _retags_after(self, after: int) -> list[SequencedEvent]:
        query = Query.types(RETAGGED)
        return self._search.candidates(query, Range(after, self._search.head), self._search.head)

    def _tracked(self, source: str) -> int | None:
        rows = self._execute(TRACKED, (source,))
        return int(rows[0][0]) if rows else None

    def _track(self, source: str, position: int) -> None:
        self._execute(_TRACK, (source, position))
        self._has_tracked = True

    def _events_appended(self, first: int, last: int) -> list[SequencedEvent]:
        return self._connection.events(_EVENTS_APPENDED, (first - 1, last))

    def _insert(self, events: Sequence[Event], guard: AppendCondition | None) -> AppendResult:
        if self._plain is not None:
            result: AppendResult = self._plain.insert(self, events, guard)
            return result
        search, rows, intern = self._search, self._pending.rows, self._interning.intern
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
        new, taken = self._new, self._taken
        for position, event in enumerate(events, first):
            tags = index_tags(event.tags, event.stream, event.subject, event.key)
            new.add(position, intern(event.type), [*map(intern, tags)])
            self._new_entries += 1 + len(tags)
            taken.add(event.raw_id)
            rows.append(
                (
                    position, event.type, event.data, event.raw_tags, event.stream, event.subject,
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

    def _insert_retag(self, events: Sequence[Event], changes: Sequence[PlannedChange]) -> AppendResult:
        search = self._search
        result = self._insert(events, None)
        self._retagged_at = result.last
        search.indexed_to = self._settling.settle_all(search.segments, search.indexed_to)
        for event, change, tags in changes:
            self._retag_event(event, change, tags)
        return result

    def _retag_event(self, event: SequencedEvent, change: Change, tags: tuple[str, ...]) -> None:
        intern, position = self._interning.intern, event.position
        type_ = intern(event.type)
        self._execute(_KEEP_APPENDED_TAGS, (position,))
        self._execute(_RETAG_EVENT, (position, event.with_present_tags(tags).raw_tags))
        self._connection.run_many(_POSTING_DELETE, [(intern(tag), type_, position) for tag in change.removed])
        self._connection.insert(POSTING_INSERT, [(intern(tag), type_, position) for tag in change.added])

    def _result_holding(self, position: int) -> AppendResult:
        self._pending.write()
        ((first, last),) = self._execute(_APPEND_HOLDING, (position,))
        return AppendResult(first, last, last - first + 1, duplicate=True)
