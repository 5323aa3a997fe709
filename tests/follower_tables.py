"""What the killed processes keep: a table written by hand, and a read model; and what must hold of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from places import Place
from strandline import DomainEvent, EventStore, Projection, Query, SequencedEvent, TagId, on
from strandline.follow import ReadModel

LEASE_SECONDS = 0.15
KEYS = [f"k{number:02}" for number in range(16)]
RETAGGED = KEYS[:4]  # each retag folds its keys anew, which would mend what is missing
QUERY = Query.tag("wanted")
POISON = 97  # every so many events one that the handler cannot take
MODULUS = (1 << 61) - 1
LIVE, REBUILT = "live", "rebuilt"
"""Two read models: one is only kept live, the other made anew again and again, which would do that too."""


class KeyId(TagId): ...


class Entered(DomainEvent):
    key: KeyId
    amount: int


class Account(Projection):
    """A state that shows if an event is missing, or there twice, or in another place."""

    id: KeyId
    amount: int = 0
    events: int = 0
    order: int = 0

    @on
    def entered(self, event: Entered) -> None:
        self.amount += event.amount
        self.events += 1
        self.order = (self.order * 101 + event.amount) % MODULUS


class Ledger:
    """A table that says which event was applied in which order, and the sum per key."""

    def __init__(self, place: Place) -> None:
        prefix = f"public.{place.log}_" if place.is_in_database else ""
        self._entries, self._sums = f"{prefix}entry", f"{prefix}sum"
        self._mark = "%s" if place.is_in_database else "?"

    def make(self, store: EventStore) -> None:
        number = "bigserial" if "public" in self._entries else "integer"
        tx = store.engine.transaction()
        tx.begin()
        tx.execute(f"create table {self._entries} (number {number} primary key, position bigint)")
        tx.execute(f"create table {self._sums} (key text primary key, amount bigint not null)")
        tx.commit()
        tx.end()

    def __call__(self, events: Sequence[SequencedEvent], tx: Any) -> None:
        for event in events:
            data = event.json()
            tx.execute(f"insert into {self._entries} (position) values ({self._mark})", (event.position,))
            tx.execute(
                f"insert into {self._sums} (key, amount) values ({self._mark}, {self._mark})"
                f" on conflict (key) do update set amount = {self._sums}.amount + excluded.amount",
                (data["key"], data["amount"]),
            )
            if event.position % POISON == 0:
                raise ValueError("poison")

    def content(self, store: EventStore) -> tuple[list[int], dict[str, int]]:
        tx = store.engine.transaction()
        tx.begin()
        try:
            entries = tx.execute(f"select position from {self._entries} order by number")
            return [position for (position,) in entries], dict(
                tx.execute(f"select key, amount from {self._sums}")
            )
        finally:
            tx.end()


def accounts(place: Place, name: str) -> ReadModel[Account]:
    table = f"{place.log}_{name}" if place.is_in_database else name
    return ReadModel(Account, table=table, lease=LEASE_SECONDS)


def judge_ledger(place: Place, store: EventStore) -> int:
    ledger = Ledger(place)
    follower = store.follower("ledger", QUERY, lease=LEASE_SECONDS)
    follower.catch_up(ledger, attempts=2, backoff=0.001)
    applied, sums = ledger.content(store)
    wanted = list(store.read(QUERY))
    poison = [event.position for event in wanted if event.position % POISON == 0]
    letters = [letter.position for letter in follower.dead_letters()]
    assert letters == poison, "a poison event is lost, or another one is taken for poison"
    healthy = [event for event in wanted if event.position % POISON]
    assert applied == [event.position for event in healthy], "an event is lost, repeated or out of order"
    expected: dict[str, int] = {}
    for event in healthy:
        data = event.json()
        expected[data["key"]] = expected.get(data["key"], 0) + data["amount"]
    assert sums == expected
    assert follower.status().lag == 0
    return len(applied)


def judge_accounts(model: ReadModel[Account], store: EventStore) -> None:
    model.catch_up(store)
    expected = [store.project(Account, key) for key in KEYS if store.exists(Query.tag(f"key:{key}"))]
    assert model.find(order_by="id") == expected, "the table is not the fold"
    assert model.rebuild(store)
    assert model.find(order_by="id") == expected, "the table that was made anew is not the fold"
    assert store.engine.followers(f"rebuild:{model.table}") == []
