"""The wallet over HTTP: a real server, clients on connections of their own, and money that is counted afterwards."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn
from at_once import at_once

import strandline
import wallet_http.app
from places import Place
from strandline.testing import violations
from wallet_http.app import create
from wallet_http.load import CRABLET

EXAMPLES = Path(wallet_http.app.__file__).parents[1]


class Reply(NamedTuple):
    status: int
    fields: dict[str, Any]


class Bank:
    """A client: each request on a connection of its own."""

    def __init__(self, port: int) -> None:
        self._port = port

    def send(self, method: str, path: str, fields: Any = None) -> Reply:
        body = fields if fields is None or isinstance(fields, bytes) else json.dumps(fields).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, f"/api/wallets/{path}", body)
            answer = connection.getresponse()
            return Reply(answer.status, json.loads(answer.read() or b"{}"))
        finally:
            connection.close()

    def open(self, wallet: str, balance: int = 0, owner: str = "Ada") -> int:
        return self.send("PUT", wallet, {"owner": owner, "initial_balance": balance}).status

    def deposit(self, wallet: str, amount: int, once: str) -> int:
        return self.send("POST", f"{wallet}/deposits", {"deposit_id": once, "amount": amount}).status

    def withdraw(self, wallet: str, amount: int, once: str) -> int:
        return self.send("POST", f"{wallet}/withdrawals", {"withdrawal_id": once, "amount": amount}).status

    def transfer(self, source: str, target: str, amount: int, once: str) -> int:
        fields = {"transfer_id": once, "from_wallet_id": source, "to_wallet_id": target, "amount": amount}
        return self.send("POST", "transfers", fields).status

    def balance(self, wallet: str) -> int:
        return self.send("GET", wallet).fields["balance"]


@pytest.fixture
def bank(kept: Place) -> Iterator[Bank]:
    """A client of a real server. Whatever the test did, every recorded condition must have held."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create(str(kept.url), **kept.options), log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        yield Bank(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
    with kept.connect() as store:
        assert violations(store) == []


def wait_until(is_so: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_operation_is_created_once_and_repeated_afterwards(bank: Bank) -> None:
    assert (bank.open("alice", 100), bank.open("alice", 100), bank.open("bob")) == (201, 200, 201)
    for _, status in zip(range(2), (201, 200), strict=True):
        assert bank.deposit("alice", 50, "d1") == status
        assert bank.withdraw("alice", 30, "w1") == status
        assert bank.transfer("alice", "bob", 100, "t1") == status
    assert bank.send("GET", "alice") == (200, {"wallet_id": "alice", "owner": "Ada", "balance": 20})
    assert bank.balance("bob") == 100


def test_a_refusal_says_why_and_changes_nothing(bank: Bank) -> None:
    bank.open("alice", 100)
    bank.open("bob")
    bank.deposit("alice", 1, "d1")
    sent = [
        ("PUT", "alice", {"owner": "Eve"}, 409),
        ("POST", "alice/withdrawals", {"withdrawal_id": "w1", "amount": 102}, 400),
        ("POST", "alice/withdrawals", {"withdrawal_id": "w1", "amount": 0}, 400),
        ("POST", "alice/deposits", {"deposit_id": "d2", "amount": -5}, 400),
        ("POST", "alice/deposits", {"deposit_id": "", "amount": 5}, 400),
        ("POST", "alice/deposits", {"amount": 5}, 400),
        ("POST", "alice/deposits", b"{", 400),
        ("POST", "alice/deposits", b'{"deposit_id": "\xff", "amount": 5}', 400),
        ("PUT", "a%20b%00", {"owner": "Ada"}, 400),
        ("POST", "alice/deposits", {"deposit_id": "d1", "amount": 2}, 409),  # d1 was a deposit of 1
        ("POST", "bob/deposits", {"deposit_id": "d1", "amount": 1}, 409),  # … to alice
        ("POST", "carol/deposits", {"deposit_id": "d3", "amount": 5}, 404),
        ("POST", "carol/withdrawals", {"withdrawal_id": "w2", "amount": 5}, 404),
        ("GET", "carol", None, 404),
        ("GET", "carol/history", None, 404),
        ("GET", "alice/history?limit=0", None, 400),
        *(
            (
                "POST",
                "transfers",
                {"transfer_id": "t", "from_wallet_id": source, "to_wallet_id": target, "amount": amount},
                status,
            )
            for source, target, amount, status in [
                ("alice", "bob", 102, 400),
                ("alice", "alice", 1, 400),
                ("alice", "carol", 1, 404),
                ("carol", "alice", 1, 404),
            ]
        ),
    ]
    for method, path, fields, status in sent:
        reply = bank.send(method, path, fields)
        assert (reply.status, reply.fields["status"]) == (status, status), (method, path, fields, reply)
        assert reply.fields["title"]
        assert isinstance(reply.fields["detail"], str)
    assert (bank.balance("alice"), bank.balance("bob")) == (101, 0)


def test_a_history_comes_in_pages(bank: Bank) -> None:
    bank.open("alice", 100)
    for number in range(5):
        bank.deposit("alice", number + 1, f"d{number}")
    seen, after = [], 0
    while after is not None:
        page = bank.send("GET", f"alice/history?after={after}&limit=4").fields
        seen += [(event["type"], event["data"]["cents"]) for event in page["events"]]
        after = page["next"]
    assert seen == [("WalletOpened", 100), *(("Deposited", cents) for cents in range(1, 6))]


def test_one_operation_sent_by_many_clients_happens_once(bank: Bank) -> None:
    bank.open("alice", 100)
    statuses = at_once([partial(bank.withdraw, "alice", 80, "w1")] * 8)
    assert Counter(statuses) == {201: 1, 200: 7}
    assert bank.balance("alice") == 20


def test_of_many_withdrawals_of_80_from_100_one_is_done(bank: Bank) -> None:
    bank.open("alice", 100)
    statuses = at_once([partial(bank.withdraw, "alice", 80, f"w{number}") for number in range(8)])
    assert Counter(statuses) == {201: 1, 400: 7}
    assert bank.balance("alice") == 20


def test_a_conflict_that_is_not_decided_again_is_409(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wallet_http.app, "ATTEMPTS", 1)
    bank.open("alice", 10_000)
    statuses: Counter[int] = Counter()
    for turn in range(200):
        statuses.update(at_once([partial(bank.withdraw, "alice", 1, f"{turn}-{n}") for n in range(8)]))
        if statuses[409]:
            break
    assert statuses.keys() == {201, 409}
    assert bank.balance("alice") == 10_000 - statuses[201]


def test_many_clients_lose_and_invent_no_money(bank: Bank) -> None:
    names = ("alice", "bob", "carol")
    for name in names:
        bank.open(name, 100)
    chance = random.Random(7)
    operations = [
        (kind, f"{kind}-{number}", *chance.sample(names, 2), chance.randrange(1, 60))
        for number in range(20)
        for kind in ("deposit", "withdraw", "transfer")
    ]

    def client(own: list[tuple[str, str, str, str, int]]) -> list[tuple[str, int, int]]:
        answers = []
        for kind, once, source, target, amount in own:
            if kind == "transfer":
                status = bank.transfer(source, target, amount, once)
            else:
                status = getattr(bank, kind)(source, amount, once)
            answers.append((kind, status, amount))
        return answers

    # Every operation is sent by two clients. One of them does it.
    answers = [
        answer for own in at_once([partial(client, operations[n::4]) for n in range(4)] * 2) for answer in own
    ]
    assert {status for _, status, _ in answers} <= {200, 201, 400}
    done = [(kind, amount) for kind, status, amount in answers if status == 201]
    paid_in = sum(amount for kind, amount in done if kind == "deposit")
    paid_out = sum(amount for kind, amount in done if kind == "withdraw")
    assert sum(map(bank.balance, names)) == 300 + paid_in - paid_out
    assert min(map(bank.balance, names)) >= 0


def test_the_load_script_prints_its_table_and_counts_the_money(tmp_path: Path) -> None:
    url = tmp_path / "wallets.db"
    options = ["--store", str(url), "--seconds", "0.3", "--connections", "8", "--wallets", "20"]
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "wallet_http" / "load.py", *options],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.findall(r"^(\w+) .*x", done.stdout, re.MULTILINE) == list(CRABLET)
    assert "the money of 20 wallets" in done.stdout
    with strandline.connect(url) as store:
        assert violations(store) == []
