"""`check` on PostgreSQL: each planted fault is found, and nothing that is not there."""

from __future__ import annotations

import contextlib

import psycopg
import pytest

from history import retagging, write_history
from places import POSTGRES, Place, PostgresUrl, new_log
from racing import race
from strandline import AppendCondition, CorruptLog, Event, NotFound, Query, QueryItem
from strandline.engine import checking
from strandline.engine.maintenance import CheckReport, Problem, check_log
from strandline.engine.postgres.address import Address
from strandline.engine.postgres.check import PostgresCheck
from strandline.engine.postgres.connection import Connection
from strandline.testing import violations
from strandline.testing.postgres import PostgresServer


def checked(place: Place) -> CheckReport:
    return check_log(place.url, **place.options)


def kinds(place: Place) -> set[str]:
    return {problem.kind for problem in checked(place).problems}


def problems_with(place: Place, *faults: str) -> list[Problem]:
    """What a check finds in a transaction that plants faults, as the superuser may, and is undone."""
    address = Address(str(place.url), str(place.log))
    with contextlib.closing(Connection(address)) as connection:
        connection.run(f"begin; set local search_path = {address.identifier}")
        for fault in faults:
            connection.run(fault)
        return PostgresCheck(connection, address, None).run().problems


@pytest.fixture(scope="module", params=POSTGRES)
def written(request: pytest.FixtureRequest, postgres_url: PostgresUrl) -> Place:
    """A log with conditions, streams, a payload filter and retags."""
    place = new_log(postgres_url(request.param))
    with place.connect() as store:
        write_history(store)
    return place


def test_a_sound_log_has_no_problems(written: Place) -> None:
    report = checked(written)
    assert report.problems == []
    assert (report.events, report.appends, report.conditions) == (24, 23, 21)
    # per event one entry for each of its tags and for its stream: 20 x 3, 1 added tag; and of each retag one for every
    # tag and stream that its event had before or after: hall:1, seat:2, seat:99, a stream; hall:1, seat:5, vip, a stream
    assert report.index_entries == 20 * 3 + 1 + 4 + 4


def test_an_empty_log_is_sound(postgres: Place) -> None:
    postgres.connect().close()
    assert checked(postgres) == CheckReport(0, 0, 0, 0, [])


FAULTS = [
    ("index", "delete from posting where position = 7"),
    ("index", "delete from posting where tag = '$changed:vip'"),
    ("index", "delete from posting where tag = '$stream:student-7'"),
    ("index", "insert into posting values ('hall:1', 'Taken', 23)"),
    ("index", "insert into posting values ('hall:1', 'Taken', 25)"),
    ("index", "insert into posting values ('hall:1', 'Other', 5)"),
    ("index", "delete from posting where tag = '$changed:hall:1'"),
    ("index", "delete from posting where tag like '$changed:$stream:%'"),
    ("index", "insert into posting values ('$changed:hall:2', '$retagged', 21)"),
    ("index", "insert into posting values ('$subject:x', 'Taken', 5)"),
    ("index", "update event set stream = 'other' where position = 4"),
    ("index", "update event set subject = 'other' where position = 4"),
    ("index", "update event set tags = 'hall:1' where position = 4"),
    ("index", "update event set type = 'Other' where position = 4"),
    ("tags", "update event set tags = E'hall:2\\nseat:99' where position = 3"),
    ("tags", "delete from appended_tags where position = 3"),
    ("tags", "update appended_tags set tags = 'seat:7' where position = 3"),
    ("tags", "insert into appended_tags values (9, 'seat:8')"),
    ("time", "update event set recorded_at = 1 where position = 9"),
    ("position", "delete from event where position = 12"),
    ("position", "delete from event where position = 3"),
    ("position", "delete from event where position = 1"),
    ("position", "update event set position = 30 where position = 24"),
    ("append", "update event set append = 99 where position = 12"),
    ("append", "update event set append = append + 1 where position >= 12"),
    ("append", "update event set append = 11 where position = 23"),
    ("append", "update event set span = 5 where position = 22"),
    ("append", "update event set span = null where position = 22"),
    ("append", "update event set span = null where position = 23"),
    ("append", "update event set span = -1 where position = 24"),
    ("append", "update event set span = 2 where position = 24"),
    (
        "condition",  # the condition of the append at 2, as if it had been accepted at 8 with after = 0
        "update event set condition = (select condition from event where position = 2) where position = 8",
    ),
    (
        "condition",
        """update event set condition = '{"after":0,"fail_if_events_match":{"items":[{"where":{"n":3}}]}}'
           where position = 22""",
    ),
    ("file", "update event set condition = '{\"after\":' where position = 8"),
    ("file", "update event set data = 'nothing' where position = 21"),
    ("id", "drop index event_by_id; update event set id = (select min(id::text)::uuid from event)"),
    ("schema", "drop index event_by_id"),
    ("schema", "drop index event_by_type"),
    ("schema", "drop function count_v1"),
]


@pytest.mark.parametrize(("kind", "statement"), FAULTS)
def test_a_planted_fault_is_found(written: Place, kind: str, statement: str) -> None:
    assert kind in {problem.kind for problem in problems_with(written, statement)}


def test_a_fault_is_named_where_it_is(written: Place) -> None:
    assert problems_with(
        written,
        "delete from posting where position = 7 and tag = 'hall:1'",
        "insert into posting values ('seat:1', 'Taken', 9)",
        "update event set recorded_at = 1 where position = 11",
    ) == [
        Problem("time", 11, "is recorded before its predecessor"),
        Problem("index", 7, "the event is not in the index under tag hall:1"),
        Problem("index", 9, "the index has tag seat:1 and type Taken there, the event has not"),
    ]


def test_the_list_of_problems_ends(written: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "MAX_PROBLEMS", 5)
    assert len(problems_with(written, "delete from posting")) == 5


def test_conditions_are_judged_with_the_tags_as_of_then(postgres: Place) -> None:
    """Seat 99 did not exist when event 20 was decided on, although event 3 has that tag now; event 25 knew it."""
    with postgres.connect() as store:
        write_history(store)
        store.append(Event("Other", {}), AppendCondition(Query.tag("seat:99"), after=24))
    then = "update event set condition = replace(condition, 'seat:19', 'seat:99')"
    assert problems_with(postgres, then) == []
    ignorant = "update event set condition = replace(condition, '24', '19') where position = 25"
    (problem,) = problems_with(postgres, then, ignorant)
    assert (problem.kind, problem.position) == ("condition", 25)
    assert "21" in problem.message


def test_a_check_beside_a_store_that_retags_finds_nothing_that_is_not_there(postgres: Place) -> None:
    with postgres.connect() as store:
        write_history(store)
        with retagging(store):
            for _ in range(5):
                assert kinds(postgres) == set()


def test_check_and_oracle_agree_on_what_a_race_left(postgres: Place) -> None:
    with postgres.connect() as store:
        race(store, 7, 100)
        store.append(Event("A", {}, tags=["k:1"]))
        store.retag(Query.tag("k:1"), replace={"k": []})
        assert not store.append(Event("B", {}), unless_exists=Query.tag("k:1")).duplicate
        store.append(Event("C", {}), AppendCondition(Query.of(QueryItem(where=lambda event: False))))
        assert violations(store) == []
    assert kinds(postgres) == set()


def test_check_reports_progress_up_to_the_end(written: Place) -> None:
    seen: list[tuple[int, int]] = []
    check_log(written.url, lambda done, total: seen.append((done, total)), **written.options)
    assert seen[-1] == (48, 48)


def test_check_of_nothing_says_so_and_makes_nothing(postgres: Place) -> None:
    for _ in range(2):
        with pytest.raises(NotFound, match=str(postgres.log)):
            checked(postgres)


def test_a_log_without_its_one_row_is_damaged(postgres: Place) -> None:
    postgres.connect().close()
    with psycopg.connect(str(postgres.url)) as connection:
        connection.execute(f"delete from strandline_{postgres.log}.log")
    for attempt in (checked, Place.connect):
        with pytest.raises(CorruptLog, match="lost the row"):
            attempt(postgres)


def test_a_damaged_page_is_reported_and_not_raised() -> None:
    """PostgreSQL 18 has checksums unless told otherwise, so it notices."""
    with PostgresServer.start(version=18) as server:
        place = Place(server.url(), "broken")
        with place.connect() as store:
            write_history(store)
        (path,) = server.run("checkpoint; select pg_relation_filepath('strandline_broken.event')")
        server.stop()
        with (server.data / path).open("r+b") as file:
            file.seek(4096)
            file.write(b"damage" * 20)
        server.start_again()
        assert kinds(place) == {"file"}
