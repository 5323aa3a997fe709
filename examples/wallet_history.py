"""The statement of a wallet: another fold of the same events, made when somebody asks.

The problem: people want to see what happened and the balance after each line, and decisions want neither.
With streams per wallet a transfer is two events in two streams that have to be told apart and brought
together again. Here the events of a wallet are those with its tag, in the order of the log; the statement is
a projection over them that no command takes, so it is in nobody's boundary.
"""

from __future__ import annotations

import tempfile
from datetime import datetime
from typing import NamedTuple

import strandline
from strandline import EventStore, Projection, SequencedEvent, on
from wallet import (
    Deposited,
    MoneyTransferred,
    Status,
    Wallet,
    WalletClosed,
    WalletId,
    WalletOpened,
    Withdrawn,
    deposit,
    open_wallet,
    transfer,
    withdraw,
)


class Entry(NamedTuple):
    when: datetime
    what: str
    cents: int
    balance: int


class History(Projection):
    id: WalletId
    entries: list[Entry] = []

    @on
    def came(self, event: WalletOpened | Deposited, recorded: SequencedEvent) -> None:
        self._add(recorded, event.cents)

    @on
    def went(self, event: Withdrawn, recorded: SequencedEvent) -> None:
        self._add(recorded, -event.cents)

    @on
    def moved(self, event: MoneyTransferred, recorded: SequencedEvent) -> None:
        self._add(recorded, event.cents if event.target == self.id else -event.cents)

    @on
    def closed(self, event: WalletClosed, recorded: SequencedEvent) -> None:
        self._add(recorded, 0)

    def _add(self, recorded: SequencedEvent, cents: int) -> None:
        before = self.entries[-1].balance if self.entries else 0
        self.entries.append(Entry(recorded.recorded_at, recorded.type, cents, before + cents))


def story(store: EventStore) -> None:
    """Some movements, and the statements of both wallets."""
    store.execute(open_wallet, Status("alice"), "Alice", 100)
    store.execute(open_wallet, Status("bob"), "Bob")
    store.execute(deposit, Status("alice"), 50)
    store.execute(transfer, Wallet("alice"), Status("bob"), 70)
    store.execute(withdraw, Wallet("bob"), 20)
    for name in ("alice", "bob"):
        print(f"the wallet of {name}")
        for entry in store.project(History(name)).entries:
            print(f"  {entry.what:<18}{entry.cents:>+5}{entry.balance:>6}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, strandline.connect(f"{folder}/wallets.db") as bank:
        story(bank)
