"""Strandline as threads and as tasks use it, wherever its log is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from importlib.metadata import version

import strandline
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AsyncEventStore,
    Event,
    EventStore,
    Query,
    QueryItem,
    SequencedEvent,
)

from ..commands import Course, Student, subscribe
from ..workload import Decision, NewEvent, note
from ..workload import Query as PlainQuery
from . import AsyncClient, Client, Refused

STATES = 10_000


class InThreads:
    """What a store has in common with others that threads use."""

    prefilled_as = "strandline"
    is_async = False
    has_commands = True
    is_face = False
    is_fast = False

    def version(self) -> str:
        return version("strandline")

    @contextmanager
    def connect(self, address: str, *, keeps_states: bool = False) -> Iterator[Client]:
        with strandline.connect(address, decision_cache=STATES * keeps_states) as store:
            yield StrandlineClient(store)

    def connect_async(
        self, address: str, *, keeps_states: bool = False
    ) -> AbstractAsyncContextManager[AsyncClient]:
        raise NotImplementedError


class InTasks(InThreads):
    """The same for tasks."""

    is_async = True

    @asynccontextmanager
    async def connect_async(self, address: str, *, keeps_states: bool = False) -> AsyncIterator[AsyncClient]:
        async with strandline.connect_async(address, decision_cache=STATES * keeps_states) as store:
            yield AsyncStrandlineClient(store)


class StrandlineClient:
    """See `Client`."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def head(self) -> int:
        return self._store.head()

    def append(self, event: NewEvent, query: PlainQuery, after: int) -> int:
        try:
            return self._store.append(_event(event), AppendCondition(_query(query), after)).position
        except AppendConditionFailed as refusal:
            raise Refused from refusal

    def append_batch(self, events: Sequence[NewEvent]) -> None:
        self._store.append([_event(event) for event in events])

    def read(self, query: PlainQuery) -> tuple[int, int]:
        read = self._store.read(_query(query))
        return read.head, _look_at(read)

    def scan(self) -> int:
        return _look_at(self._store.read())

    @contextmanager
    def subscribe(self, query: PlainQuery, after: int) -> Iterator[Iterator[object]]:
        with self._store.subscribe(_query(query), after=after) as events:
            yield events

    def execute(self, decision: Decision) -> None:
        self._store.execute(subscribe, *_arguments(decision))


class AsyncStrandlineClient:
    """See `AsyncClient`."""

    def __init__(self, store: AsyncEventStore) -> None:
        self._store = store

    async def head(self) -> int:
        return await self._store.head()

    async def append(self, event: NewEvent, query: PlainQuery, after: int) -> int:
        try:
            result = await self._store.append(_event(event), AppendCondition(_query(query), after))
        except AppendConditionFailed as refusal:
            raise Refused from refusal
        return result.position

    async def read(self, query: PlainQuery) -> tuple[int, int]:
        read = await self._store.read(_query(query))
        count = 0
        async for event in read:
            _ = event.type, event.data
            count += 1
        return read.head, count

    async def execute(self, decision: Decision) -> None:
        await self._store.execute(subscribe, *_arguments(decision))


def _look_at(read: Iterable[SequencedEvent]) -> int:
    count = 0
    for event in read:
        _ = event.type, event.data
        count += 1
    return count


def _arguments(decision: Decision) -> tuple[Course, Student, str]:
    course, student = decision.course, decision.student
    return Course(str(course)), Student(str(student)), note(course, student)


def _event(event: NewEvent) -> Event:
    return Event(event.type, event.data, tags=event.tags)


def _query(query: PlainQuery) -> Query:
    return Query.of(*[QueryItem(item.types, item.tags) for item in query])
