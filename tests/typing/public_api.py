"""The public API as users write it; `make check` holds it against mypy and pyright, both strict. Not run, only read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import assert_type
from uuid import UUID

import strandline
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    AppendResult,
    AsyncEventStore,
    Batch,
    Event,
    EventStore,
    Query,
    QueryItem,
    RecordedAppend,
    SequencedEvent,
    StrandlineError,
    TagId,
)


class CourseId(TagId): ...


def write(store: EventStore) -> None:
    event = Event("CourseDefined", {"course": "c1"}, tags=["course:c1"], metadata={"user": "u1"})
    assert_type(event.data, bytes)
    assert_type(event.id, UUID)
    assert_type(event.tags, tuple[str, ...])
    Event("Raw", b"bytes", id="01890a5d-ac96-774b-bcce-b302099a8057", stream="s", subject="x")
    Event("A")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Event("A", {}, tags=[1])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    assert_type(Event.from_foreign({"kind": "A"}, type="kind", tags={"course": "id"}), Event)
    Event.from_foreign(
        b"{}", type=lambda found: found["kind"], tags={CourseId: "id"}, id=lambda _: UUID(int=1)
    )
    Event.from_foreign({}, tags=["course"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    query = Query.tag("course:c1") & Query.types("CourseDefined") | Query.stream("s")
    assert_type(query, Query)
    condition = AppendCondition.all_of(AppendCondition(query, after=3), AppendCondition(Query.all()))
    assert_type(store.append([event], condition, stream="s", unless_exists=query), AppendResult)
    assert_type(store.append(event).position, int)
    outcomes = store.append_many([AppendRequest([event], condition), AppendRequest(event)])
    assert_type(outcomes, list[AppendResult | StrandlineError])
    store.append(event, query)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(store.retag(query, add=["vip"]), AppendResult)
    assert_type(store.retag([1, 2], replace={"student": ["s2"]}), AppendResult)


def read(store: EventStore) -> None:
    found = store.read(Query.of(QueryItem(types=["A"], where={"n": {"$gte": 1}})), after=1, limit=10)
    for event in found:
        assert_type(event, SequencedEvent)
        assert_type(event.position, int)
        assert_type(event.recorded_at, datetime)
    assert_type(found.head, int)
    assert_type(found.condition, AppendCondition)
    assert_type(found.ndjson(), Iterator[bytes])
    assert_type(store.exists(Query.all(), after=1), bool)
    assert_type(store.position_at(datetime.now(UTC)), int)
    assert_type(next(store.appends()), RecordedAppend)
    assert_type(next(store.subscribe(after=3)), SequencedEvent)
    assert_type(next(store.subscribe().batches(seconds=0.5)), Batch)
    assert_type(next(store.subscribe().batches()).events, list[SequencedEvent])
    store.read("A")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def read_async(url: str) -> None:
    async with strandline.connect_async(url, max_data_bytes=100) as store:
        assert_type(store, AsyncEventStore)
        found = await store.read(Query.tag("x"))
        assert_type([event async for event in found], list[SequencedEvent])
        assert_type(await store.append(Event("A", 1), found.condition), AppendResult)
        async for append in store.appends():
            assert_type(append, RecordedAppend)
        async for event in store.subscribe():
            assert_type(event, SequencedEvent)
        async for batch in store.subscribe().batches(size=10):
            assert_type(batch, Batch)
    assert_type(await strandline.connect_async(url), AsyncEventStore)
    strandline.connect_async(url, decision_cash=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def refused(store: EventStore) -> SequencedEvent | None:
    try:
        store.append(Event("A", 1), AppendCondition(Query.all()))
    except AppendConditionFailed as error:
        assert_type(error.query, Query)
        return error.conflict
    return None
