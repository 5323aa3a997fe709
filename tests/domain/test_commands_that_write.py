"""A command decides, and the store writes: a command that writes itself would write again when it decides again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from enrolment import Course, CourseDefined, CourseId

from elsewhere import elsewhere
from places import Place
from strandline import (
    AppendConditionFailed,
    AppendRequest,
    Event,
    EventStore,
    InvalidInput,
    Query,
    SequencedEvent,
    command,
)
from strandline.activity import current

WRITES: dict[str, Callable[[EventStore], Any]] = {
    "append": lambda store: store.append(Event("X", {})),
    "append_many": lambda store: store.append_many([AppendRequest(Event("X", {}))]),
    "retag": lambda store: store.retag(Query.all(), add=["t"]),
    "execute": lambda store: store.execute(define, Course("c2")),
    "decide": lambda store: store.decide(["t"], lambda events: [Event("X", {})]),
    "catch_up": lambda store: store.follower("f").catch_up(lambda events, tx: None),
    "close": lambda store: store.close(),
}


@command
def define(course: Course) -> Iterator[CourseDefined]:
    yield CourseDefined(course=course.id, capacity=3)


@pytest.mark.parametrize("write", WRITES)
def test_a_command_that_writes_is_refused_before_anything_is_written(place: Place, write: str) -> None:
    @command
    def bad(course: Course) -> Iterator[CourseDefined]:
        WRITES[write](store)
        yield CourseDefined(course=course.id, capacity=3)

    with place.connect() as store:
        with pytest.raises(InvalidInput, match="a command cannot write to the store: yield its events"):
            store.execute(bad, Course("c1"))
        assert store.head() == 0
        assert not store.is_closed
        assert current.get() is None
        assert store.execute(define, Course("c1")).position == 1


def test_a_command_without_events_that_appends_is_refused(place: Place) -> None:
    @command
    def bad(course: Course) -> None:
        store.append(CourseDefined(course=course.id, capacity=1))

    with place.connect() as store:
        with pytest.raises(InvalidInput, match="a command cannot write"):
            store.execute(bad, Course("c1"))
        assert store.head() == 0


def test_the_function_of_decide_cannot_write(place: Place) -> None:
    def bad(events: Sequence[SequencedEvent]) -> list[Event]:
        store.append(Event("X", {}, tags=["t"]))
        return [Event("Y", {}, tags=["t"])]

    with place.connect() as store:
        with pytest.raises(InvalidInput, match="a command cannot write"):
            store.decide(["t"], bad)
        assert store.head() == 0


def test_a_command_may_read_and_others_may_write_meanwhile(place: Place) -> None:
    @command
    def look(course: Course) -> Iterator[CourseDefined]:
        elsewhere(store.append, Event("X", {}))
        seen.append(
            (store.head(), [event.type for event in store.read()], store.project(Course("c1")).exists)
        )
        yield CourseDefined(course=CourseId("c1"), capacity=3)

    seen: list[Any] = []
    with place.connect() as store:
        assert store.execute(look, Course("c1")).position == 2
        assert seen == [(1, ["X"], False)]


def test_a_command_of_an_async_store_cannot_write_and_other_tasks_can(place: Place) -> None:
    async def use() -> None:
        @command
        def bad(course: Course) -> Iterator[CourseDefined]:
            store.store.append(Event("X", {}))
            yield CourseDefined(course=course.id, capacity=3)

        async with place.connect_async() as store:
            refused, *written = await asyncio.gather(
                store.execute(bad, Course("c1")),
                *(store.append(Event("Y", {})) for _ in range(5)),
                return_exceptions=True,
            )
            assert isinstance(refused, InvalidInput)
            assert sorted(result.position for result in written) == [1, 2, 3, 4, 5]  # type: ignore[union-attr]
            assert await store.count(Query.types("X")) == 0

    asyncio.run(use())


def test_a_block_that_appends_to_the_store_itself_is_told_to_collect_its_events(place: Place) -> None:
    def decide(store: EventStore) -> None:
        with store.boundary(Course("c1")) as boundary:
            store.append(CourseDefined(course=CourseId("c1"), capacity=1))
            boundary.append(CourseDefined(course=CourseId("c1"), capacity=2))

    with place.connect() as store:
        with pytest.raises(AppendConditionFailed) as refused:
            decide(store)
        assert "write b.append(event) instead" in refused.value.hint
        assert store.head() == 1
