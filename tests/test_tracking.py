"""Tracked positions survive kills, races, migrations and forged calls, and `check` finds those that are wrong."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from places import Place
from strandline import AppendRequest, AppendResult, Event, TrackingConflict, Unavailable
from strandline.engine.maintenance import check_log, migrate_log
from strandline.engine.postgres import PostgresEngine
from strandline.engine.postgres import schema as database
from strandline.engine.postgres.attempt import Attempt
from strandline.engine.sqlite import schema as file
from strandline.testing import violations

CONSUMER = """
import json, sys, strandline
from strandline import Event, TrackingConflict
url, options = sys.argv[1], json.loads(sys.argv[2])
store = strandline.connect(url, **options)
print("ready", flush=True)
while True:
    position = (store.tracked("source") or 0) + 1
    events = [Event("Taken", {"n": position}) for _ in range(position % 4)]
    try:
        store.append(events, tracking=("source", position))
    except TrackingConflict as conflict:
        assert conflict.tracked >= position
    else:
        print(position, flush=True)
"""


def start(place: Place) -> subprocess.Popen[str]:
    """A process that consumes a source for ever and tells each position that it stored."""
    command = [sys.executable, "-c", CONSUMER, *place.arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def told(consumer: subprocess.Popen[str], count: int) -> list[int]:
    """The first positions that a consumer stored; then it is killed, wherever it is."""
    assert consumer.stdout is not None
    assert consumer.stdout.readline() == "ready\n"
    positions = [int(consumer.stdout.readline()) for _ in range(count)]
    consumer.kill()
    rest, _ = consumer.communicate()
    return positions + [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]


def judge(place: Place, acknowledged: list[int]) -> None:
    """Every position has exactly its events, and no position is acknowledged twice."""
    assert len(set(acknowledged)) == len(acknowledged)
    with place.connect() as store:
        tracked = store.tracked("source") or 0
        taken = [event.json()["n"] for event in store.read()]
        assert taken == [n for n in range(1, tracked + 1) for _ in range(n % 4)]
        assert all(event.tracking == ("source", event.json()["n"]) for event in store.read())
        assert max(acknowledged) <= tracked
        assert violations(store) == []
    assert check_log(place.url, **place.options).problems == []


def test_a_killed_consumer_has_stored_the_position_with_its_events_or_neither(kept: Place) -> None:
    acknowledged: list[int] = []
    for kill in range(6):
        acknowledged += told(start(kept), 5 + 7 * kill)
        judge(kept, acknowledged)


def test_of_two_processes_that_consume_one_source_one_takes_each_position(kept: Place) -> None:
    kept.connect().close()
    consumers = [start(kept), start(kept)]
    acknowledged = [position for consumer in consumers for position in told(consumer, 5)]
    judge(kept, acknowledged)


def written(place: Place) -> None:
    with place.connect() as store:
        store.append([Event("A", 1), Event("A", 2)], tracking=("s", 1))
        store.append(Event("A", 3), tracking=("s", 2))
        store.append(Event("A", 4), tracking=("t", 2))
        store.append((), tracking=("s", 9))


def problems(place: Place) -> list[tuple[str, int]]:
    return [(found.kind, found.position) for found in check_log(place.url, **place.options).problems]


MARKED = '{"$tracking":"%s"}'
PLANTED = [
    ("update tracking set position = 1 where source = 's'", [("tracking", 0)]),
    ("delete from tracking where source = 't'", [("tracking", 0)]),
    ("update event set metadata = {1 s} where position = 3", [("tracking", 3)]),
    ("update event set metadata = {2 s} where position = 2", [("tracking", 2), ("tracking", 3)]),
    ("update event set metadata = {x s} where position = 4", [("event", 4)]),
    ("update event set metadata = {-1 t} where position = 4", [("event", 4)]),
]


@pytest.mark.parametrize(("fault", "expected"), PLANTED)
def test_check_finds_wrong_positions_in_a_file(
    tmp_path: Path, fault: str, expected: list[tuple[str, int]]
) -> None:
    place = Place(tmp_path / "log.db")
    written(place)
    assert problems(place) == []
    with sqlite3.connect(place.url) as connection:
        connection.execute(fault.replace("{", "cast('" + '{"$tracking":"').replace("}", "\"}' as blob)"))
    connection.close()
    assert problems(place) == expected


@pytest.mark.parametrize(("fault", "expected"), PLANTED)
def test_check_finds_wrong_positions_in_a_database(
    postgres: Place, fault: str, expected: list[tuple[str, int]]
) -> None:
    import psycopg

    written(postgres)
    assert problems(postgres) == []
    statement = fault.replace("{", "convert_to('" + '{"$tracking":"').replace("}", "\"}', 'UTF8')")
    with psycopg.connect(str(postgres.url)) as connection:
        connection.execute(f"set search_path = strandline_{postgres.log}")
        connection.execute(statement)
    assert problems(postgres) == expected


def test_a_file_from_before_tracking_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path / "old.db")
    with monkeypatch.context() as before:
        before.setattr(file, "MIGRATIONS", dict(list(file.MIGRATIONS.items())[:3]))
        with place.connect() as store:
            store.append(Event("A", {}))
    assert migrate_log(place.url).steps == ["schema_004"]
    written(place)
    assert problems(place) == []


def test_a_log_from_before_tracking_is_migrated(postgres: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(database, "MIGRATIONS", dict(list(database.MIGRATIONS.items())[:5]))
        postgres.connect().close()
    report = migrate_log(postgres.url, **postgres.options)
    assert report.steps == ["006 tracked positions, refusals and notes"]
    written(postgres)
    assert problems(postgres) == []


def test_the_outcome_of_an_append_without_events_may_stay_unknown(postgres: Place) -> None:
    """After a lost connection its own position may be what refuses it; events have ids to tell."""
    with postgres.connect() as store:
        request, event = (
            AppendRequest((), tracking=("s", 1)),
            AppendRequest(Event("A", {}), tracking=("t", 1)),
        )
        engine = store.engine
        assert isinstance(engine, PostgresEngine)
        store.append_many([request, event])
        outcomes = store.append_many([request, event])
        assert isinstance(outcomes[0], TrackingConflict)
        attempt = Attempt(0, 0)
        attempt.is_unknown = True
        assert engine._writer is not None
        unknown, known = attempt.own([request, event], outcomes, engine._writer)
        assert isinstance(unknown, Unavailable)
        assert unknown.written is None
        assert known == AppendResult(1, 1, 1)
