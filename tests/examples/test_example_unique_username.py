from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from at_once import kinds, overlapping

from strandline import EventStore
from strandline.testing import ManualClock
from unique_username import (
    RETENTION,
    Account,
    AccountClosed,
    AccountExists,
    AccountRegistered,
    Name,
    NameChanged,
    NameTaken,
    NoSuchAccount,
    Username,
    change_name,
    close,
    register,
)

RETENTION_SECONDS = RETENTION.total_seconds()


def holders(store: EventStore) -> dict[str, str]:
    """Who has which name; replays the log, and fails where two accounts had the same one."""
    held: dict[str, str] = {}
    for event in store.read():
        if event.type == "AccountRegistered":
            registered = event.decode(AccountRegistered)
            assert registered.name not in held
            held[registered.name] = registered.account
        elif event.type == "NameChanged":
            changed = event.decode(NameChanged)
            assert held.pop(changed.old) == changed.account
            assert changed.new not in held
            held[changed.new] = changed.account
        else:
            closed = event.decode(AccountClosed)
            assert held.pop(closed.name) == closed.account
    return held


def test_a_name_is_claimed_once_however_it_is_written(store: EventStore) -> None:
    store.execute(register, Account("a1"), Name("Ada"))
    with pytest.raises(NameTaken):
        store.execute(register, Account("a2"), Name("ADA"))
    with pytest.raises(AccountExists):
        store.execute(register, Account("a1"), Name("bob"))
    assert holders(store) == {"ada": "a1"}
    assert Username("Ada").tag == "username:ada"


@pytest.mark.parametrize(
    "giving_up",
    [(close, Account("a1")), (change_name, Account("a1"), Name("lovelace"))],
    ids=["by closing", "by changing"],
)
def test_a_name_that_was_given_up_rests(
    store: EventStore, clock: ManualClock, giving_up: tuple[Any, ...]
) -> None:
    store.execute(register, Account("a1"), Name("ada"))
    store.execute(*giving_up)
    clock.move(RETENTION_SECONDS)
    with pytest.raises(NameTaken):
        store.execute(register, Account("a2"), Name("ada"))
    clock.move(1)
    store.execute(register, Account("a2"), Name("ada"))
    assert holders(store)["ada"] == "a2"


def test_an_account_has_the_name_that_it_took_last(store: EventStore) -> None:
    store.execute(register, Account("a1"), Name("ada"))
    store.execute(register, Account("a2"), Name("bob"))
    with pytest.raises(NameTaken):
        store.execute(change_name, Account("a1"), Name("bob"))
    assert store.execute(change_name, Account("a1"), Name("ada")).count == 0
    store.execute(change_name, Account("a1"), Name("lovelace"))
    store.execute(close, Account("a1"))
    with pytest.raises(NoSuchAccount):
        store.execute(close, Account("a1"))
    with pytest.raises(NoSuchAccount):
        store.execute(change_name, Account("a3"), Name("eve"))
    assert holders(store) == {"bob": "a2"}


def test_one_of_many_gets_the_name(store: EventStore) -> None:
    outcomes = overlapping(
        store, (partial(store.execute, register, Account(f"a{n}"), Name("ada")) for n in range(8))
    )
    assert kinds(outcomes) == {"Executed": 1, "NameTaken": 7}
    assert list(holders(store)) == ["ada"]


def test_a_new_account_and_a_changed_name_race_for_the_same_one(store: EventStore) -> None:
    store.execute(register, Account("a1"), Name("ada"))
    store.execute(register, Account("a2"), Name("bob"))
    calls = [(change_name, "a1"), (change_name, "a2"), (register, "a3"), (register, "a4")]
    outcomes = overlapping(
        store, (partial(store.execute, decision, Account(id), Name("eve")) for decision, id in calls)
    )
    assert kinds(outcomes) == {"Executed": 1, "NameTaken": 3}
    assert "eve" in holders(store)
