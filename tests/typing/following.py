"""Workers, automations and outboxes as users write them; held against mypy and pyright, not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_type

from strandline import (
    AsyncEventStore,
    DomainEvent,
    EventStore,
    Projection,
    Query,
    SequencedEvent,
    TagId,
    command,
)
from strandline.follow import (
    AsyncWorker,
    Call,
    DeadLetter,
    FollowerStatus,
    Leased,
    NdjsonFile,
    Webhook,
    Worker,
)


class WalletId(TagId): ...


class Opened(DomainEvent):
    wallet: WalletId


class Wallet(Projection):
    id: WalletId


class Closed(Exception): ...


@command
def deposit(wallet: Wallet, cents: int) -> Iterator[DomainEvent]:
    yield Opened(wallet=wallet.id)


def one(event: SequencedEvent) -> Call | None:
    Call(deposit, Wallet("w1"), "5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Call(deposit, Wallet("w1"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    return Call(deposit, Wallet(event.decode(Opened).wallet), cents=5)


def several(event: SequencedEvent) -> Iterator[Call]:
    yield Call(deposit, Wallet("w1"), 5)


def wrong(event: SequencedEvent) -> int:
    return 1


def publish(events: Sequence[SequencedEvent]) -> None: ...


async def publish_later(events: Sequence[SequencedEvent]) -> None: ...


def lease(store: EventStore) -> None:
    leased = store.find_follower("f").lease(5, wait=1, seconds=2)
    assert_type(leased, Leased | None)
    if leased is not None:
        assert_type(leased.events, list[SequencedEvent])
        assert_type(store.follower("f").ack(leased.token, leased.position), int)
        store.follower("f").give_up(leased.token, 1, ValueError("odd"))
        store.follower("f").ack(leased)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def use(store: EventStore) -> None:
    automation = store.automation("a", Query.types(Opened), one, ignore=(Closed,), attempts=3)
    assert_type(automation, Worker)
    assert_type(automation.run(until=3), int)
    assert_type(automation.status(), FollowerStatus)
    assert_type(automation.dead_letters(), list[DeadLetter])
    store.automation("b", None, several, ignore=Closed)
    store.automation("c", None, wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(store.outbox("t", None, "file", NdjsonFile("x.ndjson")), Worker)
    store.outbox("t", None, "hook", Webhook("https://example.org/", secret="s"), backoff=1)
    store.outbox("t", None, "function", publish)
    Webhook("https://example.org/")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def use_async(store: AsyncEventStore) -> None:
    assert_type(await (await store.find_follower("f")).lease(), Leased | None)
    automation = store.automation("a", None, one)
    assert_type(automation, AsyncWorker)
    assert_type(await automation.catch_up(), int)
    assert_type(store.outbox("t", None, "queue", publish_later), AsyncWorker)
