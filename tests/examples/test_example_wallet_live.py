"""The wallet around its log, on each engine that has tables; and as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import strandline
import wallet_live
from places import Place
from strandline import Event, EventStore, Query, Unavailable
from strandline.follow import Webhook
from strandline.testing import ManualClock
from strandline.testing.postgres import PostgresServer
from wallet import Status, Wallet, WholeWallet, close, deposit, open_wallet, transfer, withdraw
from wallet_live import BONUS, Statement, balances, bonus, first, partner, receiving, running, statements

EXAMPLES = Path(wallet_live.__file__).parent
SECRET = "the secret"


@pytest.fixture(params=["sqlite", "postgres18"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: Callable[[str], PostgresServer]
) -> Iterator[Place]:
    """A file, or a database of its own: the tables of the example have names that others could want."""
    if request.param == "sqlite":
        yield Place(tmp_path / "wallets.db")
        return
    server, name = postgres_server(request.param), f"wallets_{uuid4().hex[:8]}"
    server.run(f"create database {name}")
    yield Place(server.url(name), "default")
    server.run(f"drop database {name} with (force)")


@pytest.fixture
def bank(place: Place) -> Iterator[EventStore]:
    with place.connect(clock=ManualClock()) as store:
        store.execute(open_wallet, Status("alice"), "Alice", 100)
        store.execute(open_wallet, Status("bob"), "Bob", 7)
        yield store


def test_the_story(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store:
        wallet_live.story(store, clock)
    assert "alice in 2026-02: 0 came, 80 went, 400 are left" in capsys.readouterr().out


def test_tables_and_statements_are_the_fold(bank: EventStore) -> None:
    store = bank
    store.execute(transfer, Wallet("alice"), Status("bob"), 30)
    store.execute(withdraw, Wallet("bob"), 37)
    store.execute(close, WholeWallet("bob"))
    for model in (balances, statements):
        model.catch_up(store)
        expected = [store.project(model.projection, key) for key in ("alice", "bob")]
        assert model.find(order_by="id") == expected
    assert [wallet.id for wallet in balances.find("is_open")] == ["alice"]


def test_a_month_ends_with_what_the_next_one_begins_with(place: Place) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store:
        store.execute(open_wallet, Status("alice"), "Alice", 100)
        for days in (20, 20, 60):
            clock.move(days * 24 * 3600)
            store.execute(deposit, Status("alice"), days)
        statements.catch_up(store)
        statement = statements.get("alice")
        assert statement is not None
        months = {name: (month.came, month.balance) for name, month in statement.months.items()}
    assert months == {"2026-01": (120, 120), "2026-02": (20, 140), "2026-04": (60, 200)}


def test_each_wallet_gets_one_bonus_and_a_closed_one_none(bank: EventStore) -> None:
    bank.execute(withdraw, Wallet("bob"), 7)
    bank.execute(close, WholeWallet("bob"))
    automation = bonus(bank)
    for _ in range(2):
        automation.catch_up()
        automation.follower.reset(0)
    assert bank.project(Wallet("alice")).cents == 100 + BONUS
    assert bank.count(Query.types("Deposited")) == 1
    assert automation.dead_letters() == []


def test_the_partner_keeps_what_is_signed_and_keeps_it_once(bank: EventStore) -> None:
    bank.execute(deposit, Status("alice"), 1)
    bank.execute(deposit, Status("bob"), 2)
    with strandline.connect("memory:") as inbox, receiving(SECRET, inbox) as url:
        for _ in range(2):
            outbox = partner(bank, url, SECRET)
            outbox.follower.reset(0)
            outbox.catch_up()
        assert [event.json()["cents"] for event in inbox.read()] == [1, 2]
        guess = Webhook(url, secret="guess")
        stranger = bank.outbox("deposits", Query.types("Deposited"), "stranger", guess, attempts=1)
        with pytest.raises(Unavailable, match="answered 401"):
            stranger.catch_up()
        assert (stranger.dead_letters(), stranger.status().position) == ([], 0)
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            urllib.request.urlopen(urllib.request.Request(url, b"{}", method="POST"), timeout=10)
        refused.value.close()
        assert inbox.head() == 2


def test_what_runs_hears_of_others_and_ends(bank: EventStore) -> None:
    with running([balances.worker(bank), bonus(bank)]):
        first(2, bank, Query.types("Deposited"))
        balances.wait_for(bank.head())
        assert balances.get("bob") == bank.project(Wallet("bob"))
    assert {status.state for status in bank.followers()} == {"idle"}


def test_as_a_process_of_its_own(place: Place) -> None:
    with place.connect() as store:
        store.execute(open_wallet, Status("alice"), "Alice", 100)
        store.append(Event("Unrelated", {}))
    with strandline.connect("memory:") as inbox, receiving(SECRET, inbox) as url:
        arguments = ["--log", place.log] if place.log else []
        command = [
            sys.executable,
            "-m",
            "strandline.cli",
            "run",
            "wallet_live:app",
            str(place.url),
            *arguments,
        ]
        for _ in range(2):  # the bonus is appended after the head at which the first run ends
            done = subprocess.run(
                [*command, "--once", "--json"],
                cwd=EXAMPLES,
                env={**os.environ, "WALLET_PARTNER": url, "WALLET_SECRET": SECRET},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
        assert inbox.head() == 1
    with place.connect() as store:
        assert {(status.name, status.lag, status.dead_letters) for status in store.followers()} == {
            (name, 0, 0)
            for name in ("model:balances", "model:statements", "welcome bonus", "outbox:deposits:partner")
        }
        balances.use(store)
        statements.use(store)
        assert balances.get("alice") == store.project(Wallet("alice"))
        assert statements.get("alice") == store.project(Statement("alice"))
