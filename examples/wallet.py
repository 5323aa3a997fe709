"""A wallet: money comes in, goes out and moves, never below zero, and each operation happens once.

The problem: two withdrawals of 80 from 100 must not both succeed, a transfer must change two wallets or none,
and a client that got no answer asks again. Streams per wallet fail at the transfer (two streams, one append),
and a version per stream makes deposits fight each other although they never could disagree. Here each command
has its own boundary, which is just what its rule speaks of:

    open      that this wallet was never opened
    deposit   that it is open: deposits commute, so nothing but the closing of the wallet can refuse them
    withdraw  the balance: other withdrawals spoil the decision, deposits do not, for enough stays enough
    transfer  the balance of one wallet, and that the other one is open
    close     every movement of the wallet, deposits included: an empty wallet must not be closed over a coin

No event carries a balance: two deposits that do not know of each other could not both be right about it.

The scenario is the wallet of Crablet, a library for DCB in Java. wallet_history.py folds the same events for
people to read, wallet_live.py has tables, a webhook and a bonus that follow them, wallet_by_hand.py withdraws
without a command.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import strandline
from strandline import (
    DomainEvent,
    EventStore,
    Projection,
    TagId,
    command,
    on,
)


class WalletId(TagId): ...


class WalletOpened(DomainEvent):
    wallet: WalletId
    owner: str
    cents: int = 0


class Deposited(DomainEvent):
    wallet: WalletId
    cents: int


class Withdrawn(DomainEvent):
    wallet: WalletId
    cents: int


class MoneyTransferred(DomainEvent):
    """One event, tagged with both wallets."""

    source: WalletId
    target: WalletId
    cents: int


class WalletClosed(DomainEvent):
    wallet: WalletId


class Refused(Exception):
    """The rules say no."""


class WalletExists(Refused): ...


class WalletNotOpen(Refused): ...


class WalletNotEmpty(Refused): ...


class InsufficientFunds(Refused): ...


class InvalidAmount(Refused): ...


class SameWallet(Refused): ...


class Status(Projection):
    """Whether a wallet is open. Two events at most, however much the wallet is used."""

    id: WalletId
    owner: str = ""
    was_opened: bool = False
    is_open: bool = False

    @on
    def opened(self, event: WalletOpened) -> None:
        self.owner, self.was_opened, self.is_open = event.owner, True, True

    @on
    def closed(self, event: WalletClosed) -> None:
        self.is_open = False


class Wallet(Status):
    """What can be spent. A deposit adds to it, and spoils no decision that was made without it."""

    cents: int = 0

    @on
    def opened(self, event: WalletOpened) -> None:
        super().opened(event)
        self.cents = event.cents

    @on(conflicts=False)
    def deposited(self, event: Deposited) -> None:
        self.cents += event.cents

    @on
    def withdrawn(self, event: Withdrawn) -> None:
        self.cents -= event.cents

    @on
    def transferred(self, event: MoneyTransferred) -> None:
        self.cents += event.cents if event.target == self.id else -event.cents


class WholeWallet(Wallet):
    """The same for whoever closes it: now a deposit is the one thing that must not be missed."""

    @on
    def deposited(self, event: Deposited) -> None:
        super().deposited(event)


@command
def open_wallet(wallet: Status, owner: str, cents: int = 0) -> Iterator[WalletOpened]:
    """Open a wallet once; the same owner may ask again, and nothing is written."""
    if cents < 0:
        raise InvalidAmount(cents)
    if wallet.was_opened and not (wallet.is_open and wallet.owner == owner):
        raise WalletExists(wallet.id)
    if not wallet.was_opened:
        yield WalletOpened(wallet=wallet.id, owner=owner, cents=cents)


@command(commutative=True, guard=[WalletClosed])
def deposit(wallet: Status, cents: int) -> Iterator[Deposited]:
    """Put money in. Any number of deposits at once: no condition but the guard."""
    check_amount(cents)
    check_open(wallet)
    yield Deposited(wallet=wallet.id, cents=cents)


@command
def withdraw(wallet: Wallet, cents: int) -> Iterator[Withdrawn]:
    """Take money out."""
    check_funds(wallet, cents)
    yield Withdrawn(wallet=wallet.id, cents=cents)


@command
def transfer(source: Wallet, target: Status, cents: int) -> Iterator[MoneyTransferred]:
    """Move money. What happens in the target does not matter, as long as it stays open."""
    if source.id == target.id:
        raise SameWallet(source.id)
    check_funds(source, cents)
    check_open(target)
    yield MoneyTransferred(source=source.id, target=target.id, cents=cents)


@command
def close(wallet: WholeWallet) -> Iterator[WalletClosed]:
    """Close an empty wallet for good."""
    check_open(wallet)
    if wallet.cents:
        raise WalletNotEmpty(wallet.id, wallet.cents)
    yield WalletClosed(wallet=wallet.id)


def check_amount(cents: int) -> None:
    """Refuse to move nothing, or less."""
    if cents <= 0:
        raise InvalidAmount(cents)


def check_open(wallet: Status) -> None:
    """Refuse what needs an open wallet."""
    if not wallet.is_open:
        raise WalletNotOpen(wallet.id)


def check_funds(wallet: Wallet, cents: int) -> None:
    """Refuse to spend what is not there."""
    check_amount(cents)
    check_open(wallet)
    if cents > wallet.cents:
        raise InsufficientFunds(wallet.id, wallet.cents)


def story(store: EventStore) -> None:
    """Deposits at once, two withdrawals too many, a repeated one, a transfer, an end."""
    store.execute(open_wallet, Status("alice"), "Alice")
    store.execute(open_wallet, Status("bob"), "Bob")

    def add_10(number: int) -> None:
        store.execute(deposit.with_options(idempotency_key=f"d-{number}"), Status("alice"), 10)

    with ThreadPoolExecutor(10) as clients:
        list(clients.map(add_10, range(10)))
    met = store.stats().refused
    print(f"ten deposits of 10 to alice at once: {met} conflicts, {balance(store, 'alice')} in the wallet")

    def take_80(operation: str) -> str:
        once = withdraw.with_options(idempotency_key=operation)
        try:
            done = store.execute(once, Wallet("alice"), 80)
        except InsufficientFunds:
            return "InsufficientFunds"
        return "done before" if done.duplicate else "done"

    with ThreadPoolExecutor(2) as clients:
        answers = dict(zip(("w-1", "w-2"), clients.map(take_80, ("w-1", "w-2")), strict=True))
    print(f"two withdrawals of 80 at once: {' and '.join(sorted(answers.values()))}")
    (winner,) = (operation for operation, answer in answers.items() if answer == "done")
    print(
        f"the client of {winner} lost the answer and asks again: {take_80(winner)}, whatever the balance is"
    )

    store.execute(transfer, Wallet("alice"), Status("bob"), 20)
    print(f"20 go to bob: alice has {balance(store, 'alice')}, bob {balance(store, 'bob')}")
    store.execute(close, WholeWallet("alice"))
    try:
        store.execute(deposit, Status("alice"), 5)
    except WalletNotOpen:
        print("alice is empty and is closed; a deposit to it is refused")


def balance(store: EventStore, wallet: str) -> int:
    """What is in a wallet now."""
    return store.project(Wallet(wallet)).cents


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, strandline.connect(f"{folder}/wallets.db") as bank:
        story(bank)
