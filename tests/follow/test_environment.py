"""Faults of the environment stop a follower where it is: no event is passed over because of them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from psycopg import errors as pg

import strandline
from follow.following import Seen, Tally, some
from places import Place
from strandline import EventStore, FollowerFailed, InvalidInput, StrandlineError, Unavailable
from strandline.follow import NdjsonFile, Undeliverable, Worker


def test_a_full_disk_stops_an_outbox_and_passes_over_nothing(store: EventStore, tmp_path: Path) -> None:
    store.append(some("a", count=5))
    worker = store.outbox("a", None, "f", NdjsonFile("/dev/full"), attempts=2, backoff=0)
    with pytest.raises(Unavailable, match="No space left on device") as stop:
        worker.catch_up()
    assert "/dev/full" in str(stop.value)
    assert "make room" in stop.value.hint
    status = worker.status()
    assert (status.position, status.state, worker.dead_letters()) == (0, "failed", [])
    assert "No space left" in status.error
    path = tmp_path / "f.ndjson"
    store.outbox("a", None, "f", NdjsonFile(path)).catch_up()
    assert [json.loads(line)["position"] for line in path.read_bytes().splitlines()] == [1, 2, 3, 4, 5]


FULL_IN_THE_MIDDLE = """
import json, resource, signal, sys, strandline
from strandline.follow import NdjsonFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = strandline.connect("memory:")
store.append([strandline.Event("A", "x" * 3_000) for _ in range(10)])
worker = store.outbox("a", None, "f", NdjsonFile(sys.argv[1]), batch=2, attempts=2, backoff=0)
resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, resource.RLIM_INFINITY))
try:
    worker.catch_up()
    told = None
except strandline.Unavailable as error:
    told = str(error)
lines = lambda: [json.loads(line)["position"] for line in open(sys.argv[1])]
at, before = worker.status().position, lines()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
worker.catch_up()
print(json.dumps([told, at, before, lines(), len(worker.dead_letters())]))
"""

NO_DESCRIPTORS = """
import json, os, resource, sys, strandline
store = strandline.connect(sys.argv[1])
store.append([strandline.Event("A", {}) for _ in range(4)])
seen = []
def handle(events, tx):
    for event in events:
        with open(os.devnull):
            seen.append(event.position)
follower = store.follower("f")
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
def starved(events, tx):
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        handle(events, tx)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    follower.catch_up(starved, attempts=2, backoff=0)
    told = None
except strandline.Unavailable as error:
    told = str(error)
at = follower.status().position
follower.catch_up(handle)
print(json.dumps([told, at, seen, len(follower.dead_letters())]))
"""


def run(program: str, *arguments: object) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_disk_that_fills_up_leaves_whole_batches_and_goes_on_in_order(tmp_path: Path) -> None:
    told, at, before, after, letters = run(FULL_IN_THE_MIDDLE, tmp_path / "f.ndjson")
    assert "File too large" in told
    assert (at, before, after, letters) == (4, [1, 2, 3, 4], list(range(1, 11)), 0)


def test_a_handler_without_descriptors_makes_no_dead_letters(tmp_path: Path) -> None:
    told, at, seen, letters = run(NO_DESCRIPTORS, tmp_path / "log.db")
    assert "Too many open files" in told
    assert (at, seen, letters) == (0, [1, 2, 3, 4], 0)


def test_a_missing_table_stops_it_at_once_and_it_goes_on_when_the_table_is_back(kept: Place) -> None:
    with kept.connect() as store:
        tally, calls = Tally(kept), []
        store.append(some("a", count=3))

        def handle(events: Any, tx: Any) -> None:
            calls.append(len(events))
            tally(events, tx)

        follower = store.follower("f")
        with pytest.raises(FollowerFailed, match="misses a table") as stop:
            follower.catch_up(handle)
        assert calls == [3]
        assert tally.table.split(".")[-1] in str(stop.value)
        assert "reset(0)" in stop.value.hint
        status = follower.status()
        assert (status.position, status.state, follower.dead_letters()) == (0, "failed", [])
        tally.make(store)
        follower.catch_up(handle)
        assert tally.positions(store) == [1, 2, 3]


def test_a_right_that_is_missing_stops_it(postgres: Place) -> None:
    with postgres.connect() as store:
        store.append(some("a"))

        def handle(events: Any, tx: Any) -> None:
            tx.execute("set local role pg_monitor")
            tx.execute("create table public.forbidden (n int)")

        with pytest.raises(FollowerFailed, match="permission denied"):
            store.follower("f").catch_up(handle)
        assert store.follower("f").dead_letters() == []


def test_connections_that_are_terminated_while_a_handler_works_make_no_dead_letters(postgres: Place) -> None:
    with postgres.connect() as store, psycopg.connect(str(postgres.url), autocommit=True) as other:
        tally, kills = Tally(postgres), [1, 1, 1]
        tally.make(store)
        store.append(some("a", count=6))

        def handle(events: Any, tx: Any) -> None:
            tally(events, tx)
            if kills:
                kills.pop()
                ((pid,),) = tx.execute("select pg_backend_pid()")
                other.execute("select pg_terminate_backend(%s, 10000)", (pid,))
                tx.execute("select 1")

        follower = store.follower("f")
        assert follower.catch_up(handle, batch=2, attempts=5, backoff=0.001) == 6
        assert tally.positions(store) == [1, 2, 3, 4, 5, 6]
        assert (kills, follower.dead_letters()) == ([], [])
        kills[:] = [1] * 100
        store.append(some("a"))
        with pytest.raises(Unavailable, match="could not work at event 7"):
            follower.catch_up(handle, attempts=2, backoff=0.001)
        assert (len(kills), follower.status().position, follower.dead_letters()) == (98, 6, [])


def wrapped(error: Exception) -> Exception:
    """As libraries do it."""
    try:
        try:
            raise error
        except Exception as cause:
            raise RuntimeError("the library failed") from cause
    except Exception as outer:
        return outer


def unwrapped(error: BaseException) -> Exception:
    try:
        try:
            raise error
        except BaseException:
            raise ValueError("not from that") from None
    except ValueError as outer:
        return outer


def of_sqlite(statement: str, module: Any) -> Exception:
    connect: Any = sqlite3.connect if module is sqlite3 else apsw.Connection
    with contextlib.closing(connect(":memory:")) as connection, pytest.raises(Exception) as caught:  # noqa: PT011
        connection.execute(statement)
    return caught.value


PASSING = [
    OSError(errno.ENOSPC, "full"),
    OSError(errno.EIO, "broken"),
    PermissionError(errno.EACCES, "no"),
    ConnectionRefusedError(errno.ECONNREFUSED, "nothing listens"),
    ConnectionResetError("by peer"),
    TimeoutError("timed out"),
    MemoryError(),
    ModuleNotFoundError("no module named x"),
    Unavailable("the other store"),
    pg.AdminShutdown("terminated"),
    pg.DiskFull("full"),
    pg.DeadlockDetected("again"),
    psycopg.OperationalError("the connection is closed"),
    wrapped(OSError(errno.ENOSPC, "full")),
    wrapped(psycopg.OperationalError("the connection is closed")),
]


@pytest.mark.parametrize("is_inside", [True, False])
@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_may_pass_is_tried_again_and_then_stops_it(error: Exception, is_inside: bool) -> None:
    with strandline.connect("memory:") as store:
        store.append(some("a", count=2))
        left, seen = [error] * 4, Seen()

        def handle(events: Any, tx: Any) -> None:
            if left:
                raise left.pop()
            seen(events, tx)

        follower = store.follower("f")
        with pytest.raises(Unavailable) as stop:
            follower.catch_up(handle, attempts=3, backoff=0, in_transaction=is_inside)
        assert stop.value.hint
        assert (len(left), follower.status().position, follower.dead_letters()) == (1, 0, [])
        assert follower.catch_up(handle, attempts=3, backoff=0, in_transaction=is_inside) == 2
        assert (seen.positions, follower.dead_letters()) == ([1, 2], [])


MISSING = [
    pg.UndefinedTable("relation does not exist"),
    pg.UndefinedColumn("column does not exist"),
    of_sqlite("select * from missing", apsw),
    of_sqlite("select missing", apsw),
    of_sqlite("select * from missing", sqlite3),
    wrapped(pg.UndefinedTable("relation does not exist")),
]


@pytest.mark.parametrize("error", MISSING, ids=repr)
def test_what_is_missing_stops_it_at_once(error: Exception) -> None:
    with strandline.connect("memory:") as store:
        store.append(some("a", count=2))
        left = [error]

        def handle(events: Any, tx: Any) -> None:
            raise left.pop()

        with pytest.raises(FollowerFailed, match="misses a table"):
            store.follower("f").catch_up(handle)
        assert (store.follower("f").status().position, store.follower("f").dead_letters()) == (0, [])


OF_THE_EVENT = [
    ValueError("bad"),
    TypeError("bad"),
    KeyError("bad"),
    OSError("an error of Python code"),
    pg.UniqueViolation("twice"),
    pg.NumericValueOutOfRange("too much"),
    pg.ProgramLimitExceeded("too long for the index"),
    of_sqlite("select json('{')", apsw),
    of_sqlite("insert into sqlite_schema values (1)", apsw),
    unwrapped(OSError(errno.ENOENT, "missing")),
]


@pytest.mark.parametrize("error", OF_THE_EVENT, ids=repr)
def test_an_error_of_the_handler_makes_a_dead_letter(error: Exception) -> None:
    with strandline.connect("memory:") as store:
        store.append(some("a", count=2))

        def handle(events: Any, tx: Any) -> None:
            raise error

        follower = store.follower("f")
        assert follower.catch_up(handle, attempts=2, backoff=0) == 2
        assert [letter.attempts for letter in follower.dead_letters()] == [2, 2]


def test_a_handler_may_say_that_the_event_is_to_blame_after_all(store: EventStore) -> None:
    store.append(some("a"))

    def handle(events: Any, tx: Any) -> None:
        try:
            os.stat("/nowhere/at/all")
        except OSError as error:
            raise Undeliverable("it names a file that is not there") from error

    store.follower("f").catch_up(handle)
    assert len(store.follower("f").dead_letters()) == 1


def test_an_error_that_the_caller_handles_has_no_part_in_it(store: EventStore) -> None:
    store.append(some("a"))

    def handle(events: Any, tx: Any) -> None:
        raise ValueError("bad")

    try:
        raise OSError(errno.ENOSPC, "full")
    except OSError:
        store.follower("f").catch_up(handle, attempts=1)
    assert [letter.error for letter in store.follower("f").dead_letters()] == ["ValueError: bad"]


def test_a_replay_that_meets_a_fault_keeps_the_letter_as_it_was(store: EventStore) -> None:
    store.append(some("a"))
    errors: list[Exception] = [OSError(errno.ENOSPC, "full"), ValueError("bad")]

    def handle(events: Any, tx: Any) -> None:
        raise errors.pop()

    follower = store.follower("f")
    follower.catch_up(handle, attempts=1)
    with pytest.raises(Unavailable, match="full"):
        follower.replay(1)
    assert [(letter.attempts, letter.error) for letter in follower.dead_letters()] == [(1, "ValueError: bad")]


def injected(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any) -> Any:
        return function("session", *arguments)

    return call


@injected
def with_session(session: str, events: Any, tx: Any) -> None: ...


class Handles:
    def __call__(self, events: Any, tx: Any) -> None: ...


class HandlesOne:
    def __call__(self, events: Any) -> None: ...


def test_a_handler_that_cannot_be_called_is_refused_before_the_run(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            with pytest.raises(InvalidInput, match=r"called with \(events, tx\)"):
                await store.follower("f").catch_up(lambda events: None)

    with place.connect() as store:
        store.append(some("a", count=2))
        refused: list[Callable[[], Any]] = [
            lambda: store.follower("f").catch_up(lambda events: None),
            lambda: store.follower("f").catch_up(lambda events, tx, more: None, in_transaction=False),
            lambda: store.follower("f").catch_up(HandlesOne()),
            lambda: store.follower("f").catch_up(Seen(), on_retag=lambda retag: None),
            lambda: store.follower("f").replay(1, lambda events: None),
            lambda: Worker(store.follower("f"), lambda events: None),
            lambda: store.outbox("t", None, "p", lambda events, tx: None),
            lambda: store.automation("a", None, lambda: None),  # type: ignore[misc,arg-type]
        ]
        for call in refused:
            with pytest.raises(InvalidInput, match=r"which .* does not take") as refusal:
                call()
            assert "write def" in refusal.value.hint
        assert store.followers() == []
        for handle in (Handles(), with_session, lambda *events: None, lambda events, tx=None: None):
            store.follower("g").catch_up(handle)
        store.follower("h").catch_up(max)
        store.outbox("t", None, "p", print).catch_up()
    if place.url != "memory:":
        asyncio.run(main())


def test_with_a_read_only_database_nothing_is_passed_over(kept: Place) -> None:
    with kept.connect() as store:
        store.append(some("a"))

        def handle(events: Any, tx: Any) -> None:
            if kept.is_in_database:
                tx.execute("set transaction read only")
            else:
                tx.execute("pragma query_only = on")
            try:
                tx.execute("create table t (n integer)")
            finally:
                if not kept.is_in_database:
                    tx.execute("pragma query_only = off")

        with pytest.raises(StrandlineError):
            store.follower("f").catch_up(handle, attempts=2, backoff=0)
        assert (store.follower("f").status().position, store.follower("f").dead_letters()) == (0, [])


def test_a_log_in_a_file_that_is_full_keeps_the_checkpoint(tmp_path: Path) -> None:
    with strandline.connect(tmp_path / "log.db") as store:
        store.append(some("a", count=2))

        def handle(events: Any, tx: Any) -> None:
            ((pages,),) = tx.execute("pragma page_count")
            tx.execute(f"pragma max_page_count = {pages + 2}")
            try:
                tx.execute("create table if not exists big (data)")
                tx.execute("insert into big values (zeroblob(1000000))")
            finally:
                tx.execute("pragma max_page_count = 1000000")

        with pytest.raises(Unavailable, match="full"):
            store.follower("f").catch_up(handle, attempts=2, backoff=0)
        assert (store.follower("f").status().position, store.follower("f").dead_letters()) == (0, [])
        assert store.append(some("a")).position == 3


def test_os_errors_tell_what_the_system_said() -> None:
    with strandline.connect("memory:") as store:
        store.append(some("a"))

        def handle(events: Any, tx: Any) -> None:
            os.mkdir("/nowhere/at/all")

        with pytest.raises(
            Unavailable, match=r"at event 1 \(Happened\): FileNotFoundError: .*nowhere"
        ) as stop:
            store.follower("f").catch_up(handle, attempts=1)
        assert isinstance(stop.value.__cause__, FileNotFoundError)
