"""Load for the wallet over HTTP: a process of its own, many connections, a table beside Crablet's figures.

    python examples/wallet_http/load.py                     # starts the application on a new file, 5 s each
    python examples/wallet_http/load.py --address http://127.0.0.1:8000 --seconds 10

Each operation runs for some seconds on 1,000 wallets, with the amounts of Crablet's own load scripts. Every 50th
operation is sent twice. Afterwards the money is counted: what was answered with 201 must be there, once, and no wallet
may ever have been below zero. It says so with exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

EXAMPLES = Path(__file__).resolve().parents[1]
WALLETS = 1_000
CONNECTIONS = 64
TWICE = 50
"""So seldom an operation is sent a second time."""
CRABLET = {"open": 44, "deposit": 350, "withdraw": 350, "transfer": 300, "history": 1_000}
"""Requests per second, as its document of October 2025 states them."""
GOAL = 6
LOST = 0
"""Counted where a connection ended without an answer."""

Answer = tuple[int, bytes]


class Connection(asyncio.Protocol):
    """A connection that sends one request at a time."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._received = bytearray()
        self._answer: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, rest = bytes(self._received).partition(b"\r\n\r\n")
        if not separator:
            return
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(rest) >= size and self._answer is not None:
            self._received.clear()
            self._answer.set_result((int(head[9:12]), rest))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server closed the connection"))

    async def send(self, method: str, path: str, fields: dict[str, Any] | None = None) -> Answer:
        """Send a request and return the status and the body of the answer."""
        body = b"" if fields is None else json.dumps(fields).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-length: {len(body)}\r\n\r\n"
        if self._transport.is_closing():
            raise ConnectionResetError("the server closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + body)
        return await asyncio.wait_for(self._answer, 30)

    def close(self) -> None:
        self._transport.close()


class Request(NamedTuple):
    """A request, and what it does to the sum of all money."""

    method: str
    path: str
    fields: dict[str, Any] | None = None
    money: int = 0
    is_repeated: bool = False


class Phase:
    """One kind of operation for some seconds: what was answered, and how fast."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seconds = 0.0
        self.latencies: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.money = 0
        self.wrong: list[str] = []

    @property
    def per_second(self) -> float:
        return (self.statuses[200] + self.statuses[201]) / self.seconds

    @property
    def errors(self) -> int:
        """Answers that no documented rule explains."""
        return sum(count for status, count in self.statuses.items() if status not in {200, 201, 400, 409})

    def percentile(self, share: float) -> float:
        """A latency in milliseconds."""
        ordered = sorted(self.latencies)
        return 1_000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    async def run(
        self, connections: Sequence[Connection], requests: Iterator[Request], seconds: float
    ) -> None:
        """Send requests on every connection until they end, or the time does."""
        started = time.perf_counter()
        clients = (self._client(connection, requests, started + seconds) for connection in connections)
        await asyncio.gather(*clients)
        self.seconds = time.perf_counter() - started

    async def _client(self, connection: Connection, requests: Iterator[Request], end: float) -> None:
        for request in requests:
            status = await self._send(connection, request)
            if status == 201:
                self.money += request.money
                if request.is_repeated and await self._send(connection, request) != 200:
                    self.wrong.append(f"the repeat of {request} was not answered with 200")
            if status == LOST or time.perf_counter() > end:
                return

    async def _send(self, connection: Connection, request: Request) -> int:
        sent = time.perf_counter()
        try:
            status, body = await connection.send(request.method, request.path, request.fields)
        except (OSError, TimeoutError) as error:
            status, body = LOST, str(error).encode()
        self.latencies.append(time.perf_counter() - sent)
        self.statuses[status] += 1
        if (status >= 500 or status == LOST) and len(self.wrong) < 5:
            self.wrong.append(f"{status}: {body.decode()}")
        return status


class Load:
    """The requests of all phases, chosen at random."""

    def __init__(self, wallets: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._prefix = f"{time.time_ns():x}"
        self._number = 0
        self.wallets = [f"wallet-{self._prefix}-{number}" for number in range(wallets)]

    def openings(self) -> Iterator[Request]:
        for wallet in self.wallets:
            balance = self._chance.randrange(50_000, 100_001)
            fields = {"owner": f"owner of {wallet}", "initial_balance": balance}
            yield self._request("PUT", f"/api/wallets/{wallet}", fields, balance)

    def deposits(self) -> Iterator[Request]:
        while True:
            amount = self._chance.randrange(10, 101)
            fields = {"deposit_id": self._operation(), "amount": amount}
            yield self._request("POST", f"/api/wallets/{self._wallet()}/deposits", fields, amount)

    def withdrawals(self) -> Iterator[Request]:
        while True:
            amount = self._chance.randrange(10, 101)
            fields = {"withdrawal_id": self._operation(), "amount": amount}
            yield self._request("POST", f"/api/wallets/{self._wallet()}/withdrawals", fields, -amount)

    def transfers(self) -> Iterator[Request]:
        while True:
            source, target = self._chance.sample(self.wallets, 2)
            fields = {
                "transfer_id": self._operation(),
                "from_wallet_id": source,
                "to_wallet_id": target,
                "amount": self._chance.randrange(50, 201),
            }
            yield self._request("POST", "/api/wallets/transfers", fields, 0)

    def histories(self) -> Iterator[Request]:
        while True:
            yield Request("GET", f"/api/wallets/{self._wallet()}/history")

    def _wallet(self) -> str:
        return self._chance.choice(self.wallets)

    def _operation(self) -> str:
        self._number += 1
        return f"{self._prefix}-{self._number}"

    def _request(self, method: str, path: str, fields: dict[str, Any], money: int) -> Request:
        return Request(method, path, fields, money, self._chance.randrange(TWICE) == 0)


async def run(address: str, seconds: float, connections: int, wallets: int, seed: int) -> bool:
    """Run every phase, print the table, count the money. Return whether it is right."""
    load = Load(wallets, seed)
    phases = {
        "open": load.openings(),
        "deposit": load.deposits(),
        "withdraw": load.withdrawals(),
        "transfer": load.transfers(),
        "history": load.histories(),
    }
    done: list[Phase] = []
    opened = await connect(address, connections)
    try:
        for name, requests in phases.items():
            phase = Phase(name)
            await phase.run(opened, requests, 60 if name == "open" else seconds)
            done.append(phase)
        show(done)
        wrong = [problem for phase in done for problem in phase.wrong]
        wrong += [problem async for problem in miscounts(opened, load.wallets, done)]
    finally:
        for connection in opened:
            connection.close()
    for problem in wrong:
        print(f"WRONG: {problem}")
    return not wrong and not any(phase.errors for phase in done)


async def connect(address: str, count: int) -> list[Connection]:
    """Open connections to the server."""
    place = urlsplit(address)
    host = place.hostname or "127.0.0.1"
    loop = asyncio.get_running_loop()
    opened: list[Connection] = []
    for _ in range(count):
        _, connection = await loop.create_connection(lambda: Connection(place.netloc), host, place.port or 80)
        opened.append(connection)
    return opened


def show(phases: Sequence[Phase]) -> None:
    """Print the table."""
    print(
        f"{'operation':<10}{'ours/s':>9}{'Crablet/s':>11}{'ratio':>7}{'p50 ms':>8}{'p99 ms':>8}"
        f"{'201':>8}{'200':>8}{'400':>6}{'409':>6}{'errors':>8}"
    )
    for phase in phases:
        ratio = phase.per_second / CRABLET[phase.name]
        counts = [phase.statuses[status] for status in (201, 200, 400, 409)]
        print(
            f"{phase.name:<10}{phase.per_second:>9,.0f}{CRABLET[phase.name]:>11,}{ratio:>6.1f}x"
            f"{phase.percentile(0.5):>8.2f}{phase.percentile(0.99):>8.2f}"
            f"{counts[0]:>8,}{counts[1]:>8,}{counts[2]:>6,}{counts[3]:>6,}{phase.errors:>8,}"
        )
    slow = [phase.name for phase in phases if phase.per_second < GOAL * CRABLET[phase.name]]
    print(
        f"below {GOAL} times Crablet's figure: {', '.join(slow)}" if slow else f"each at least {GOAL} times"
    )


async def miscounts(
    connections: Sequence[Connection], wallets: Sequence[str], phases: Sequence[Phase]
) -> AsyncIterator[str]:
    """Yield what is wrong with the money, by the balances and the events of every wallet."""
    names = iter(wallets)
    balances: dict[str, int] = {}
    wrong: list[str] = []

    async def count(connection: Connection) -> None:
        for wallet in names:
            status, body = await connection.send("GET", f"/api/wallets/{wallet}")
            if status != 200:
                wrong.append(f"{wallet} is answered with {status}: {body.decode()}")
                continue
            balances[wallet] = json.loads(body)["balance"]
            steps = [step async for step in movements(connection, wallet)]
            if steps[-1] != balances[wallet] or min(steps) < 0:
                wrong.append(f"{wallet} shows {balances[wallet]}, and its events say {steps}")

    await asyncio.gather(*map(count, connections))
    for problem in wrong:
        yield problem
    expected, there = sum(phase.money for phase in phases), sum(balances.values())
    if expected != there:
        yield f"{expected} was paid in and not out, but the wallets hold {there}"
    print(
        f"the money of {len(balances):,} wallets: {there:,}; acknowledged: {expected:,}; lowest: {min(balances.values()):,}"
    )


async def movements(connection: Connection, wallet: str) -> AsyncIterator[int]:
    """Yield what a wallet held after each of its events."""
    held, after = 0, 0
    while after is not None:
        _, body = await connection.send("GET", f"/api/wallets/{wallet}/history?after={after}&limit=1000")
        page = json.loads(body)
        after = page["next"]
        for event in page["events"]:
            held += change(event["type"], event["data"], wallet)
            yield held


def change(type_: str, data: dict[str, Any], wallet: str) -> int:
    """Return what an event adds to a wallet."""
    leaves = type_ == "Withdrawn" or (type_ == "MoneyTransferred" and data["source"] == wallet)
    cents: int = data["cents"]
    return -cents if leaves else cents


@contextmanager
def serving(url: str) -> Generator[str, None, None]:
    """Start the application in a process of its own; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "--factory", "wallet_http.app:create"]
    options = ["--port", str(port), "--no-access-log", "--log-level", "warning"]
    server = subprocess.Popen([*command, *options], cwd=EXAMPLES, env={**os.environ, "STRANDLINE_URL": url})
    try:
        wait_for(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server takes connections."""
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--address", help="a server that runs already; otherwise one is started")
    parser.add_argument("--store", help="the store of the server that is started; otherwise a new file")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each operation runs")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--wallets", type=int, default=WALLETS)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()

    def judge(address: str) -> bool:
        return measure(run(address, chosen.seconds, chosen.connections, chosen.wallets, chosen.seed))

    if chosen.address:
        is_right = judge(chosen.address)
    else:
        with (
            tempfile.TemporaryDirectory() as folder,
            serving(chosen.store or f"{folder}/wallets.db") as address,
        ):
            is_right = judge(address)
    sys.exit(0 if is_right else 1)


def measure(running: Awaitable[bool]) -> bool:
    """Run the clients on the fastest event loop there is."""

    async def run() -> bool:
        return await running

    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        return runner.run(run())


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


if __name__ == "__main__":
    main()
