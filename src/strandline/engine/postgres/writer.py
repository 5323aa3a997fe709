"""Writing batches: one call of one function if the database can judge them, else under its lock in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from psycopg import errors as pg

from ...append import AppendCondition, AppendRequest, AppendResult
from ...errors import AppendConditionFailed, InvalidInput, TrackingConflict
from ...event import Event, SequencedEvent
from ...names import RETAGGED
from ...query import Query
from ...retag import Retag, Retagged, changes_of
from .. import Outcome, Work
from ..judge import Judge, PlannedChange
from ..rules import Time, id_conflict, is_repeat, position_beyond_head
from .batch import Batch, database_can_judge
from .binary import Value
from .connection import Connection
from .search import Search, Statements, event_in

_EVENT_COLUMNS = 6  # where they begin in a row of `append_v3`


class Writer:
    """Writes through one connection. One thread at a time."""

    def __init__(
        self, connection: Connection, statements: Statements, time: Time, *, record_conditions: bool
    ) -> None:
        self._connection = connection
        self._sql = statements
        self._time = time
        self._record_conditions = record_conditions
        self._needs_begin = False

    def write(self, batch: Sequence[Work], retags: dict[int, Sequence[Event]], refused: int) -> list[Outcome]:
        """One transaction for the whole batch. `retags` remembers what a retag wrote, should nobody learn of it."""
        requests = [work for work in batch if not isinstance(work, Retag)]
        if len(requests) == len(batch) and _are_simple(requests):
            outcomes = self._let_database_judge(requests, refused)
            if outcomes is not None:
                return outcomes
        with self._connection.transaction():
            judge = PostgresJudge(
                self._connection, self._sql, self._time, retags, record_conditions=self._record_conditions
            )
            judge.lock(refused)
            return [judge.outcome(work) for work in batch]

    def position_of(self, event: Event) -> int | None:
        """Where an event is, if it is anywhere."""
        return Search(self._connection, self._sql).position_of([event.raw_id])

    def count_refused(self, refused: int) -> None:
        """Write down refusals that no batch has carried."""
        self._send([Batch(record_conditions=False).parameters(refused, None)])

    def _let_database_judge(self, requests: Sequence[AppendRequest], refused: int) -> list[Outcome] | None:
        """The outcomes, None if the database does not dare to judge."""
        try:
            now = self._time.given()
        except InvalidInput:
            return None  # whose append it fails is seen under the lock
        batches = self._batches([request for request in requests if _has_own_ids(request)])
        try:
            first, *others = batches
            calls = [first.parameters(refused, now), *(batch.parameters(0, now) for batch in others)]
            answers = self._send(calls)
        except _AskedBackError:
            return None
        judged = iter(
            [
                outcome
                for batch, rows in zip(batches, answers, strict=True)
                for outcome in self._outcomes(batch, rows)
            ]
        )
        return [
            next(judged) if _has_own_ids(request) else id_conflict(request.events, ()) for request in requests
        ]

    def _batches(self, requests: Sequence[AppendRequest]) -> list[Batch]:
        batches = [Batch(record_conditions=self._record_conditions)]
        for request in requests:
            if batches[-1].is_crowded:
                batches.append(Batch(record_conditions=self._record_conditions))
            batches[-1].add(request)
        return batches

    def _send(self, calls: Sequence[tuple[Value, ...]]) -> list[list[tuple[Any, ...]]]:
        """The answers to several calls in one transaction; a single one needs no round trips for that."""
        search = Search(self._connection, self._sql)
        if len(calls) == 1 and not self._needs_begin:
            try:
                return [_answer(search.append(calls[0]))]
            except pg.InvalidTransactionState:  # the session's default isolation level is a stricter one
                self._needs_begin = True
        with self._connection.transaction():
            return [_answer(search.append(call)) for call in calls]

    def _outcomes(self, batch: Batch, rows: list[tuple[Any, ...]]) -> Iterator[Outcome]:
        (_, _, _, head, *_), *refusals = rows
        by_number = {row[0]: row for row in refusals}
        accepted = batch.written(head, by_number)
        for number, request in enumerate(batch.requests, 1):
            yield accepted.get(number) or self._refusal(request, by_number[number])

    def _refusal(self, request: AppendRequest, row: tuple[Any, ...]) -> Outcome:
        _, verdict, part, head, first, last, *_ = row
        if verdict in {"known", "exists"}:
            result = AppendResult(first, last, last - first + 1, duplicate=True)
            if verdict == "exists":
                return result
            search = Search(self._connection, self._sql)
            appended = search.events_appended(first, last)  # they never change, so it can be done now
            is_same = is_repeat(request.events, appended)
            return result if is_same else id_conflict(request.events, appended)
        if verdict == "tracked":
            source, position = request.tracking  # type: ignore[misc]
            return TrackingConflict(source=source, position=position, tracked=head)
        assert request.condition is not None
        newest = max(each.after for each in request.condition.parts)
        if newest > head:  # the database has judged part by part, and may have met a conflict first
            return position_beyond_head(newest, head)
        return AppendConditionFailed(
            conflict=event_in(row, _EVENT_COLUMNS), part=request.condition.parts[part - 1]
        )


class PostgresJudge(Judge):
    """Judges in Python, in a transaction that holds the lock of the log."""

    def __init__(
        self,
        connection: Connection,
        statements: Statements,
        time: Time,
        retags: dict[int, Sequence[Event]],
        *,
        record_conditions: bool,
    ) -> None:
        self._connection = connection
        self._sql = statements
        self._search = Search(connection, statements)
        self._time = time
        self._retags = retags
        self._record_conditions = record_conditions
        self._position = 0

    def lock(self, refused: int) -> None:
        """Take the lock of the log; the end of the transaction gives it back."""
        empty = Batch(record_conditions=False)
        self._position = self._search.append(empty.parameters(refused, None))[0][3]

    def outcome(self, work: Work) -> Outcome:
        """Judge a request; of a retag that was sent before, see whether it was written."""
        sent = self._retags.get(id(work))
        if sent is not None and (place := self._position_of({sent[0].raw_id})) is not None:
            changed = sum(len(changes_of(event)) for event in sent)
            return Retagged(place, place + len(sent) - 1, len(sent), changed=changed)
        return super().outcome(work)

    def _retag(self, retag: Retag) -> Retagged:
        self._retags.pop(id(retag), None)
        self._present = id(retag)
        return super()._retag(retag)

    def _insert_retag(self, events: Sequence[Event], changes: Sequence[PlannedChange]) -> AppendResult:
        self._retags[self._present] = events
        return self._insert(events, None)

    def _insert(self, events: Sequence[Event], guard: AppendCondition | None) -> AppendResult:
        batch = Batch(record_conditions=self._record_conditions)
        batch.add_events(events, guard)
        self._search.append(batch.parameters(0, self._time.given()))
        result = batch.written(self._position, ())[1]
        self._position = result.last
        return result

    def _head(self) -> int:
        return self._position

    def _last_retag(self) -> int:
        return self._search.last_retag()

    def _position_of(self, ids: set[bytes]) -> int | None:
        return self._search.position_of(ids)

    def _first(self, query: Query, after: int) -> int | None:
        found = self._search.first(query, after)
        return None if found is None else found.position

    def _matching(self, query: Query) -> Iterable[SequencedEvent]:
        return self._search.matching(query)

    def _events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        return self._search.events_at(positions)

    def _retags_after(self, after: int) -> list[SequencedEvent]:
        return list(self._search.matching(Query.types(RETAGGED), after))

    def _tracked(self, source: str) -> int | None:
        return self._search.tracked(source)

    def _track(self, source: str, position: int) -> None:
        batch = Batch(record_conditions=False)
        batch.add(AppendRequest((), tracking=(source, position)))
        self._search.append(batch.parameters(0, None))

    def _events_appended(self, first: int, last: int) -> list[SequencedEvent]:
        return self._search.events_appended(first, last)

    def _result_holding(self, position: int) -> AppendResult:
        return self._search.result_holding(position)


class _AskedBackError(Exception):
    """The database wants Python to judge."""


def _answer(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    if rows[0][1] == "judge":
        raise _AskedBackError
    return rows


def _has_own_ids(request: AppendRequest) -> bool:
    """Whether no event of the request has the id of another."""
    return len(request.events) == 1 or len({event.raw_id for event in request.events}) == len(request.events)


def _are_simple(requests: Sequence[AppendRequest]) -> bool:
    """Whether no request needs Python, and none shares an event id with another."""
    if not all(map(database_can_judge, requests)):
        return False
    if len(requests) == 1:
        return True
    ids = [id_ for request in requests for id_ in {event.raw_id for event in request.events}]
    return len(set(ids)) == len(ids)
