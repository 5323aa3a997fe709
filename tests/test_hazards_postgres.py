"""The hazards of the correctness analysis that only a database has: settings, locks, other logs.

Like `test_hazards.py`, whose tests run on PostgreSQL too; the docstrings are the interleavings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from gates import Gate
from places import Place, new_log
from racing import judge_race, race
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendResult,
    EventStore,
    InvalidInput,
    Query,
    QueryItem,
    Unavailable,
)
from strandline.testing import violations
from strandline.testing.conformance.kit import in_thread
from strandline.testing.postgres import VERSIONS, PostgresServer
from test_hazards import at_once, event, is_refused
from test_races import in_threads
from unrelated import unrelated_transaction


def with_setting(place: Place, setting: str) -> Place:
    """The same log, in sessions that begin with a setting, as a role or a database may have it."""
    return Place(f"{place.url}?options={quote(f'-c {setting}')}", place.log)


@pytest.fixture
def stores(kept: Place) -> Iterator[tuple[EventStore, EventStore]]:
    """Two handles on one log that has an event."""
    with kept.connect() as one, kept.connect() as other:
        one.append(event("Opened", "opened"))
        yield one, other


def test_c1_a_transaction_that_began_before_all_others_hides_nothing_from_racers(postgres: Place) -> None:
    """B has its transaction id first; A commits in between; B's own id hides A's event."""
    with postgres.connect() as one, postgres.connect() as other, unrelated_transaction(postgres):
        told = in_threads(
            [lambda store=store, n=n: race(store, n, 40) for n, store in enumerate([one, other] * 3)]
        )
        judge_race(one, told)
        assert violations(one) == []
        seen = [found.position for found in one.read()]
        assert seen == list(range(1, one.head() + 1))


def test_c10_a_tag_cannot_smuggle_anything_into_sql(postgres: Place) -> None:
    """The value `a,wallet:bob` becomes two tags: an event in somebody else's boundary."""
    nasty = [
        *(
            "'; drop schema public cascade; --",
            "{a,b}",
            '{"a","b"}',
            "a\\",
            "\\x00",
            "%s",
            "%(tag)s",
            "$1",
            "(,)",
        ),
        *(
            "NULL",
            "null",
            '"',
            "''",
            "a\u2028b",
            "\u00a0",
            "a\u200bb",
            "E'\\n'",
            "{",
            "}",
            ",",
            "wallet:a,wallet:bob",
        ),
        *("a" * 256, "ä" * 256, "😀" * 256, "ＦＵＬＬ", "İ", "ß"),
    ]
    names = [name for name in nasty if not name.startswith("$")]
    with postgres.connect() as store:
        for name in names:
            store.append(event(name, name), stream=name)
        for position, name in enumerate(names, 1):
            for query in (Query.tag(name), Query.types(name), Query.stream(name)):
                assert [found.position for found in store.read(query)] == [position]
                assert is_refused(store, AppendCondition(query))
                assert not is_refused(store, AppendCondition(query, after=position))
            assert store.retag([position], add=[f"x{name}"[:256]]).count <= 1
        assert not store.exists(Query.tag("wallet:bob"))
        assert violations(store) == []


@pytest.mark.parametrize("level", ["repeatable read", "serializable", "read uncommitted"])
def test_c11_a_stricter_default_isolation_changes_no_decision(postgres: Place, level: str) -> None:
    """B's snapshot is older than its wait for the lock: it cannot see the winner."""
    escaped = level.replace(" ", "\\ ")
    strict = with_setting(postgres, f"default_transaction_isolation={escaped}")
    with psycopg.connect(str(strict.url)) as connection:
        assert connection.execute("show transaction_isolation").fetchone() == (level,)
    with strict.connect() as one, strict.connect() as other, postgres.connect() as usual:
        for number in range(10):
            taken = AppendCondition(Query.tag(f"seat:{number}"))
            results = at_once(
                *(
                    lambda store=store, n=number, c=taken: store.append(event("Taken", f"seat:{n}"), c)
                    for store in (one, other, usual)
                )
            )
            assert results.count(None) == 2
        told = in_threads(
            [lambda store=store, n=n: race(store, n, 30) for n, store in enumerate([one, other, usual] * 2)]
        )
        assert usual.count(Query.types("Taken")) == 10
        judge_race_after(usual, told, 10)
        assert violations(usual) == []


def judge_race_after(store: EventStore, told: list[dict[str, list[Any]]], written: int) -> None:
    """Judge a race in a log that had single events before."""
    first = list(store.read(limit=written))
    entry = [[[str(found.id)], found.position, found.position] for found in first]
    judge_race(store, [*told, {"written": entry, "refused": [], "retagged": []}])


def test_c11_an_append_that_waited_for_another_sees_what_that_one_wrote(
    stores: tuple[EventStore, EventStore],
) -> None:
    """A holds the lock; B begins, and waits; A commits; B judges what it saw when it began."""
    one, other = stores
    for number in range(3):
        gate, seat = Gate("Opened"), f"seat:{number}"
        stale = other.read(Query.tag(seat)).condition
        winner = in_thread(lambda gate=gate, seat=seat: one.append(event("Taken", seat), gate.condition))  # type: ignore[misc]
        assert gate.is_reached.wait(30)
        loser = in_thread(lambda stale=stale, seat=seat: other.append(event("Taken", seat), stale))  # type: ignore[misc]
        time.sleep(0.1)
        gate.is_open.set()
        position = winner().position
        with pytest.raises(AppendConditionFailed) as caught:
            loser()
        assert caught.value.conflict.position == position


def test_m5_logs_of_one_database_do_not_leak_into_each_other(postgres: Place) -> None:
    """alpha's untagged event 1 is returned because beta's event 1 carries the tag."""
    beta_place = new_log(str(postgres.url))
    with postgres.connect() as alpha, beta_place.connect() as beta:
        shared = event("E", "a")
        alpha.append(event("E"))
        beta.append([shared, event("E", "a")])
        assert not alpha.exists(Query.tag("a"))
        assert not is_refused(alpha, AppendCondition(Query.tag("a"), after=1))
        with pytest.raises(InvalidInput, match="head of this log"):
            alpha.append(event("E"), AppendCondition(Query.tag("b"), after=9))
        assert alpha.append(shared) == AppendResult(3, 3, 1)  # an id of another log is not taken
        beta.retag(Query.tag("a"), replace={"a": []}, add=["b"])
        assert (alpha.count(Query.tag("a")), alpha.count(Query.tag("b"))) == (1, 0)
        assert alpha.stats().log != beta.stats().log
        assert (alpha.stats().appends, beta.stats().appends) == (3, 2)


def test_m5_races_in_two_logs_of_one_database_do_not_touch_each_other(postgres: Place) -> None:
    """Positions, ids and locks of one tenant are another's."""
    with postgres.connect() as alpha, new_log(str(postgres.url)).connect() as beta:
        told = in_threads(
            [lambda store=store, n=n: race(store, n, 30) for n, store in enumerate([alpha, beta] * 3)]
        )
        for store, mine in ((alpha, told[::2]), (beta, told[1::2])):
            judge_race(store, mine)
            assert violations(store) == []


def test_m5_a_log_that_is_locked_leaves_the_others_free(postgres: Place) -> None:
    """One global lock: a deposit to bob waits behind alice's (C4)."""
    with postgres.connect() as alpha, new_log(str(postgres.url)).connect() as beta:
        alpha.append(event("Opened"))
        gate = Gate("Opened")
        held = in_thread(lambda: alpha.append(event("E"), gate.condition))
        assert gate.is_reached.wait(30)
        assert in_thread(lambda: beta.append(event("E")))().position == 1
        assert in_thread(alpha.head)() == 1
        gate.is_open.set()
        assert held().position == 2


def test_m6_handles_that_write_boundaries_crosswise_do_not_deadlock(
    stores: tuple[EventStore, EventStore],
) -> None:
    """S1 asserts course and bumps student, S2 asserts student and bumps course: deadlock detected."""

    def cross(store: EventStore, asks: str, writes: str) -> int:
        written = 0
        for _ in range(25):
            try:
                read = store.read(Query.tag(asks))
                written += store.append([event("E", writes), event("E", writes, asks)], read.condition).count
            except AppendConditionFailed:
                continue
        return written

    pairs = [("course:1", "student:1"), ("student:1", "course:1")] * 2
    calls = [lambda pair=pair, n=n: cross(stores[n % 2], *pair) for n, pair in enumerate(pairs)]
    assert sum(at_once(*calls)) + 1 == stores[0].head()
    assert violations(stores[0]) == []


@pytest.mark.parametrize("setting", ["lock_timeout=1s", "statement_timeout=1s"])
def test_r13_an_append_that_waits_too_long_for_its_lock_can_be_sent_again(
    postgres: Place, setting: str
) -> None:
    """A lock timeout is no conflict, and no acceptance."""
    with postgres.connect() as one, with_setting(postgres, setting).connect() as other:
        one.append(event("Opened"))
        sent, gate = event("E"), Gate("Opened")
        held = in_thread(lambda: one.append(event("E"), gate.condition))
        assert gate.is_reached.wait(30)
        with pytest.raises(Unavailable) as caught:
            in_thread(lambda: other.append(sent))()
        assert (caught.value.written, caught.value.retry) == (False, "same")
        gate.is_open.set()
        assert held().position == 2
        assert other.append(sent) == AppendResult(3, 3, 1)


def test_an_append_that_loses_a_deadlock_was_not_written_and_can_be_sent_again(postgres: Place) -> None:
    """A transaction by hand took the next position and waits for the log, whose writer wants that position."""
    # The one that looks for deadlocks is the victim.
    impatient = with_setting(postgres, "deadlock_timeout=10ms")
    tables = f"-csearch_path=strandline_{postgres.log}"
    with (
        impatient.connect() as store,
        psycopg.connect(str(postgres.url), options=f"{tables} -cdeadlock_timeout=1h") as application,
        psycopg.connect(str(postgres.url), autocommit=True) as observer,
    ):
        store.append(event("Opened"))
        sent, gate = event("E", "x"), Gate("Opened")
        held = in_thread(lambda: store.append(sent, gate.condition))
        assert gate.is_reached.wait(30)
        application.execute(
            "insert into event (position, recorded_at, append, id, type, tags, data)"
            " values (2, 0, 2, gen_random_uuid(), 'ByHand', '', '')"
        )
        waits = in_thread(lambda: application.execute("select from log for update"))
        await_lock(observer, application.info.backend_pid)
        gate.is_open.set()
        with pytest.raises(Unavailable, match="deadlock") as caught:
            held()
        assert (caught.value.written, caught.value.retry) == (False, "same")
        waits()
        application.rollback()
        assert (store.head(), store.exists(Query.tag("x"))) == (1, False)
        assert store.append(sent) == AppendResult(2, 2, 1)
        assert violations(store) == []


def await_lock(observer: psycopg.Connection[Any], process: int) -> None:
    """Wait until a process of the server waits for a lock."""
    asked = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
    for _ in range(3_000):
        if observer.execute(asked, [process]).fetchone() == (True,):
            return
        time.sleep(0.01)
    pytest.fail("the process does not wait for a lock")


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03", "57014"])
@pytest.mark.parametrize("is_judged_here", [False, True])
def test_a_transaction_that_the_server_gives_up_wrote_nothing_and_can_be_sent_again(
    postgres: Place, code: str, is_judged_here: bool
) -> None:
    """A serialization failure is taken for a conflict, or for an answer: the event is lost, or decided twice."""
    hook = f"""
create function hook() returns trigger language plpgsql as $$
begin raise exception 'given up' using errcode = '{code}'; end $$;
create trigger hook before insert on event for each row when (new.type = 'E') execute function hook()"""
    tables = f"-csearch_path=strandline_{postgres.log}"
    with (
        postgres.connect() as store,
        psycopg.connect(str(postgres.url), options=tables, autocommit=True) as server,
    ):
        store.append(event("Opened"))
        server.execute(hook)
        sent, items = event("E", "x"), [QueryItem(tags=["y"])]
        if is_judged_here:
            items.append(QueryItem(types=["Opened"], where=lambda found: False))
        condition = AppendCondition(Query.of(*items))
        for _ in range(2):
            with pytest.raises(Unavailable) as caught:
                store.append(sent, condition)
            assert (caught.value.written, caught.value.retry) == (False, "same")
            assert (store.head(), store.exists(Query.tag("x"))) == (1, False)
        server.execute("drop trigger hook on event")
        assert store.append(sent, condition) == AppendResult(2, 2, 1)
        assert store.stats().refused == 0
        assert violations(store) == []


@pytest.fixture(params=VERSIONS, ids=lambda version: f"postgres{version}")
def server(
    request: pytest.FixtureRequest, postgres_server: Callable[[str], PostgresServer]
) -> PostgresServer:
    return postgres_server(f"postgres{request.param}")


def test_o9_cold_starts_at_once_in_an_empty_database_all_work(server: PostgresServer) -> None:
    """Two processes create the counter at the same time: a duplicate key."""
    database = f"cold_{time.monotonic_ns()}"
    server.run(f"create database {database}")

    def start(log: str) -> int:
        with Place(server.url(database), log).connect() as store:
            return store.append(event("E")).position

    logs = ["a", "b"] * 6
    results = in_threads([lambda log=log: start(log) for log in logs])
    assert sorted(results) == sorted([*range(1, 7)] * 2)
