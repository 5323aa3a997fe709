"""Reading a log through a connection: pages, first matches, counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, starmap
from typing import Any, cast
from uuid import UUID

from psycopg import errors as pg

from ...append import AppendCondition, AppendResult, RecordedAppend, Status
from ...event import SequencedEvent, from_microseconds
from ...names import MAX_POSITION
from ...query import Query
from .. import Page, Snapshot, Span, Stats, Usage
from ..deadline import Deadline
from ..names_in_use import names_from, tag_ranges
from ..notes import time_of
from ..rules import LOCK_SECONDS
from .address import Address
from .binary import Value, bigint, bigint_array, boolean, data, text, uuid_array
from .connection import Connection, Rows
from .items import is_plain, query_parameters

_NOW = "select (extract(epoch from clock_timestamp()) * 1000000::numeric)::bigint"
CANDIDATES = 500
COUNTED = 5_000
NO_DEADLINE = Deadline(None)


class Statements:
    """The statements of one log."""

    def __init__(self, address: Address, lock_timeout: float = LOCK_SECONDS) -> None:
        self.schema = address.identifier
        self.append = address.sql("call_append").replace("{lock_timeout}", f"{lock_timeout * 1000:.0f}ms")
        self.lock_holder = address.sql("lock_holder")
        self.read = address.sql("call_read")
        self.count = address.sql("call_count")
        self.count_after = address.sql("count_after")
        self.about_log = address.sql("about_log")
        self.read_comparing = address.sql("read_comparing")
        self.head = address.sql("head")
        self.position_of_ids = address.sql("position_of_ids")
        self.last_retag = address.sql("last_retag")
        self.tracked = address.sql("tracked")
        self.append_holding = address.sql("append_holding")
        self.events_appended = address.sql("events_appended")
        self.events_at = address.sql("events_at")
        self.events_with_ids = address.sql("events_with_ids")
        self.appends = address.sql("appends_forward"), address.sql("appends_backward")
        self.types_page = address.sql("types_page")
        self.tags_page = address.sql("tags_page")
        self.position_at = address.sql("position_at")
        self.stats = address.sql("stats")
        self.load_snapshot = address.sql("snapshot_load")
        self.save_snapshot = address.sql("snapshot_save")


class Search:
    """Asks a log, each question in a snapshot of its own (or in the transaction that the connection is in)."""

    def __init__(
        self, connection: Connection, statements: Statements, deadline: Deadline = NO_DEADLINE
    ) -> None:
        self._deadline = deadline
        self.rows = connection.rows
        self.reading, self.snapshot = connection.reading, connection.snapshot
        self._connection = connection
        self._call = connection.call
        self._sql = statements

    def log_id(self) -> UUID:
        """See `Engine.log_id`."""
        return cast("UUID", self.rows(self._sql.about_log)[0][1])

    def head(self) -> int:
        """The last position."""
        mark = self._connection.past.mark
        rows = self._call(self._sql.head, (bigint(mark.position),))
        head, id_, proof = rows[0] if rows else (0, None, None)
        if not self._connection.fits_past(mark, head, id_, proof):
            self._connection.compare()
        return int(head)

    def append(self, values: Sequence[Value]) -> list[tuple[Any, ...]]:
        """Call the function that judges and writes. A log that went back in time is left as it is."""
        while True:
            mark = self._connection.past.mark
            rows = self._call(self._sql.append, (*values, bigint(mark.position), data(mark.id)))
            if rows:
                return rows
            if not self._connection.compare():
                raise pg.ReadOnlySqlTransaction("it is a replica")

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        """See `Engine.read_page`."""
        page = self._candidates(query, span, size)
        if is_plain(query):
            return page
        return Page(list(self._filtered(query, page.events)), page.head, page.rest)

    def _candidates(self, query: Query, span: Span, size: int) -> Page:
        """A page of events that match, `where` aside."""
        connection = self._connection
        mark = connection.past.mark
        values = asked(query, span, size)
        if connection.has_past:
            rows = self._call(self._sql.read, values)
        else:
            rows = self._call(self._sql.read_comparing, (*values, bigint(mark.position)))
        if not connection.fits_past(mark, *head_of(rows)):
            connection.compare()
        return page_of(rows, span, size)

    def first(self, query: Query, after: int) -> SequencedEvent | None:
        """The first matching event after a position."""
        size = 1 if is_plain(query) else CANDIDATES
        return next(self._matching(query, Span(after), size), None)

    def matching(self, query: Query, after: int = 0) -> Iterator[SequencedEvent]:
        """Every matching event after a position."""
        return self._matching(query, Span(after), COUNTED)

    def _matching(self, query: Query, span: Span | None, size: int) -> Iterator[SequencedEvent]:
        while span is not None:
            page = self._candidates(query, span, size)
            yield from self._filtered(query, page.events)
            self._deadline.check()
            span = page.rest

    def _filtered(self, query: Query, candidates: list[SequencedEvent]) -> Iterable[SequencedEvent]:
        """Those that `where` does not rule out, asked one by one: who takes the first asks for no other."""
        return candidates if is_plain(query) else filter(query.matches, self._deadline.each(candidates))

    def count(self, query: Query, after: int = 0) -> int:
        """How many events after a position match."""
        if query.is_all:
            return max(0, self.head() - after)
        if not is_plain(query):
            return sum(1 for _ in self.matching(query, after))
        parameters = query_parameters(query)
        if after == 0:
            return int(self._call(self._sql.count, parameters)[0][0])
        return int(self._call(self._sql.count_after, (*parameters, bigint(after)))[0][0])

    def events_at(self, positions: Iterable[int]) -> list[SequencedEvent]:
        """The events at these positions, in the order of the log."""
        return events_of(self._call(self._sql.events_at, (bigint_array(list(positions)),)))

    def position_of(self, ids: Iterable[bytes]) -> int | None:
        """The first position that has one of the ids."""
        rows = self._call(self._sql.position_of_ids, (uuid_array(list(ids)),))
        return rows[0][0]  # type: ignore[no-any-return]

    def last_retag(self) -> int:
        """The last position of a retag, 0 if there is none."""
        return int(self._call(self._sql.last_retag)[0][0])

    def tracked(self, source: str) -> int | None:
        """See `Engine.tracked`."""
        rows = self._call(self._sql.tracked, (text(source),))
        return int(rows[0][0]) if rows else None

    def result_holding(self, position: int) -> AppendResult:
        """The append that wrote a position."""
        ((first, last),) = self._call(self._sql.append_holding, (bigint(position),))
        return AppendResult(first, last, last - first + 1, duplicate=True)

    def events_appended(self, first: int, last: int) -> list[SequencedEvent]:
        """Events with their tags as appended."""
        return events_of(self._call(self._sql.events_appended, (bigint(first - 1), bigint(last))))

    def events_with_ids(self, ids: Sequence[bytes]) -> list[SequencedEvent]:
        """See `Engine.events_with_ids`."""
        return events_of(self._call(self._sql.events_with_ids, (uuid_array(ids),)))

    def now(self) -> int:
        """The time by the database's clock."""
        return int(self._call(_NOW)[0][0])

    def position_at(self, microseconds: int) -> int:
        """See `Engine.position_at`."""
        return int(self._call(self._sql.position_at, (bigint(microseconds),))[0][0])

    def appends_page(self, span: Span, size: int) -> list[RecordedAppend]:
        """See `Engine.appends_page`."""
        until = MAX_POSITION if span.until is None else span.until
        values = bigint(span.after), bigint(until), bigint(size)
        return list(starmap(_recorded, self._call(self._sql.appends[span.backwards], values)))

    def append_holding(self, position: int) -> RecordedAppend | None:
        """See `Engine.append_holding`."""
        for first, _ in self._call(self._sql.append_holding, (bigint(position),)):
            for append in self.appends_page(Span(first - 1, first), 1):
                return append
        return None

    def types_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        """See `Engine.types_page`."""
        values = text(names_from(prefix, after)), text(prefix), bigint(size)
        return [Usage(*row) for row in self._call(self._sql.types_page, values)]

    def tags_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        """See `Engine.tags_page`."""
        found: list[Usage] = []
        for start, end in tag_ranges(prefix, after):
            values = text(start), text(end), text(prefix), bigint(size - len(found))
            found += [Usage(*row) for row in self._call(self._sql.tags_page, values)]
            if len(found) == size:
                break
        return found

    def stats(self, now: int, *, record_conditions: bool) -> Stats:
        """Figures about the log."""
        (row,) = self.rows(self._sql.stats, (self._sql.schema,))
        log, version, head, appends, refused, types, tags, size, last_check, last_backup = row
        return Stats(
            engine="postgres",
            log=log,
            schema=version,
            head=head,
            appends=appends,
            refused=refused,
            types=types,
            tags=tags,
            size_bytes=size,
            now=from_microseconds(now),
            record_conditions=record_conditions,
            last_check=time_of(last_check),
            last_backup=time_of(last_backup),
        )

    def load_snapshot(self, projection: str, key: str) -> Snapshot | None:
        """See `Engine.load_snapshot`."""
        rows = self._call(self._sql.load_snapshot, (text(projection), text(key)))
        return Snapshot(*rows[0]) if rows else None

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """See `Engine.save_snapshot`."""
        names = text(snapshot.projection), text(snapshot.key), text(snapshot.version)
        mark = self._connection.past.mark
        place = bigint(snapshot.position), data(snapshot.state), bigint(mark.position), data(mark.id)
        if not self._call(self._sql.save_snapshot, (*names, *place)):
            self._connection.compare()

    def notify(self, channel: str) -> None:
        """Tell listeners that there is news; it is not worth a flush, for who misses it looks soon."""
        self._call(
            "select set_config('synchronous_commit', 'off', true), pg_notify($1, '')", (text(channel),)
        )


def asked(query: Query, span: Span, size: int) -> tuple[Value, ...]:
    """What to call `read_v1` with."""
    page = bigint(span.after), bigint(span.until), bigint(size), boolean(span.backwards)
    return (*page, *query_parameters(query))


def head_of(rows: Rows) -> tuple[int, bytes | None, bytes | None]:
    """What the first row of a page says: the head, its id, and the id at the mark if it was asked for."""
    head, _, proof, _, _, _, id_, *_ = rows[0]
    return head, id_, proof


def page_of(answer: list[tuple[Any, ...]], span: Span, size: int) -> Page:
    """What `read_v1` answered as a page."""
    rows = iter(answer)
    head = next(rows)[0]
    last = head if span.until is None else min(head, span.until)
    candidates = events_of(rows)
    rest = None
    if len(candidates) >= size:
        rest = span.rest(last, candidates[-1].position)
    return Page(candidates, last, rest)


def events_of(rows: Iterable[Sequence[Any]]) -> list[SequencedEvent]:
    """Rows of the event table as events."""
    return list(starmap(SequencedEvent, rows))


def event_in(row: Sequence[Any], start: int) -> SequencedEvent:
    """The event whose columns begin at `start`."""
    return SequencedEvent(*islice(row, start, start + 9))


_WITHOUT_CONDITION: dict[str | None, Status] = {
    None: "unconditional",
    "not_recorded": "not_recorded",
    "not_auditable": "not_auditable",
}


def status_of(condition: str | None) -> Status:
    """The status that what is stored as condition stands for."""
    return _WITHOUT_CONDITION.get(condition, "recorded")


def _recorded(first: int, last: int, condition: str | None, recorded_at: int) -> RecordedAppend:
    status = status_of(condition)
    kept = AppendCondition.from_json(condition) if status == "recorded" and condition else None
    return RecordedAppend(first, last, kept, status, from_microseconds(recorded_at))
