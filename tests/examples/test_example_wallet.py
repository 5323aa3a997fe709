"""The rules of the wallet, and what each of its commands depends on."""

from __future__ import annotations

from functools import partial

import pytest
from at_once import conflicts, kinds, overlapping

from strandline import EventStore, InvalidInput
from strandline.testing import interfering
from wallet import (
    InsufficientFunds,
    InvalidAmount,
    SameWallet,
    Status,
    Wallet,
    WalletExists,
    WalletNotEmpty,
    WalletNotOpen,
    WholeWallet,
    balance,
    close,
    deposit,
    open_wallet,
    transfer,
    withdraw,
)
from wallet_history import History


@pytest.fixture
def bank(store: EventStore) -> EventStore:
    store.execute(open_wallet, Status("alice"), "Alice", 100)
    store.execute(open_wallet, Status("bob"), "Bob")
    return store


def boundary(store: EventStore) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Types and tags of each item in the condition of the last append."""
    *_, append = store.appends()
    assert append.condition is not None
    queries = [part.fail_if_events_match for part in append.condition.parts]
    return {(item.types, item.tags) for query in queries for item in query.items}


def test_the_rules(bank: EventStore) -> None:
    assert bank.execute(open_wallet, Status("alice"), "Alice", 7).count == 0
    with pytest.raises(WalletExists):
        bank.execute(open_wallet, Status("alice"), "Eve")
    with pytest.raises(InsufficientFunds):
        bank.execute(withdraw, Wallet("alice"), 101)
    with pytest.raises(SameWallet):
        bank.execute(transfer, Wallet("alice"), Status("alice"), 1)
    with pytest.raises(InsufficientFunds):
        bank.execute(transfer, Wallet("bob"), Status("alice"), 1)
    with pytest.raises(WalletNotEmpty):
        bank.execute(close, WholeWallet("alice"))
    for cents in (0, -5):
        with pytest.raises(InvalidAmount):
            bank.execute(deposit, Status("alice"), cents)
        with pytest.raises(InvalidAmount):
            bank.execute(withdraw, Wallet("alice"), cents)
        with pytest.raises(InvalidAmount):
            bank.execute(transfer, Wallet("alice"), Status("bob"), cents)
    assert bank.head() == 2


@pytest.mark.parametrize("owner", ["Carol", ""])
def test_a_wallet_is_opened_once_whatever_its_owner_is_called(bank: EventStore, owner: str) -> None:
    assert bank.execute(open_wallet, Status("carol"), owner, 5).count == 1
    assert bank.execute(open_wallet, Status("carol"), owner, 5).count == 0
    with pytest.raises(WalletExists):
        bank.execute(open_wallet, Status("carol"), "Eve", 5)
    bank.execute(withdraw, Wallet("carol"), 5)
    bank.execute(close, WholeWallet("carol"))
    with pytest.raises(WalletExists):
        bank.execute(open_wallet, Status("carol"), owner, 5)
    assert balance(bank, "carol") == 0


def test_no_wallet_begins_below_zero(bank: EventStore) -> None:
    for name in ("carol", "alice"):
        with pytest.raises(InvalidAmount):
            bank.execute(open_wallet, Status(name), "Carol", -1)
    assert bank.head() == 2


@pytest.mark.parametrize("name", ["nobody", "bob"])
def test_nothing_moves_in_a_wallet_that_is_not_open(bank: EventStore, name: str) -> None:
    bank.execute(close, WholeWallet("bob"))
    for refused in (
        partial(bank.execute, deposit, Status(name), 1),
        partial(bank.execute, withdraw, Wallet(name), 1),
        partial(bank.execute, transfer, Wallet(name), Status("alice"), 1),
        partial(bank.execute, transfer, Wallet("alice"), Status(name), 1),
        partial(bank.execute, close, WholeWallet(name)),
    ):
        with pytest.raises(WalletNotOpen):
            refused()
    with pytest.raises(WalletExists):
        bank.execute(open_wallet, Status("bob"), "Bob")
    assert bank.head() == 3


def test_each_command_depends_on_what_its_rule_speaks_of(bank: EventStore) -> None:
    lifecycle = ("WalletClosed", "WalletOpened")
    spending = ("MoneyTransferred", "WalletClosed", "WalletOpened", "Withdrawn")
    assert boundary(bank) == {(lifecycle, ("wallet:bob",))}
    bank.execute(deposit, Status("alice"), 50)
    assert boundary(bank) == {(("WalletClosed",), ("wallet:alice",))}
    bank.execute(withdraw, Wallet("alice"), 50)
    assert boundary(bank) == {(spending, ("wallet:alice",))}
    bank.execute(transfer, Wallet("alice"), Status("bob"), 100)
    assert boundary(bank) == {(spending, ("wallet:alice",)), (lifecycle, ("wallet:bob",))}
    bank.execute(close, WholeWallet("alice"))
    assert boundary(bank) == {(tuple(sorted((*spending, "Deposited"))), ("wallet:alice",))}


def test_deposits_do_not_meet(bank: EventStore) -> None:
    outcomes = overlapping(bank, [partial(bank.execute, deposit, Status("alice"), 10)] * 10)
    assert (kinds(outcomes), bank.stats().refused) == ({"Executed": 10}, 0)
    assert balance(bank, "alice") == 200


def test_a_deposit_does_not_slip_into_a_wallet_that_is_being_closed(bank: EventStore) -> None:
    closing = partial(bank.execute, close, WholeWallet("bob"))
    with interfering(bank, closing), pytest.raises(WalletNotOpen):
        bank.execute(deposit, Status("bob"), 5)
    assert balance(bank, "bob") == 0


@pytest.mark.parametrize("way", ["deposit", "transfer"])
def test_a_wallet_is_not_closed_over_money_that_came_meanwhile(bank: EventStore, way: str) -> None:
    coming = {
        "deposit": partial(bank.execute, deposit, Status("bob"), 5),
        "transfer": partial(bank.execute, transfer, Wallet("alice"), Status("bob"), 5),
    }
    with interfering(bank, coming[way]), pytest.raises(WalletNotEmpty):
        bank.execute(close, WholeWallet("bob"))
    assert bank.project(Wallet("bob")).is_open
    with pytest.raises(InvalidInput, match="is a WholeWallet"):
        bank.execute(close, Wallet("bob"))  # whose deposits do not conflict


def test_a_transfer_does_not_reach_a_wallet_that_was_closed_meanwhile(bank: EventStore) -> None:
    closing = partial(bank.execute, close, WholeWallet("bob"))
    with interfering(bank, closing), pytest.raises(WalletNotOpen):
        bank.execute(transfer, Wallet("alice"), Status("bob"), 5)
    assert balance(bank, "alice") == 100


def test_what_happens_in_the_target_does_not_spoil_a_transfer(bank: EventStore) -> None:
    bank.execute(deposit, Status("bob"), 50)
    spending = partial(bank.execute, withdraw, Wallet("bob"), 5)
    moving = partial(bank.execute, transfer, Wallet("alice"), Status("bob"), 30)
    assert conflicts(bank, moving, spending) == 0
    assert (balance(bank, "alice"), balance(bank, "bob")) == (70, 75)


def test_the_history_is_another_fold_of_the_same_events(bank: EventStore) -> None:
    bank.execute(deposit, Status("alice"), 50)
    bank.execute(withdraw, Wallet("alice"), 30)
    bank.execute(transfer, Wallet("alice"), Status("bob"), 120)
    bank.execute(close, WholeWallet("alice"))
    assert [(what, cents, left) for _, what, cents, left in bank.project(History("alice")).entries] == [
        ("WalletOpened", 100, 100),
        ("Deposited", 50, 150),
        ("Withdrawn", -30, 120),
        ("MoneyTransferred", -120, 0),
        ("WalletClosed", 0, 0),
    ]
    assert [entry.balance for entry in bank.project(History("bob")).entries] == [0, 120]
