"""The wallet around its log: balances and statements that are always up to date, a partner who is told, a bonus.

The problem: lists want a table to search in, people want a statement for each month, a partner wants to hear of
every deposit, and whoever opens a wallet gets a bonus. All of that follows from events, and none of it may be lost,
done twice or wait in the way of a withdrawal. With streams per wallet somebody has to read them all, bring them into
one order and keep a bookmark for each. Here the log has one order; each of the four is a follower of it with one
bookmark, which moves together with what it does:

    balances        a read model: one row for each wallet, in the log's own database
    statements      another one: what came and went in each month, by the time of the log
    partner         an outbox: every deposit is posted, signed, in order, at least once, with an id that stays
    welcome bonus   an automation: a wallet that is opened leads to a deposit, done once whatever is killed when

They decide nothing, so they are in nobody's boundary; the bonus is a deposit like any other, with the boundary of one.

The story below runs them in threads, with the partner's server on this machine. To run them as a process of their own:

    cd examples
    strandline run wallet_live:app wallets.db       # WALLET_PARTNER and WALLET_SECRET: where to post, and how to sign
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice

import strandline
from strandline import EventStore, Projection, Query, SequencedEvent, from_cloudevent, on
from strandline.follow import Call, ReadModel, Webhook, Worker, verify_signature
from strandline.testing import ManualClock
from wallet import (
    Deposited,
    MoneyTransferred,
    Status,
    Wallet,
    WalletId,
    WalletNotOpen,
    WalletOpened,
    Withdrawn,
    deposit,
    open_wallet,
    transfer,
    withdraw,
)

BONUS = 500


@dataclass
class Month:
    came: int = 0
    went: int = 0
    balance: int = 0


class Statement(Projection):
    """What came and went in each month, and what was there at its end."""

    id: WalletId
    balance: int = 0
    months: dict[str, Month] = {}

    @on
    def came(self, event: WalletOpened | Deposited, recorded: SequencedEvent) -> None:
        self._add(recorded, event.cents)

    @on
    def went(self, event: Withdrawn, recorded: SequencedEvent) -> None:
        self._add(recorded, -event.cents)

    @on
    def moved(self, event: MoneyTransferred, recorded: SequencedEvent) -> None:
        self._add(recorded, event.cents if event.target == self.id else -event.cents)

    def _add(self, recorded: SequencedEvent, cents: int) -> None:
        self.balance += cents
        month = self.months.setdefault(f"{recorded.recorded_at:%Y-%m}", Month())
        month.came += max(cents, 0)
        month.went += max(-cents, 0)
        month.balance = self.balance


balances = ReadModel(Wallet, table="balances")
statements = ReadModel(Statement, table="statements")


def welcome_bonus(event: SequencedEvent) -> Call:
    """What the opening of a wallet leads to."""
    return Call(deposit, Status(event.decode(WalletOpened).wallet), BONUS)


def bonus(store: EventStore) -> Worker:
    """The automation. Who has closed the wallet again before its turn comes gets nothing."""
    return store.automation(
        "welcome bonus", Query.types(WalletOpened), welcome_bonus, ignore=(WalletNotOpen,)
    )


def partner(store: EventStore, url: str, secret: str) -> Worker:
    """The outbox."""
    return store.outbox("deposits", Query.types(Deposited), "partner", Webhook(url, secret=secret))


def app(store: EventStore) -> list[Worker]:
    """What `strandline run` runs."""
    workers = [balances.worker(store), statements.worker(store), bonus(store)]
    url, secret = os.environ.get("WALLET_PARTNER"), os.environ.get("WALLET_SECRET")
    return [*workers, partner(store, url, secret)] if url and secret else workers


@contextmanager
def receiving(secret: str, inbox: EventStore) -> Generator[str, None, None]:
    """The partner's server: what is signed goes into a log of its own, which takes an id only once. Gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_genuine = verify_signature(secret, dict(self.headers), body)
            if is_genuine:
                inbox.append(from_cloudevent(body))
            self.send_response(204 if is_genuine else 401)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/deposits"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def running(workers: Sequence[Worker]) -> Generator[None, None, None]:
    """Each in a thread, as `strandline run` does it."""
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join()


def first(count: int, store: EventStore, query: Query | None = None) -> list[SequencedEvent]:
    """The first events of a query, as soon as they are there."""
    return list(islice(store.subscribe(query), count))


def story(store: EventStore, clock: ManualClock) -> None:
    """Two wallets are opened in January; money moves, and goes out in February."""
    secret = secrets.token_hex(16)
    with strandline.connect("memory:") as inbox, receiving(secret, inbox) as url:
        with running(
            [balances.worker(store), statements.worker(store), bonus(store), partner(store, url, secret)]
        ):
            store.execute(open_wallet, Status("alice"), "Alice", 100)
            store.execute(open_wallet, Status("bob"), "Bob")
            paid = first(2, store, Query.types(Deposited))
            print(f"two wallets are opened, and {len(paid)} bonuses of {BONUS} follow")

            moved = store.execute(transfer, Wallet("alice"), Status("bob"), 120)
            balances.wait_for(moved.position)
            rich = balances.find("cents > 500", order_by="cents desc")
            print(f"after a transfer the table has: {', '.join(f'{w.id} {w.cents}' for w in rich)}")
            assert rich == [store.project(Wallet("bob"))]

            clock.move(31 * 24 * 3600)
            written = store.execute(withdraw, Wallet("alice"), 80)
            statements.wait_for(written.position)
            statement = statements.get("alice")
            assert statement is not None
            for name, month in statement.months.items():
                print(f"alice in {name}: {month.came} came, {month.went} went, {month.balance} are left")
            assert [month.balance for month in statement.months.values()] == [480, 400]

            told = first(2, inbox)
            print(f"the partner was told of {len(told)} deposits, in order")
            assert [event.id for event in told] == [event.id for event in paid]

        again = bonus(store)
        again.follower.reset(0)
        again.catch_up()
        print(f"every opening is delivered once more: still {store.count(Query.types(Deposited))} bonuses")
        assert statements.rebuild(store)
        assert statements.get("alice") == statement
        print("the statements are made anew from the log, and are the same")


if __name__ == "__main__":
    time = ManualClock()
    with (
        tempfile.TemporaryDirectory() as folder,
        strandline.connect(f"{folder}/wallets.db", clock=time) as bank,
    ):
        story(bank, time)
