"""Opt-in tokens: a token goes out by mail, and the account opens when it comes back, once and in time.

The problem: a token is good for one address, for one hour and for one use, and an impatient person clicks
twice. With streams per account there is no stream to look at, for the account does not exist before the token
came back; so tokens live in a table of their own that has to be kept, invalidated and cleaned. Here address
and token are tags, and the boundary of a confirmation is the events that carry both: the sign-up with the
time at which it was recorded, and perhaps an earlier confirmation.

The scenario is "opt-in token" of https://dcb.events. A real token is long or short-lived enough not to be
guessed, and what is kept in the log should be its hash.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import strandline
from strandline import NOW, DomainEvent, EventStore, Projection, SequencedEvent, TagId, command, on
from strandline.testing import ManualClock

VALIDITY = timedelta(hours=1)


class Email(TagId): ...


class Token(TagId): ...


class SignUpStarted(DomainEvent):
    email: Email
    token: Token
    name: str


class SignUpConfirmed(DomainEvent):
    email: Email
    token: Token
    name: str


class Refused(Exception):
    """The rules say no."""


class TokenInUse(Refused): ...


class TokenUnknown(Refused): ...


class TokenUsed(Refused): ...


class TokenExpired(Refused): ...


class SignUp(Projection):
    """One address with one token. Two key fields mean: the events that carry both tags."""

    email: Email
    token: Token
    name: str = ""
    started: datetime | None = None
    is_confirmed: bool = False

    @on
    def start(self, event: SignUpStarted, recorded: SequencedEvent) -> None:
        self.name, self.started = event.name, recorded.recorded_at

    @on
    def confirm(self, event: SignUpConfirmed) -> None:
        self.is_confirmed = True


@command
def start(sign_up: SignUp, name: str) -> Iterator[SignUpStarted]:
    """Remember what was asked for; a mail with the token can be sent when this is in the log."""
    if sign_up.started is not None:
        raise TokenInUse(sign_up.email)
    yield SignUpStarted(email=sign_up.email, token=sign_up.token, name=name)


@command
def confirm(sign_up: SignUp, now: datetime = NOW) -> Iterator[SignUpConfirmed]:
    """Redeem the token: once, in time, and with the address that it was sent to."""
    if sign_up.started is None:
        raise TokenUnknown(sign_up.email)
    if sign_up.is_confirmed:
        raise TokenUsed(sign_up.email)
    if now - sign_up.started > VALIDITY:
        raise TokenExpired(sign_up.email)
    yield SignUpConfirmed(email=sign_up.email, token=sign_up.token, name=sign_up.name)


def story(store: EventStore, clock: ManualClock) -> None:
    """A token is tried with a wrong address, clicked many times, and forgotten until it is too late."""
    ada, eve = SignUp("ada@example.org", "123456"), SignUp("eve@example.org", "654321")
    store.execute(start, ada, "Ada")
    store.execute(start, eve, "Eve")
    print("ada and eve sign up and get tokens")

    def click(sign_up: SignUp) -> str:
        try:
            store.execute(confirm, sign_up)
        except Refused as refusal:
            return type(refusal).__name__
        return "confirmed"

    print(f"ada's token with the address of eve: {click(SignUp(eve.email, ada.token))}")
    with ThreadPoolExecutor(6) as hands:
        answers = list(hands.map(click, [ada] * 6))
    print(f"ada clicks six times at once: {', '.join(sorted(answers, reverse=True))}")
    clock.move(VALIDITY.total_seconds() + 1)
    print(f"eve comes back when the hour is over: {click(eve)}")


if __name__ == "__main__":
    time = ManualClock()
    with (
        tempfile.TemporaryDirectory() as folder,
        strandline.connect(f"{folder}/accounts.db", clock=time) as accounts,
    ):
        story(accounts, time)
