"""A log on PostgreSQL that goes back in time: a failover to a replica that missed the tail, a backup that was restored.

Every store here was opened before that, and has seen events that are gone afterwards.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import strandline
from proxies import PoolingProxy
from strandline import (
    AppendCondition,
    AppendRequest,
    CorruptLog,
    DomainEvent,
    Event,
    EventStore,
    Projection,
    Query,
    TagId,
    command,
    on,
)
from strandline.engine import Snapshot
from strandline.engine.maintenance import check_log
from strandline.testing.postgres import PostgresServer

KEPT, SEEN, LATER = 600, 640, 700
PATIENCE = 60


class WalletId(TagId): ...


class Deposited(DomainEvent):
    wallet: WalletId
    amount: int


class Withdrawn(DomainEvent):
    wallet: WalletId
    amount: int


class Wallet(Projection):
    id: WalletId
    balance: int = 0

    @on
    def deposited(self, event: Deposited) -> None:
        self.balance += event.amount

    @on
    def withdrawn(self, event: Withdrawn) -> None:
        self.balance -= event.amount


class TooLittleError(Exception): ...


@command
def withdraw(wallet: Wallet, amount: int) -> Iterator[Withdrawn]:
    if wallet.balance < amount:
        raise TooLittleError
    yield Withdrawn(wallet=wallet.id, amount=amount)


def deposits(count: int, amount: int) -> list[Deposited]:
    return [Deposited(wallet=WalletId("k1"), amount=amount) for _ in range(count)]


def until(is_so: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


class Later:
    """Something that another thread does, and what came of it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error

    def ended(self) -> BaseException | None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it still runs"
        return self.error


def fail_over(stack: ExitStack) -> tuple[PostgresServer, Callable[[], None], Callable[[], None]]:
    """A server; and what keeps its replica from hearing more, and then puts that in its place."""
    server = stack.enter_context(PostgresServer.start(version=18))
    replica: list[PostgresServer] = []

    def part() -> None:
        replica.append(stack.enter_context(server.replica()))
        replica[0].run("alter system set primary_conninfo = ''")
        replica[0].run("select pg_reload_conf()")
        until(lambda: not replica[0].run("select pid from pg_stat_wal_receiver"))

    def take_over() -> None:
        server.stop_immediately()
        replica[0].stop()
        replica[0].port = server.port
        replica[0].start_again()
        replica[0].run("select pg_promote()")

    return server, part, take_over


def restore(stack: ExitStack) -> tuple[PostgresServer, Callable[[], None], Callable[[], None]]:
    """A server; and what copies its files, and later puts the copy in their place."""
    server = stack.enter_context(PostgresServer.start(version=18))
    copy = server.folder / "copy"

    def copy_files() -> None:
        server.stop()
        subprocess.run(["cp", "-a", server.data, copy], check=True)
        server.start_again()

    def put_back() -> None:
        server.stop()
        server.data.rename(server.folder / "lost")
        copy.rename(server.data)
        server.start_again()

    return server, copy_files, put_back


class Story:
    """Stores that are open while their log goes from event 640 back to 600, and on to 700 in one of two cases."""

    def __init__(self, stack: ExitStack, how: str) -> None:
        make = fail_over if how == "failover" else restore
        self.server, keep, self._go_back = make(stack)
        self._goes_on = how == "failover"
        self._stack = stack
        self.untouched = self.open()
        self.untouched.append(deposits(KEPT, 1))
        keep()
        self.untouched.head()
        self.tail = self.open()
        self.tail.append(deposits(SEEN - KEPT, 1_000))

    def open(self, url: str | None = None) -> EventStore:
        return self._stack.enter_context(strandline.connect(url or self.server.url()))

    def go_back(self) -> None:
        self._go_back()
        if self._goes_on:
            with strandline.connect(self.server.url()) as other:
                other.append([Event("Other", {"n": n}) for n in range(LATER - KEPT)])

    @property
    def head(self) -> int:
        return LATER if self._goes_on else KEPT


@pytest.fixture(params=["failover", "restored backup"])
def story(request: pytest.FixtureRequest) -> Iterator[Story]:
    with ExitStack() as stack:
        yield Story(stack, request.param)


def refuses(store: EventStore) -> None:
    """It refuses everything, again and again, with the same error; and nothing is written."""
    uses: list[Callable[[], object]] = [
        lambda: store.append(Event("X", {})),
        lambda: store.append(Event("X", {}), AppendCondition(Query.tag("wallet:k1"), after=SEEN)),
        lambda: store.append_many([AppendRequest(Event("X", {})), AppendRequest(Event("Y", {}))]),
        lambda: store.retag(1, add=["vip"]),
        store.read,
        store.head,
        lambda: store.exists(Query.all()),
        store.count,
        store.stats,
        lambda: next(store.appends()),
        lambda: store.project(Wallet("k1")),
        lambda: store.execute(withdraw, Wallet("k1"), 1),
        lambda: next(store.subscribe()),
        lambda: store.follower("new").catch_up(lambda events, tx: None),
        store.followers,
    ]
    messages = set()
    for use in [*uses, *uses]:
        with pytest.raises(CorruptLog, match="back in time") as caught:
            use()
        assert "connect again" in caught.value.hint
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_nothing_that_a_store_has_seen_survives_the_events(story: Story) -> None:
    deciding, conditional, blind, reading, waiting, following, by_hand, keeping, steering = (
        story.open() for _ in range(9)
    )
    # What each of them has seen or holds.
    assert deciding.project(Wallet("k1")).balance == KEPT + (SEEN - KEPT) * 1_000
    condition = conditional.read(Query.tag("wallet:k1")).condition
    assert blind.head() == steering.head() == SEEN
    pages = iter(reading.read())
    assert [next(pages).position for _ in range(500)][-1] == 500
    got: list[int] = []
    subscription = waiting.subscribe(after=SEEN)
    subscribed = Later(lambda: got.extend(event.position for event in subscription))
    handled: list[int] = []
    follower = following.follower("follower")
    followed = Later(
        lambda: follower.run(lambda events, tx: handled.extend(event.position for event in events))
    )
    until(lambda: handled and handled[-1] == SEEN)
    boundary = by_hand.boundary(Wallet("k1"))
    inside = boundary.__enter__()
    may_decide, has_read = threading.Event(), threading.Event()

    @command
    def withdraw_slowly(wallet: Wallet) -> Iterator[Withdrawn]:
        has_read.set()
        may_decide.wait(PATIENCE)
        yield Withdrawn(wallet=wallet.id, amount=wallet.balance)

    in_flight = Later(lambda: keeping.execute(withdraw_slowly, Wallet("k1")))
    assert has_read.wait(PATIENCE)
    runner = asyncio.Runner()
    awaited = runner.run(open_async(story.server.url()))

    story.go_back()
    may_decide.set()

    with pytest.raises(CorruptLog):
        deciding.execute(withdraw, Wallet("k1"), 30_000)
    with pytest.raises(CorruptLog):
        conditional.append(Event("SeatSold", {}, tags=["wallet:k1"]), condition)
    with pytest.raises(CorruptLog):
        blind.append(Event("Blind", {}))
    with pytest.raises(CorruptLog):
        steering.follower("follower").forget()
    with pytest.raises(CorruptLog):
        list(pages)
    assert isinstance(subscribed.ended(), CorruptLog)
    assert isinstance(followed.ended(), CorruptLog)
    assert isinstance(in_flight.ended(), CorruptLog)
    inside.append(Withdrawn(wallet=WalletId("k1"), amount=30_000))
    with pytest.raises(CorruptLog):
        boundary.__exit__(None, None, None)
    runner.run(all_refused(*awaited))
    runner.close()
    for store in (
        deciding,
        conditional,
        blind,
        reading,
        waiting,
        following,
        by_hand,
        keeping,
        steering,
        story.tail,
    ):
        refuses(store)
    assert got == []
    assert handled == [*range(1, SEEN + 1)]

    # A store that has seen none of the lost events goes on, and so does one that is opened now.
    assert story.untouched.project(Wallet("k1")).balance == KEPT
    with strandline.connect(story.server.url()) as again:
        assert again.head() == story.head  # nothing was written by all that
        with pytest.raises(TooLittleError):
            again.execute(withdraw, Wallet("k1"), 30_000)
        assert again.execute(withdraw, Wallet("k1"), KEPT).count == 1
    assert check_log(story.server.url()).problems == []


async def open_async(url: str) -> tuple[Any, asyncio.Task[Any], Any]:
    store = await strandline.connect_async(url)
    await store.project(Wallet("k1"))
    subscription = store.subscribe(after=SEEN)
    task = asyncio.create_task(anext(subscription))
    await asyncio.sleep(0)
    read = await store.read(Query.tag("wallet:k1"))
    return store, task, read.condition


async def open_reader(url: str) -> Any:
    store = await strandline.connect_async(url)
    await store.read(limit=1)
    return store


async def cannot_read(store: Any) -> None:
    with pytest.raises(CorruptLog):
        await store.read(limit=1)
    await store.close()


async def all_refused(store: Any, task: asyncio.Task[Any], condition: AppendCondition) -> None:
    with pytest.raises(CorruptLog):
        await store.read(limit=1)
    with pytest.raises(CorruptLog):
        await task
    for _ in range(2):
        for use in (
            lambda: store.append(Event("X", {}), condition),
            lambda: store.execute(withdraw, Wallet("k1"), 30_000),
            lambda: store.project(Wallet("k1")),
            store.head,
            lambda: anext(store.subscribe()),
        ):
            with pytest.raises(CorruptLog):
                await use()
    await store.close()


def test_a_pooler_hides_the_lost_connection_but_not_the_loss(story: Story) -> None:
    with PoolingProxy(story.server.url()) as pooler:
        reading, appending, keeping = (story.open(pooler.url) for _ in range(3))
        for store in (reading, appending, keeping):
            assert store.project(Wallet("k1")).balance > KEPT
        runner = asyncio.Runner()
        awaited = runner.run(open_async(pooler.url))
        reader = runner.run(open_reader(pooler.url))
        story.go_back()
        with pytest.raises(CorruptLog):
            reading.project(Wallet("k1"))
        with pytest.raises(CorruptLog):
            appending.append(Event("X", {}))
        with pytest.raises(CorruptLog):
            keeping.followers()
        runner.run(cannot_read(reader))
        runner.run(all_refused(*awaited))
        runner.close()
        for store in (reading, appending, keeping):
            refuses(store)
            store.close()


def test_a_handler_at_work_does_not_commit_for_events_that_are_gone(story: Story) -> None:
    store = story.open()
    begun, may_end = threading.Event(), threading.Event()

    def handle(events: Any, tx: Any) -> None:
        begun.set()
        may_end.wait(PATIENCE)
        tx.execute("create table made (n int)")

    following = Later(lambda: store.follower("slow").catch_up(handle, batch=SEEN))
    assert begun.wait(PATIENCE)
    story.go_back()
    may_end.set()
    assert isinstance(following.ended(), CorruptLog)
    assert story.server.run("select to_regclass('made')") == [""]
    assert story.server.run("select position from strandline_default.follower where name = 'slow'") in (
        [],
        ["0"],
    )
    refuses(store)


def test_a_snapshot_of_events_that_are_gone_is_not_kept(story: Story) -> None:
    store = story.open()
    assert store.head() == SEEN
    story.go_back()
    with pytest.raises(CorruptLog):
        store.engine.save_snapshot(Snapshot("Wallet", "wallet:k1", "1", SEEN, b"{}"))
    assert story.server.run("select count(*) from strandline_default.snapshot") == ["0"]
