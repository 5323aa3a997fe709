"""Unique usernames: one account per name, names can be changed, and one that was given up rests a while.

The problem: two people ask for the same free name at the same moment, and one of them has to be told no.
Streams per account fail at it: a name belongs to no account until it is claimed, so there is no stream whose
version could tell, and a read model of all names is always a little late (a reservation stream per name
works, and then has to be kept in step with the accounts). Here a name is a tag, and the boundary of a claim
is the events that carry it: an append that says "nobody has claimed this name since I looked" needs neither a
table of names nor a saga.

The scenario is "unique username" of https://dcb.events. The time of an event is the one that the log
recorded, and `now` is asked of the same clock.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

import strandline
from strandline import NOW, DomainEvent, EventStore, Projection, SequencedEvent, TagId, command, on
from strandline.testing import ManualClock

RETENTION = timedelta(days=3)


class AccountId(TagId): ...


class Username(TagId):
    """`Ada` and `ada` are one name: this is the one place that says so."""

    def __new__(cls, value: str | int | UUID) -> Username:
        return super().__new__(cls, str(value).casefold())


class AccountRegistered(DomainEvent):
    account: AccountId
    name: Username


class NameChanged(DomainEvent):
    """Tagged with both names: it ends the claim to one and begins the claim to the other."""

    account: AccountId
    old: Username
    new: Username


class AccountClosed(DomainEvent):
    account: AccountId
    name: Username


class NameTaken(Exception): ...


class AccountExists(Exception): ...


class NoSuchAccount(Exception): ...


class Name(Projection):
    id: Username
    is_claimed: bool = False
    given_up: datetime | None = None

    @on
    def claimed(self, event: AccountRegistered) -> None:
        self.is_claimed = True

    @on
    def changed(self, event: NameChanged, recorded: SequencedEvent) -> None:
        if event.new == self.id:
            self.is_claimed = True
        else:
            self._give_up(recorded.recorded_at)

    @on
    def closed(self, event: AccountClosed, recorded: SequencedEvent) -> None:
        self._give_up(recorded.recorded_at)

    def _give_up(self, when: datetime) -> None:
        self.is_claimed, self.given_up = False, when

    def is_free(self, now: datetime) -> bool:
        """Whether anybody may have it: not claimed, and not given up a short while ago."""
        return not self.is_claimed and (self.given_up is None or now - self.given_up > RETENTION)


class Account(Projection):
    id: AccountId
    name: Username | None = None
    was_registered: bool = False

    @on
    def registered(self, event: AccountRegistered) -> None:
        self.name, self.was_registered = event.name, True

    @on
    def changed(self, event: NameChanged) -> None:
        self.name = event.new

    @on
    def closed(self, event: AccountClosed) -> None:
        self.name = None


@command
def register(account: Account, name: Name, now: datetime = NOW) -> Iterator[AccountRegistered]:
    """Open an account under a free name."""
    if account.was_registered:
        raise AccountExists(account.id)
    if not name.is_free(now):
        raise NameTaken(name.id)
    yield AccountRegistered(account=account.id, name=name.id)


@command
def change_name(account: Account, name: Name, now: datetime = NOW) -> Iterator[NameChanged]:
    """Take another name. The old one needs no place in the boundary: it is the account's, whoever asks."""
    if account.name is None:
        raise NoSuchAccount(account.id)
    if account.name == name.id:
        return
    if not name.is_free(now):
        raise NameTaken(name.id)
    yield NameChanged(account=account.id, old=account.name, new=name.id)


@command
def close(account: Account) -> Iterator[AccountClosed]:
    """Close an account; its name is free after the retention time."""
    if account.name is None:
        raise NoSuchAccount(account.id)
    yield AccountClosed(account=account.id, name=account.name)


def story(store: EventStore, clock: ManualClock) -> None:
    """Many want the same name; later it is given up, and rests."""

    def claim(number: int) -> bool:
        try:
            store.execute(register, Account(f"a{number}"), Name("Ada"))
        except NameTaken:
            return False
        return True

    with ThreadPoolExecutor(8) as clients:
        won = list(clients.map(claim, range(8)))
    print(f"8 people ask for the name ada at once: {won.count(True)} gets it")

    winner = Account(f"a{won.index(True)}")
    store.execute(change_name, winner, Name("lovelace"))
    print("she becomes lovelace, and gives up ada")
    for days in (2, 2):
        clock.move(timedelta(days=days).total_seconds())
        is_free = store.project(Name("ada")).is_free(clock())
        print(f"{days} days later ada {'can be claimed again' if is_free else 'still rests'}")
    store.execute(register, Account("late"), Name("ADA"))
    print(f"and is claimed by the account {store.project(Account('late')).id}")


if __name__ == "__main__":
    time = ManualClock()
    with (
        tempfile.TemporaryDirectory() as folder,
        strandline.connect(f"{folder}/accounts.db", clock=time) as accounts,
    ):
        story(accounts, time)
