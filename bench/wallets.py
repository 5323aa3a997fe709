"""The wallet of the examples through `execute`: many clients, few wallets, so that they get in each other's way."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import strandline
from strandline import AppendConditionFailed, Command, EventStore, Projection

from .case import Case, Measured, by_command, by_command_in_threads, count
from .clients import AsyncStep, Sample, run_tasks, run_threads
from .lab import Lab
from .steps import in_thread
from .stores import Store

sys.path.append(str(Path(__file__).parent.parent / "examples"))

from wallet import (
    Deposited,
    Status,
    Wallet,
    WalletId,
    WalletOpened,
    deposit,
    open_wallet,
    transfer,
    withdraw,
)
from wallet_history import History

Operation = Literal["open", "deposit", "withdraw", "transfer", "history"]
OPERATIONS: dict[Operation, str] = {
    "open": "a wallet is opened",
    "deposit": "a deposit to one of them",
    "withdraw": "a withdrawal from one of them",
    "transfer": "a transfer between two of them",
    "history": "the statement of one of them is read",
}
WALLETS = 100
DEPOSITS = 20  # in each wallet when it begins
CENTS = 1_000_000_000


class Bank:
    """A store as the clients call it; that of threads never waits."""

    def __init__(self, store: Any, *, is_async: bool) -> None:
        self._execute: Callable[..., Any] = store.execute if is_async else _done(store.execute)
        self._project: Callable[..., Awaitable[Any]] = store.project if is_async else _done(store.project)

    async def do(self, command: Command[..., Any], *arguments: Any) -> None:
        await self._execute(command, *arguments)

    async def see(self, projection: Projection) -> None:
        await self._project(projection)


def cases(clients: int) -> Iterator[Case]:
    """Each operation, by so many clients."""
    for operation, title in OPERATIONS.items():
        yield Case(
            f"wallet:{operation}",
            "wallet",
            f"wallet: {title}, {count(clients)}, {WALLETS} wallets",
            "operations/s",
            partial(_operate, operation=operation, clients=clients),
            by_command,
            by_command_in_threads,
            once_in_quick=True,
            clients=clients,
        )


def _operate(lab: Lab, store: Store, operation: Operation, clients: int) -> Measured:
    """Let so many clients repeat an operation on wallets chosen at random; conflicts are tried again by `execute`."""
    with lab.scratch(store.home) as place, store.serve(place) as running:
        with strandline.connect(running.address) as log:
            _prepare(log)
            before = log.stats()
        given_up: list[int] = []
        with lab.watched():
            sample = _run(store, running.address, operation, clients, lab.settings.seconds, given_up)
        with strandline.connect(running.address) as log:
            after = log.stats()
    refused, accepted = after.refused - before.refused, after.appends - before.appends
    return Measured.of(sample, wallets=WALLETS, accepted=accepted, refused=refused, given_up=len(given_up))


def _prepare(log: EventStore) -> None:
    wallets = [WalletId(str(number)) for number in range(WALLETS)]
    log.append([WalletOpened(wallet=wallet, owner=wallet, cents=CENTS) for wallet in wallets])
    log.append([Deposited(wallet=wallet, cents=1) for wallet in wallets for _ in range(DEPOSITS)])


def _run(
    store: Store, address: str, operation: Operation, clients: int, seconds: float, given_up: list[int]
) -> Sample:
    def steps(bank: Bank) -> list[AsyncStep]:
        return [_step(bank, operation, client, given_up) for client in range(clients)]

    if store.is_async:

        async def run() -> Sample:
            async with strandline.connect_async(address) as log:
                return await run_tasks(steps(Bank(log, is_async=True)), seconds)

        return asyncio.run(run())
    with strandline.connect(address) as log:
        return run_threads([in_thread(step) for step in steps(Bank(log, is_async=False))], seconds)


def _step(bank: Bank, operation: Operation, client: int, given_up: list[int]) -> AsyncStep:
    choose, numbers = random.Random(client), iter(range(1 << 30))

    async def operate_once() -> None:
        one, other = map(str, choose.sample(range(WALLETS), 2))
        match operation:
            case "open":
                await bank.do(open_wallet, Status(f"{client}-{next(numbers)}"), "somebody", CENTS)
            case "deposit":
                await bank.do(deposit, Status(one), 1)
            case "withdraw":
                await bank.do(withdraw, Wallet(one), 1)
            case "transfer":
                await bank.do(transfer, Wallet(one), Status(other), 1)
            case "history":
                await bank.see(History(one))

    async def step() -> int:
        try:
            await operate_once()
        except AppendConditionFailed:  # others were faster each time; it counts as time spent, not as done
            given_up.append(client)
            return 0
        return 1

    return step


def _done(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call
