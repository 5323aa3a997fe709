"""The tools for tests as users write them; held against mypy and pyright, both strict. Not run, only read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import assert_type

from decisions import Course, CourseDefined, CourseId, Numbers, count, define, touch

from strandline import AsyncEventStore, Event, EventStore
from strandline.testing import Decision, Story, given, interfering

DEFINED = CourseDefined(course=CourseId("c1"))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stories() -> None:
    assert_type(given(), Story)
    assert_type(given(DEFINED, at=NOON, strict_tags=True), Story)
    story = given(DEFINED, Event("Untyped", {}), at=NOON).given(DEFINED).at(NOON)
    assert_type(story.when(define, Course("c1"), 3), Decision[None])
    assert_type(story.when(define, course=Course("c1"), capacity=3).then(DEFINED), Decision[None])
    assert_type(story.when(count, [Course("c1")]).then_returns(3), Decision[int])
    assert_type(story.when(count, [Course("c1")]).value, int | None)
    assert_type(story.when(touch, Course("c1")).events, list[Event])
    assert_type(story.when(touch, Course("c1")).then_raises(KeyError, match="c1"), Story)
    story.when(touch, Course("c1")).then_nothing().when(define, Course("c1"), 3).then_raises(
        (KeyError, OSError)
    )
    story.when(define, Course("c1"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    story.when(define, Course("c1"), "3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    story.when(define, Numbers(), 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    story.when(count, [Course("c1")]).then_returns("3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    story.when(touch, Course("c1")).then_raises(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    given(strict=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    given("CourseDefined")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    given([DEFINED])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(story.project(Course("c1")), Course)
    assert_type(story.project(Course, "c1").capacity, int)
    assert_type(story.then_state(Course("c1"), capacity=3).then_state(Course, "c1", capacity=3), Story)


def conflicts(store: EventStore) -> None:
    with interfering(store, DEFINED, [DEFINED, Event("A", 1)], lambda: store.retag(1, add=["x"])) as rivals:
        store.execute(define, Course("c1"), 3)
        assert_type(rivals.used, int)
    with interfering(store, 3):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        pass


async def conflicts_async(store: AsyncEventStore) -> None:
    with interfering(store, DEFINED, lambda: store.append(DEFINED)):
        await store.execute(define, Course("c1"), 3)
