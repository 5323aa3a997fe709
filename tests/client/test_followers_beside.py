"""Followers and read models over HTTP: their checkpoints and tables are in a database of the client's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline
from places import POSTGRES, Place
from served import ServedLogs
from strandline import (
    DomainEvent,
    Event,
    EventStore,
    FollowerFailed,
    InvalidInput,
    Projection,
    Query,
    TagId,
    on,
)
from strandline.follow import ReadModel

ON_ONE_OF_EACH = pytest.mark.parametrize("database", ["sqlite", POSTGRES[-1]], indirect=True)


class CourseId(TagId):
    pass


class SeatTaken(DomainEvent):
    course: CourseId


class Course(Projection):
    id: CourseId
    taken: int = 0

    @on
    def seat_taken(self, event: SeatTaken) -> None:
        self.taken += 1


@pytest.fixture
def kept() -> Iterator[EventStore]:
    with strandline.connect("memory:") as kept:
        yield kept


@pytest.fixture
def place(served: ServedLogs, kept: EventStore) -> Place:
    return served.serve(kept)


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the client's own."""
    if request.param == "sqlite":
        return str(tmp_path / "local.db")
    return request.getfixturevalue("postgres_server")("postgres18").url()


def seats(count: int, course: str = "c1") -> list[SeatTaken]:
    return [SeatTaken(course=CourseId(course)) for _ in range(count)]


def test_a_handler_works_in_a_transaction_of_the_client(
    place: Place, kept: EventStore, tmp_path: Path
) -> None:
    kept.append([Event("A", {"n": n}) for n in range(5)])
    into = tmp_path / "local.db"

    def handle(events: Any, tx: Any) -> None:
        tx.execute("create table if not exists seen (position integer primary key)")
        tx.execute_many("insert into seen values (?)", [(event.position,) for event in events])
        if any(event.json()["n"] == fails_at for event in events):
            raise RuntimeError("no")

    for fails_at in (7, 99):  # the next process goes on where the first one stopped
        with place.connect() as store:
            follower = store.follower("seen", Query.types("A"), into=into)
            if fails_at == 7:
                assert follower.catch_up(handle) == 5
                kept.append([Event("A", {"n": n}) for n in range(5, 9)])
                with pytest.raises(FollowerFailed):
                    follower.catch_up(handle, attempts=1, on_failure="stop")
            else:
                assert follower.catch_up(handle) == 9
            rows = store.beside(into).engine.rows("select position from seen order by position")
            assert [position for (position,) in rows] == list(range(1, 8 if fails_at == 7 else 10))
            assert follower.status().position == (7 if fails_at == 7 else 9)
    assert kept.followers() == []


@ON_ONE_OF_EACH
def test_a_read_model_is_a_table_of_the_client(place: Place, kept: EventStore, database: str) -> None:
    courses = ReadModel(Course, table="courses_over_http")
    with place.connect() as store:
        store.append([*seats(3), *seats(2, "c2")])
        head = store.head()
        assert courses.run(store, until=head, into=database) == head
        assert {str(course.id): course.taken for course in courses.find()} == {"c1": 3, "c2": 2}
        store.append(seats(1))
        assert courses.catch_up(store, into=database) == store.head()
        state = courses.get("c1")
        assert state is not None
        assert state.taken == 4
        store.retag(1, replace={"course": ["c2"]})
        assert courses.catch_up(store, into=database) == store.head()
        assert [course.taken for course in courses.find(order_by="id")] == [3, 3]
        assert courses.rebuild(store.beside(database))
        assert [course.taken for course in courses.find(order_by="id")] == [3, 3]
        if "://" in database:
            clean(database)


def clean(database: str) -> None:
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("drop schema if exists strandline_default cascade")
        connection.execute("drop table if exists courses_over_http")


def test_the_same_awaited(place: Place, kept: EventStore, tmp_path: Path) -> None:
    courses = ReadModel(Course, table="courses")

    async def use() -> None:
        async with place.connect_async() as store:
            await store.append(seats(3))
            assert await courses.catch_up(store, into=tmp_path / "local.db") == 3
            state = await courses.get("c1")
            assert state is not None
            assert state.taken == 3
            seen: list[int] = []

            async def handle(events: Any, tx: Any) -> None:
                seen.extend(event.position for event in events)

            follower = store.follower("seen", into=tmp_path / "local.db")
            assert await follower.catch_up(handle) == 3
            assert seen == [1, 2, 3]

    asyncio.run(use())


def test_automations_and_outboxes_keep_their_checkpoints_there(
    place: Place, kept: EventStore, tmp_path: Path
) -> None:
    published: list[int] = []
    with place.connect() as store:
        store.append(seats(2))
        outbox = store.outbox(
            "seats",
            None,
            "list",
            lambda events: published.extend(event.position for event in events),
            into=tmp_path / "local.db",
        )
        outbox.catch_up()
        outbox.catch_up()
        automation = store.automation("none", None, lambda event: None, into=tmp_path / "local.db")
        automation.catch_up()
    assert published == [1, 2]


def test_the_followers_of_another_log_are_noticed(
    served: ServedLogs, place: Place, kept: EventStore, tmp_path: Path
) -> None:
    kept.append(Event("A", {}))
    into = tmp_path / "local.db"
    with place.connect() as store:
        store.follower("seen", into=into).catch_up(lambda events, tx: None)
    with (
        served.place(Place("memory:")) as other,
        other.connect() as store,
        pytest.raises(FollowerFailed, match="another log"),
    ):
        store.follower("seen", into=into)


def test_a_log_with_events_is_no_place_for_followers_of_another(place: Place, tmp_path: Path) -> None:
    with strandline.connect(tmp_path / "school.db") as school:
        school.append(Event("A", {}))
    with place.connect() as store:
        for into in (tmp_path / "school.db", "memory:", str(place.url)):
            with pytest.raises(InvalidInput) as caught:
                store.follower("seen", into=into)
            assert "local.db" in caught.value.hint


def test_without_a_database_the_error_says_how_to_name_one(place: Place) -> None:
    with place.connect() as store:
        for use in (
            lambda: store.follower("seen").catch_up(lambda events, tx: None),
            lambda: ReadModel(Course, table="courses").catch_up(store),
            store.followers,
        ):
            with pytest.raises(InvalidInput) as caught:
                use()
            assert 'into="local.db"' in caught.value.hint
