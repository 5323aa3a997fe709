"""What a handler may do in its transaction, and what it may not."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
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
    InvalidInput,
    Query,
)
from strandline.engine.maintenance import check_log


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


def test_a_handler_that_writes_to_the_log_ends_the_run_and_makes_no_dead_letters(store: EventStore) -> None:
    store.append(some("a", count=3))
    follower = store.follower("f")
    with pytest.raises(InvalidInput, match="in its own transaction"):
        follower.catch_up(lambda events, tx: store.append(Event("B", {})), attempts=1, backoff=0)
    assert (follower.dead_letters(), follower.status().position, store.head()) == ([], 0, 3)
    assert follower.catch_up(Seen()) == 3


def test_a_handler_that_tells_its_refusal_in_other_words_ends_the_run_too(store: EventStore) -> None:
    store.append(some("a", count=3))
    follower = store.follower("f")

    def handle(events: Any, tx: Any) -> None:
        try:
            store.append(Event("B", {}))
        except InvalidInput as error:
            raise ValueError("no luck") from error

    with pytest.raises(ValueError, match="no luck"):
        follower.catch_up(handle, attempts=1, backoff=0)
    assert (follower.dead_letters(), follower.status().position) == ([], 0)


def one_by_one(events: Any, tx: Any) -> Any:
    yield from events


async def one_by_one_later(events: Any, tx: Any) -> Any:
    yield events


@pytest.mark.parametrize("handle", [one_by_one, one_by_one_later, lambda *given: one_by_one(*given)])  # noqa: PLW0108
def test_a_handler_whose_code_would_never_run_handles_nothing(place: Place, handle: Any) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            with pytest.raises(InvalidInput, match="nobody takes what it yields"):
                await store.follower("f").catch_up(handle)
            assert (await store.follower("f").status()).position == 0

    with place.connect() as store:
        store.append(some("a"))
        for follows in (
            lambda: store.follower("f").catch_up(handle),
            lambda: store.follower("f").catch_up(handle, in_transaction=False),
            lambda: store.outbox("t", None, "p", lambda events: handle(events, None)).catch_up(),
        ):
            with pytest.raises(InvalidInput, match="nobody takes what it yields"):
                follows()
        assert [status.position for status in store.followers()] == [0, 0]
    if place.url != "memory:":
        asyncio.run(main())


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


def test_a_slow_consumer_outside_the_transaction_keeps_nobody_waiting(store: EventStore) -> None:
    begun, go_on, seen = threading.Event(), threading.Event(), Seen()

    def slow(events: Any, tx: Any) -> None:
        begun.set()
        assert go_on.wait(20)
        seen(events, tx)

    store.append(some("a"))
    with running(store.follower("slow"), slow, in_transaction=False):
        assert begun.wait(20)
        try:
            assert store.append(some("a")).position == 2
            quick = Seen()
            assert store.follower("quick").catch_up(quick) == 2
            assert quick.positions == [1, 2]
            assert [status.lag for status in store.followers()] == [0, 2]
        finally:
            go_on.set()
        until(lambda: seen.positions == [1, 2])
