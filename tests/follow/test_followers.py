"""A follower delivers every matching event once and in order, and remembers how far it is."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import strandline
from follow.following import Seen, Tally, running, some, until
from places import Place
from strandline import (
    AppendRequest,
    Event,
    EventStore,
    FollowerFailed,
    InvalidInput,
    InvalidQuery,
    NotFound,
    Query,
    QueryItem,
    SchemaMismatch,
    StoreClosed,
)
from strandline.engine.maintenance import check_log, migrate_log
from strandline.engine.postgres import schema as database
from strandline.engine.sqlite import schema as file
from strandline.testing import ManualClock


def test_it_delivers_every_matching_event_in_order_and_goes_on_where_it_was(store: EventStore) -> None:
    for number in range(23):
        store.append(some("a" if number % 2 else "b"))
    seen, follower = Seen(), store.follower("odd", Query.tag("a"))
    assert follower.catch_up(seen, batch=4) == 23
    assert seen.batches == [[2, 4, 6, 8], [10, 12, 14, 16], [18, 20, 22]]
    store.append(some("a", count=2))
    again = store.follower("odd", Query.tag("a"), after=3)
    assert again.catch_up(seen) == 25
    assert seen.batches[3:] == [[24, 25]]
    assert follower.catch_up(seen) == 25
    assert seen.positions == [*range(2, 24, 2), 24, 25]


def test_a_new_one_begins_where_it_is_told_to(store: EventStore) -> None:
    store.append(some("a", count=5))
    seen = Seen()
    store.follower("late", after=3).catch_up(seen)
    assert seen.positions == [4, 5]
    with pytest.raises(InvalidInput, match="the head of this log is 5"):
        store.follower("too late", after=6).catch_up(seen)


def test_followers_do_not_know_of_each_other(store: EventStore) -> None:
    store.append(some("a", count=3))
    one, other = Seen(), Seen()
    store.follower("one").catch_up(one)
    store.follower("other", Query.tag("a"), after=1).catch_up(other)
    assert (one.positions, other.positions) == ([1, 2, 3], [2, 3])
    assert [(status.name, status.position) for status in store.followers()] == [("one", 3), ("other", 3)]


def test_it_waits_for_more_until_it_is_stopped(store: EventStore) -> None:
    seen, follower = Seen(), store.follower("live", Query.tag("a"))
    with running(follower, seen) as outcome:
        for number in range(1, 6):
            store.append(some("a"))
            until(lambda n=number: len(seen.positions) == n)  # type: ignore[misc]
        store.append(some("b"))
        follower.stop()
        until(lambda: outcome)
    assert seen.positions == [1, 2, 3, 4, 5]
    assert outcome == [follower.status().position]
    with running(follower, seen):
        store.append(some("a"))
        until(lambda: seen.positions[-1] == 7)


def test_a_stop_that_comes_before_the_run_ends_it(store: EventStore) -> None:
    store.append(some("a"))
    seen, follower = Seen(), store.follower("f")
    follower.stop()
    assert follower.run(seen) == 0
    assert follower.catch_up(seen) == 1
    assert seen.positions == [1]


def test_an_interrupt_undoes_what_was_begun_and_lets_others_go_on(kept: Place) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        store.append(some("a", count=3))

        def interrupted(events: Any, tx: Any) -> None:
            tally(events, tx)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store.follower("f").run(interrupted)
        assert (tally.positions(store), store.follower("f").status().state) == ([], "idle")
        store.follower("f").catch_up(tally)
        assert tally.positions(store) == [1, 2, 3]


def test_closing_the_store_ends_the_run_after_what_it_has_begun(place: Place) -> None:
    store = place.connect()
    store.append(some("a"))
    began, go_on, seen = threading.Event(), threading.Event(), Seen()

    def slow(events: Any, tx: Any) -> None:
        began.set()
        assert go_on.wait(20)
        seen(events, tx)

    with running(store.follower("f"), slow) as outcome:
        assert began.wait(20)
        closing = threading.Thread(target=store.close)
        closing.start()
        go_on.set()
        closing.join(20)
        until(lambda: outcome)
    assert outcome == [1]
    assert seen.positions == [1]
    with pytest.raises(StoreClosed):
        store.follower("f")
    if place.url != "memory:":
        with place.connect() as again:
            assert again.follower("f").status().position == 1
            assert again.follower("f").status().state == "idle"


def test_what_a_handler_writes_and_the_checkpoint_are_one_transaction(kept: Place) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        store.append(some("a", count=10))
        follower = store.follower("tally")
        failures = []

        def fails_at_first(events: Any, tx: Any) -> None:
            tally(events, tx)
            if len(failures) < 3:
                failures.append(len(events))
                raise OSError("not now")

        assert follower.catch_up(fails_at_first, backoff=0) == 10
        assert failures == [10, 1, 1]
        assert tally.positions(store) == list(range(1, 11))
        assert follower.dead_letters() == []
    with kept.connect() as store:
        assert store.follower("tally").catch_up(tally) == 10
        assert tally.positions(store) == list(range(1, 11))
    assert check_log(kept.url, **kept.options).problems == []


def test_a_store_in_memory_has_no_sql(store: EventStore, place: Place) -> None:
    if place.url != "memory:":
        return
    store.append(some("a"))
    for ask in (lambda tx: tx.execute("select 1"), lambda tx: tx.connection):
        error = []

        def handle(events: Any, tx: Any, ask: Any = ask, error: list[Any] = error) -> None:
            with pytest.raises(InvalidInput) as refusal:
                ask(tx)
            error.append(refusal.value.hint)

        store.follower(f"f{id(ask)}").catch_up(handle)
        assert 'connect("file.db")' in error[0]


def test_the_checkpoint_moves_with_the_head_when_nothing_matches(store: EventStore) -> None:
    store.append(some("b", count=3))
    follower = store.follower("f", Query.tag("a"))
    assert follower.catch_up(Seen()) == 3
    assert (follower.status().position, follower.status().lag) == (3, 0)
    with running(follower, Seen()):
        store.append(some("b", count=4))
        until(lambda: follower.status().position == 7, "the checkpoint has moved")


def test_nothing_is_written_while_nothing_happens(kept: Place) -> None:
    with kept.connect() as store:
        store.append(some("b"))
        follower = store.follower("f", Query.tag("a"), lease=3_000)
        with running(follower, Seen()):
            until(lambda: follower.status().position == 1)
            before = store.engine.followers("f")
            writes = []
            begin = type(store.engine.transaction()).begin
            type(store.engine.transaction()).begin = lambda tx: (writes.append(tx), begin(tx))[1]
            try:
                threading.Event().wait(1.6)
            finally:
                type(store.engine.transaction()).begin = begin
            assert (writes, store.engine.followers("f")) == ([], before)


def test_status_says_how_it_is(place: Place) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store:
        follower = store.follower("f", Query.tag("a"))
        assert (follower.status().state, follower.status().position) == ("idle", 0)
        store.append(some("a", count=2))
        clock.move(30)
        status = follower.status()
        assert (status.head, status.lag, status.lag_seconds, status.owner) == (2, 2, 30.0, "")
        with running(follower, Seen()):
            until(lambda: follower.status().lag == 0)
            status = follower.status()
            assert (status.state, status.lag_seconds) == ("running", 0.0)
            assert status.owner == store.leases.owner
        assert follower.status().state == "idle"
        assert store.followers() == [follower.status()]


def test_paused_it_delivers_nothing_whoever_runs_it(place: Place) -> None:
    with place.connect() as store:
        seen, follower = Seen(), store.follower("f")
        with running(follower, seen) as outcome:
            store.append(some("a"))
            until(lambda: seen.positions == [1])
            store.follower("f").pause()
            store.append(some("a"))
            until(lambda: follower.status().owner == "", "the runner has let go")
            assert (follower.status().state, seen.positions) == ("paused", [1])
            with pytest.raises(FollowerFailed, match="paused") as refusal:
                store.follower("f").catch_up(seen)
            assert "resume" in refusal.value.hint
            store.follower("f").resume()
            until(lambda: seen.positions == [1, 2])
        assert outcome == [2]


def test_it_can_be_paused_before_it_ever_ran(store: EventStore) -> None:
    store.append(some("a"))
    seen, follower = Seen(), store.follower("f")
    follower.pause()
    with running(store.follower("f"), seen):
        until(lambda: follower.status().state == "paused")
    assert seen.positions == []
    follower.resume()
    follower.catch_up(seen)
    assert seen.positions == [1]


def test_reset_goes_back_to_a_position_or_a_time(place: Place) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store:
        for _ in range(4):
            store.append(some("a"))
            clock.move(60)
        seen, follower = Seen(), store.follower("f")
        follower.catch_up(seen)
        assert follower.reset(2) == 2
        assert follower.status().position == 2
        follower.catch_up(seen)
        assert follower.reset(clock.now - timedelta(seconds=90)) == 3
        follower.catch_up(seen)
        assert follower.reset(0) == 0
        follower.catch_up(seen)
        assert seen.positions == [1, 2, 3, 4, 3, 4, 4, 1, 2, 3, 4]
        with pytest.raises(InvalidInput, match="the head of this log is 4"):
            follower.reset(5)
        with pytest.raises(InvalidInput):
            follower.reset(datetime(2026, 1, 1))  # noqa: DTZ001
        assert follower.status().position == 4


def test_a_reset_reaches_whoever_runs_it(store: EventStore) -> None:
    seen, follower = Seen(), store.follower("f")
    store.append(some("a", count=2))
    with running(follower, seen):
        until(lambda: seen.positions == [1, 2])
        store.follower("f").reset(0)
        store.append(some("a"))
        until(lambda: seen.positions[-1] == 3)
    assert seen.positions == [1, 2, 1, 2, 3]


def test_a_reset_of_another_process_reaches_who_waits_for_more(kept: Place) -> None:
    seen = Seen()
    with kept.connect() as store, kept.connect() as other:
        store.append(some("a", count=2))
        with running(store.follower("f"), seen):
            until(lambda: seen.positions == [1, 2])
            other.follower("f").reset(1)
            until(lambda: seen.positions == [1, 2, 2])
            other.follower("f").forget()
            until(lambda: seen.positions == [1, 2, 2, 1, 2])


def test_a_pause_of_another_process_reaches_who_waits_for_more(kept: Place) -> None:
    with kept.connect() as store, kept.connect() as other:
        follower = store.follower("f")
        with running(follower, Seen()):
            until(lambda: follower.status().state == "running")
            other.follower("f").pause()
            until(lambda: follower._run is not None and follower._run.is_waiting)
            other.follower("f").resume()
            until(lambda: follower.status().state == "running")


@pytest.mark.parametrize("position", [0, 1, 4])
def test_a_reset_between_a_read_and_its_transaction_is_noticed(kept: Place, position: int) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        store.append(some("a", count=3))
        follower, reads = store.follower("f"), []
        follower.catch_up(tally)
        store.append(some("a", count=3))
        read_page = store.engine.read_page

        def read_then_reset(query: Query, span: Any, size: int) -> Any:
            page = read_page(query, span, size)
            if size == 77:
                reads.append(span.after)
                if len(reads) == 1:
                    store.follower("f").reset(position)
            return page

        store.engine.read_page = read_then_reset  # type: ignore[method-assign]
        assert follower.catch_up(tally, batch=77) == 6
        assert reads == [3, position]
        assert tally.positions(store) == [1, 2, 3, *range(position + 1, 7)]


def test_it_can_be_forgotten(store: EventStore) -> None:
    store.append(some("a"))
    follower = store.follower("f")
    follower.catch_up(Seen())
    follower.forget()
    assert store.followers() == []
    seen = Seen()
    follower.catch_up(seen)
    assert seen.positions == [1]


def test_another_query_under_the_same_name_is_noticed(store: EventStore) -> None:
    store.append([*some("a"), *some("b")])
    store.follower("f", Query.tag("a")).catch_up(Seen())
    other, seen = store.follower("f", Query.tag("b")), Seen()
    with pytest.raises(FollowerFailed, match="another query") as refusal:
        other.catch_up(seen)
    assert "reset" in refusal.value.hint
    other.reset(0)
    other.catch_up(seen)
    assert seen.positions == [2]


def test_a_query_may_have_a_callable(store: EventStore) -> None:
    store.append([Event("A", number) for number in range(1, 8)])
    query = Query.of(QueryItem(where=lambda event: event.json() % 3 == 0))
    seen = Seen()
    assert store.follower("f", query).catch_up(seen, batch=1) == 7
    assert seen.positions == [3, 6]
    store.follower("f", query).catch_up(seen)
    assert seen.positions == [3, 6]


def test_a_log_that_was_restored_to_the_past_is_noticed(tmp_path: Path) -> None:
    from strandline.engine.maintenance import backup_log

    with strandline.connect(tmp_path / "log.db") as store:
        store.append(some("a", count=3))
        store.follower("f").catch_up(Seen())
        store.append(some("a", count=3))
        store.follower("f").catch_up(Seen())
    backup_log(tmp_path / "log.db", tmp_path / "old.db")
    with strandline.connect(tmp_path / "old.db") as store:
        database = store.engine._connection.database  # type: ignore[attr-defined]
        database.execute("delete from event where position > 4; delete from posting where position > 4")
    with strandline.connect(tmp_path / "old.db") as store:
        with pytest.raises(FollowerFailed, match="at position 6, but the head of this log is 4") as refusal:
            store.follower("f").catch_up(Seen())
        assert "reset(0)" in refusal.value.hint
        seen = Seen()
        store.follower("f").reset(0)
        store.follower("f").catch_up(seen)
        assert seen.positions == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.append(Event("B", {})),
        lambda store: store.append_many([AppendRequest(Event("B", {}))]),
        lambda store: store.retag([1], add=["x"]),
        lambda store: store.decide(["a"], lambda events: [Event("B", {}, tags=["a"])]),
        lambda store: store.follower("other").run(Seen()),
        lambda store: store.follower("other").pause(),
        lambda store: store.follower("f").reset(0),
        lambda store: store.close(),
    ],
)
def test_a_handler_cannot_write_to_the_log(store: EventStore, write: Any) -> None:
    store.append(some("a"))
    hints = []

    def handle(events: Any, tx: Any) -> None:
        with pytest.raises(InvalidInput) as refusal:
            write(store)
        hints.append(refusal.value.hint)

    store.follower("f").catch_up(handle)
    assert "automation" in hints[0]
    assert store.head() == 1
    assert store.append(Event("B", {})).position == 2


def test_a_handler_may_read_while_others_append(store: EventStore) -> None:
    """On SQLite the writer waits for the handler's transaction, and the handler's reads must not wait for the writer."""
    store.append(some("a", count=3))
    appended = threading.Thread(target=lambda: store.append(some("a")))

    def handle(events: Any, tx: Any) -> None:
        if not appended.ident:
            appended.start()
            threading.Event().wait(0.05)
        assert store.head() in {3, 4}
        assert [event.position for event in store.read(Query.tag("a"), until=3)] == [1, 2, 3]
        assert store.count(Query.tag("a")) in {3, 4}
        assert store.exists(Query.tag("a"))

    store.follower("f").catch_up(handle)
    appended.join(20)
    assert store.head() == 4


def test_a_store_can_be_opened_and_read_while_a_handler_is_at_work(kept: Place) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(events: Any, tx: Any) -> None:
        begun.set()
        assert go_on.wait(20)

    with kept.connect() as store:
        store.append(some("a"))
        with running(store.follower("f"), slow):
            assert begun.wait(20)
            try:
                with kept.connect(create=False) as other:
                    assert [event.position for event in other.read()] == [1]
                    assert other.followers()[0].state == "running"
            finally:
                go_on.set()


def test_outside_the_transaction_a_handler_may_append(store: EventStore) -> None:
    store.append(some("a", count=2))

    def answer(events: Any, tx: Any) -> None:
        assert tx is None
        for event in events:
            store.append(Event("Answered", {}, tags=[f"to:{event.position}"]))

    store.follower("f", Query.tag("a")).catch_up(answer, in_transaction=False)
    assert [event.tags for event in store.read(Query.types("Answered"))] == [("to:1",), ("to:2",)]
    assert store.follower("f", Query.tag("a")).status().position == 2


ENDINGS = ("commit", "rollback", "COMMIT -- now", "end")


@pytest.mark.parametrize("statement", ENDINGS)
def test_a_handler_that_ends_the_transaction_is_a_handler_that_fails(kept: Place, statement: str) -> None:
    with kept.connect() as store:
        store.append(some("a"))

        def handle(events: Any, tx: Any) -> None:
            tx.execute(statement)

        follower = store.follower("f")
        if kept.is_in_database:
            with pytest.raises(InvalidInput, match="before its time"):
                follower.catch_up(handle, attempts=1)
            assert follower.status().position == 0
        else:
            follower.catch_up(handle, attempts=1)
            (letter,) = follower.dead_letters()
            assert "AuthError" in letter.error
        assert store.append(some("a")).position == 2


def test_savepoints_and_the_drivers_own_connection_are_the_handlers(kept: Place) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        store.append(some("a", count=2))

        def handle(events: Any, tx: Any) -> None:
            tally(events, tx)
            nested = tx.connection.transaction() if kept.is_in_database else tx.connection
            with suppress(ZeroDivisionError), nested:
                tally(events, tx)
                raise ZeroDivisionError
            tx.execute_many(
                f"insert into {tally.table} values ({tally._mark}, {tally._mark})", [(90, 1), (91, 1)]
            )
            rows = tx.execute(f"select count(*) from {tally.table}")
            assert [tuple(row) for row in rows] == [(4,)]

        store.follower("f").catch_up(handle)
        assert tally.positions(store) == [1, 2, 90, 91]


@pytest.mark.parametrize(
    "statement",
    [
        "delete from event",
        "update follower set position = 0",
        "insert into name (text) values ('x')",
        "drop table posting",
        "alter table event add column x",
    ],
)
def test_a_handler_cannot_change_the_tables_of_a_file(tmp_path: Path, statement: str) -> None:
    with strandline.connect(tmp_path / "log.db") as store:
        store.append(some("a"))
        store.follower("f").catch_up(lambda events, tx: tx.execute(statement), attempts=1)
        (letter,) = store.follower("f").dead_letters()
        assert "AuthError" in letter.error
    assert check_log(tmp_path / "log.db").problems == []


def test_a_transaction_that_a_handler_kept_is_of_no_use(place: Place) -> None:
    with place.connect() as store:
        store.append(some("a"))
        kept: list[Any] = []
        store.follower("f").catch_up(lambda events, tx: kept.append(tx))
        with pytest.raises(InvalidInput) as refusal:
            kept[0].execute("select 1")
        assert "inside the handler" in refusal.value.hint or place.url == "memory:"


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 0},
        {"batch": True},
        {"attempts": 0},
        {"until": -1},
        {"backoff": -1},
        {"backoff": "soon"},
        {"on_failure": "panic"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with strandline.connect("memory:") as store:
        follower = store.follower("f")
        with pytest.raises(InvalidInput):
            follower.run(Seen(), **options)
        assert follower.catch_up(Seen()) == 0


def test_names_queries_and_leases_are_checked() -> None:
    with strandline.connect("memory:") as store:
        for name in ("", "$own", "x" * 257, 7, "a\nb"):
            with pytest.raises(InvalidInput):
                store.follower(name)  # type: ignore[arg-type]
        with pytest.raises(InvalidQuery):
            store.follower("f", "a")  # type: ignore[arg-type]
        for lease in (0, -1, "long"):
            with pytest.raises(InvalidInput):
                store.follower("f", lease=lease)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            store.follower("f", after=-1)
        with pytest.raises(InvalidInput):
            store.follower("f").run("handle")  # type: ignore[arg-type]


def test_an_async_handler_needs_an_async_store() -> None:
    async def handle(events: Any, tx: Any) -> None:
        """Nobody awaits it."""

    with strandline.connect("memory:") as store:
        store.append(some("a"))
        for wrong in (handle, lambda events, tx: handle(list(events), tx)):
            with pytest.raises(InvalidInput) as refusal:
                store.follower("f").catch_up(wrong)
            assert "connect_async" in refusal.value.hint
        assert store.follower("f").status().position == 0


def test_one_object_runs_once_at_a_time(store: EventStore) -> None:
    follower = store.follower("f")
    with running(follower, Seen()):
        until(lambda: follower.status().state == "running")
        with pytest.raises(InvalidInput, match="runs already"):
            follower.run(Seen())


def test_the_position_of_a_dead_letter_is_looked_for(store: EventStore) -> None:
    store.append(some("a"))
    follower = store.follower("f")
    for ask in (follower.discard, lambda position: follower.replay(position, Seen())):
        with pytest.raises(NotFound):
            ask(1)
    with pytest.raises(NotFound):
        follower.replay(9, Seen())
    with pytest.raises(InvalidInput, match="no handler"):
        follower.replay(1)


def test_a_file_from_before_followers_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        older = {name: file.MIGRATIONS[name] for name in ("schema_001", "schema_002")}
        before.setattr(file, "MIGRATIONS", older)
        with strandline.connect(tmp_path / "old.db") as store:
            store.append(Event("A", {}))
    migrated(Place(tmp_path / "old.db"))


def test_a_log_from_before_followers_is_migrated(postgres: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        older = {name: database.MIGRATIONS[name] for name in ("001 the log", "002 snapshots")}
        before.setattr(database, "MIGRATIONS", older)
        with postgres.connect() as store:
            store.append(Event("A", {}))
    migrated(postgres)


def migrated(place: Place) -> None:
    with pytest.raises(SchemaMismatch, match="has schema 2"):
        place.connect()
    assert migrate_log(place.url, **place.options).before == 2
    with place.connect() as store:
        seen = Seen()
        assert store.follower("f").catch_up(seen) == 1
        assert seen.positions == [1]


def test_times_are_utc(store: EventStore) -> None:
    store.append(some("a"))

    def fail(events: Any, tx: Any) -> None:
        raise OSError("no")

    store.follower("f").catch_up(fail, attempts=1)
    (letter,) = store.follower("f").dead_letters()
    assert letter.time.tzinfo is UTC
