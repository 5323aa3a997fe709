"""Read models as users write them. Not run, only read."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import assert_type

from strandline import AsyncEventStore, DomainEvent, EventStore, Projection, TagId, on
from strandline.follow import FollowerStatus, ReadModel


class CourseId(TagId): ...


class Defined(DomainEvent):
    course: CourseId


class Course(Projection):
    course: CourseId
    is_defined: bool = False

    @on
    def defined(self, event: Defined) -> None:
        self.is_defined = True


courses = ReadModel(Course, table="courses")
ReadModel(Defined, table="courses")  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


def ask(store: EventStore) -> None:
    assert_type(courses.run(store), int)
    assert_type(courses.catch_up(store, 100), int)
    assert_type(courses.rebuild(store, engine="process"), bool)
    assert_type(courses.rebuild(store, engine="spark"), bool)
    assert_type(courses.get("c1"), Course | None)
    assert_type(courses.get("c1", store=store), Course | None)
    assert_type(courses.find("is_defined", limit=3), list[Course])
    assert_type(courses.status(), FollowerStatus)
    courses.wait_for(5, timeout=1)
    courses.run("store")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


async def ask_async(store: AsyncEventStore) -> None:
    assert_type(courses.run(store), Awaitable[int])
    assert_type(await courses.catch_up(store), int)
    assert_type(await courses.rebuild(store), bool)
    assert_type(await courses.get("c1", store=store), Course | None)
    assert_type(await courses.find(store=store), list[Course])
    await courses.wait_for(5, store=store)
