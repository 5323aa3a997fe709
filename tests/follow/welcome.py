"""Accounts that get a bonus when they are opened: what the tests of automations share.

`python tests/follow/welcome.py URL OPTIONS` runs the automation and kills itself after its first command.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator

from strandline import DomainEvent, EventStore, Projection, Query, SequencedEvent, TagId, command, connect, on
from strandline.follow import Call

LEASE_SECONDS = 0.2


class AccountId(TagId): ...


class AccountOpened(DomainEvent):
    account: AccountId


class BonusPaid(DomainEvent):
    account: AccountId
    cents: int


class Blocked(Exception): ...


class Account(Projection):
    id: AccountId
    is_open: bool = False
    bonus: int = 0

    @on
    def opened(self, event: AccountOpened) -> None:
        self.is_open = True

    @on
    def paid(self, event: BonusPaid) -> None:
        self.bonus += event.cents


@command(name="pay bonus")
def pay(account: Account, cents: int) -> Iterator[DomainEvent]:
    """Nothing in it keeps it from being done twice."""
    if account.id.startswith("blocked"):
        raise Blocked(account.id)
    yield BonusPaid(account=account.id, cents=cents)


OPENED = Query.types("AccountOpened")


def account_of(event: SequencedEvent) -> Account:
    return Account(event.decode(AccountOpened).account)


def welcome(event: SequencedEvent) -> Call:
    return Call(pay, account_of(event), 500)


def open_accounts(store: EventStore, *names: str) -> None:
    for name in names:
        store.append(AccountOpened(account=AccountId(name)))


def bonuses(store: EventStore) -> list[str]:
    """Who got one, in order."""
    return [event.decode(BonusPaid).account for event in store.read(Query.types("BonusPaid"))]


def run_and_die(url: str, options: str) -> None:
    """Killed between the command and the checkpoint."""

    def decide(event: SequencedEvent) -> Iterator[Call]:
        yield welcome(event)
        os.kill(os.getpid(), signal.SIGKILL)

    store = connect(url, **json.loads(options))
    store.automation("welcome", OPENED, decide, lease=LEASE_SECONDS).run()


if __name__ == "__main__":
    run_and_die(*sys.argv[1:])
