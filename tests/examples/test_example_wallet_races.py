"""What the wallet promises while many use it: the scenarios of S2-18, the hazards C7 and C8, and a storm."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from at_once import at_once, conflicts, kinds, overlapping

from strandline import AppendConditionFailed, Command, EventStore, Executed, Query
from wallet import (
    Deposited,
    InsufficientFunds,
    MoneyTransferred,
    Status,
    Wallet,
    WalletNotOpen,
    WalletOpened,
    WholeWallet,
    Withdrawn,
    balance,
    close,
    deposit,
    open_wallet,
    transfer,
    withdraw,
)
from wallet_by_hand import withdraw_once


@pytest.fixture
def bank(store: EventStore) -> EventStore:
    store.execute(open_wallet, Status("alice"), "Alice", 100)
    return store


def once(decision: Command[..., Any], operation: str) -> Command[..., Any]:
    return decision.with_options(idempotency_key=operation, attempts=50)


def test_normal(bank: EventStore) -> None:
    done = bank.execute(once(withdraw, "w-123"), Wallet("alice"), 80)
    assert (done.position, done.duplicate, balance(bank, "alice")) == (2, False, 20)


def test_a_deposit_between_read_and_append_does_not_spoil_a_withdrawal(bank: EventStore) -> None:
    coming = partial(bank.execute, once(deposit, "d-1"), Status("alice"), 50)
    taking = partial(bank.execute, once(withdraw, "w-123"), Wallet("alice"), 80)
    assert conflicts(bank, taking, coming) == 0
    assert balance(bank, "alice") == 70


def test_where_the_condition_is_strict_a_deposit_does_spoil_it(
    bank: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exists(query: Query) -> bool:
        monkeypatch.undo()
        bank.execute(deposit, Status("alice"), 50)
        return bank.exists(query)

    monkeypatch.setattr(bank, "exists", exists)
    with pytest.raises(AppendConditionFailed) as caught:
        withdraw_once(bank, "w-123", "alice", 80)
    assert (caught.value.after, caught.value.conflict.position) == (1, 2)
    assert withdraw_once(bank, "w-123", "alice", 80).position == 3


def test_a_repeated_withdrawal_is_done_already_before_any_rule_is_asked(bank: EventStore) -> None:
    first = bank.execute(once(withdraw, "w-123"), Wallet("alice"), 80)
    again = bank.execute(once(withdraw, "w-123"), Wallet("alice"), 80)  # 20 left: the rule would say no
    assert (first.duplicate, again.duplicate, again.position) == (False, True, first.position)
    with pytest.raises(InsufficientFunds):
        bank.execute(once(withdraw, "w-124"), Wallet("alice"), 80)
    bank.execute(withdraw, Wallet("alice"), 20)
    bank.execute(close, WholeWallet("alice"))
    assert bank.execute(once(withdraw, "w-123"), Wallet("alice"), 80).duplicate
    assert bank.count(Query.types("Withdrawn")) == 2


def test_of_two_withdrawals_of_80_from_100_the_second_sees_20(bank: EventStore) -> None:
    outcomes = overlapping(
        bank, (partial(bank.execute, once(withdraw, f"w-{n}"), Wallet("alice"), 80) for n in range(2))
    )
    assert kinds(outcomes) == {"Executed": 1, "InsufficientFunds": 1}
    (refusal,) = (outcome for outcome in outcomes if isinstance(outcome, InsufficientFunds))
    assert refusal.args == ("alice", 20)
    assert balance(bank, "alice") == 20


@pytest.mark.parametrize("way", ["command", "by hand"])
def test_one_operation_sent_by_many_happens_once(bank: EventStore, way: str) -> None:
    if way == "command":
        decision = once(withdraw, "w-123")
        outcomes = overlapping(bank, [partial(bank.execute, decision, Wallet("alice"), 80)] * 6)
    else:
        outcomes = at_once([partial(withdraw_once, bank, "w-123", "alice", 80)] * 6)
    assert {outcome.position for outcome in outcomes} == {2}
    assert sum(outcome.duplicate for outcome in outcomes) == 5
    assert balance(bank, "alice") == 20


def test_by_hand_two_withdrawals_of_80_from_100_are_not_both_done(bank: EventStore) -> None:
    def until_decided(operation: str) -> Any:
        while True:
            try:
                return withdraw_once(bank, operation, "alice", 80)
            except AppendConditionFailed:
                continue

    outcomes = at_once(partial(until_decided, f"w-{number}") for number in range(4))
    assert kinds(outcomes) == {"AppendResult": 1, "InsufficientFunds": 3}


def test_a_repeated_deposit_counts_once_and_a_closed_wallet_takes_none(bank: EventStore) -> None:
    outcomes = at_once([partial(bank.execute, once(deposit, "d-1"), Status("alice"), 10)] * 4)
    assert sum(outcome.duplicate for outcome in outcomes) == 3
    assert balance(bank, "alice") == 110
    bank.execute(withdraw, Wallet("alice"), 110)
    bank.execute(close, WholeWallet("alice"))
    with pytest.raises(WalletNotOpen):
        bank.execute(once(deposit, "d-2"), Status("alice"), 10)
    assert bank.execute(once(deposit, "d-1"), Status("alice"), 10).duplicate


def test_deposits_race_with_the_closing_of_the_wallet(bank: EventStore) -> None:
    bank.execute(withdraw, Wallet("alice"), 100)
    closing = close.with_options(attempts=50)
    calls = [partial(bank.execute, deposit, Status("alice"), 10) for _ in range(4)]
    *deposits, closed = at_once([*calls, partial(bank.execute, closing, WholeWallet("alice"))])
    if isinstance(closed, Executed):
        assert kinds(deposits) == {"WalletNotOpen": 4}
    else:
        assert kinds([*deposits, closed]) == {"Executed": 4, "WalletNotEmpty": 1}


def test_a_storm_of_operations_loses_and_invents_no_money(store: EventStore) -> None:
    names = ("alice", "bob", "carol")
    for name in names:
        store.execute(open_wallet, Status(name), name, 100)
    chance = random.Random(4)
    operations = [
        (f"{kind}-{number}", kind, *chance.sample(names, 2), chance.randrange(1, 60))
        for number in range(12)
        for kind in ("deposit", "withdraw", "transfer")
    ]

    def client(own: list[tuple[str, str, str, str, int]]) -> list[str]:
        return [answer(store, *operation) for operation in own]

    # Every operation is sent by two clients; what they hear must be the same.
    twins = [partial(client, operations[start::3]) for start in range(3)] * 2
    answers = at_once(twins)
    assert [type(answer) for answer in answers] == [list] * 6
    done = [answer for own in answers for answer in own if answer.startswith("at ")]
    assert len(set(done)) == store.head() - len(names)
    assert replayed(store) == {name: balance(store, name) for name in names}


def answer(store: EventStore, operation: str, kind: str, wallet: str, other: str, cents: int) -> str:
    try:
        if kind == "deposit":
            return f"at {store.execute(once(deposit, operation), Status(wallet), cents).position}"
        if kind == "withdraw":
            return f"at {store.execute(once(withdraw, operation), Wallet(wallet), cents).position}"
        return f"at {store.execute(once(transfer, operation), Wallet(wallet), Status(other), cents).position}"
    except InsufficientFunds:
        return "no"


def replayed(store: EventStore) -> dict[str, int]:
    """The balances, event by event; none may ever be below zero."""
    held: dict[str, int] = {}
    for event in store.read():
        match event.type:
            case "WalletOpened":
                opened = event.decode(WalletOpened)
                held[opened.wallet] = opened.cents
            case "Deposited":
                held[event.decode(Deposited).wallet] += event.decode(Deposited).cents
            case "Withdrawn":
                held[event.decode(Withdrawn).wallet] -= event.decode(Withdrawn).cents
            case "MoneyTransferred":
                moved = event.decode(MoneyTransferred)
                held[moved.source] -= moved.cents
                held[moved.target] += moved.cents
        assert min(held.values()) >= 0, event
    return held
