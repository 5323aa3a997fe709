"""What clients repeat, written once for tasks; a thread takes the same steps with a client that never waits."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from .clients import AsyncStep, Step
from .stores import AsyncClient, AsyncCommandClient, Client, CommandClient, Refused
from .workload import Decision, NewEvent, Query


class Waitless:
    """A client of threads whose methods can be awaited, and are done at once."""

    def __init__(self, client: Any) -> None:
        self._client: CommandClient = client

    async def head(self) -> int:
        return self._client.head()

    async def append(self, event: NewEvent, query: Query, after: int) -> int:
        return self._client.append(event, query, after)

    async def read(self, query: Query) -> tuple[int, int]:
        return self._client.read(query)

    async def execute(self, decision: Decision) -> None:
        self._client.execute(decision)


def in_thread(step: AsyncStep) -> Step:
    """A step of a `Waitless` client as a function to call."""

    def run() -> int:
        try:
            step().send(None)
        except StopIteration as done:
            units: int = done.value
            return units
        raise RuntimeError("a client of threads waited")

    return run


def appends(client: AsyncClient, decisions: Iterator[Decision]) -> AsyncStep:
    """Only the conditional append; nothing of the client's own keys is newer than its last append."""
    after = -1

    async def step() -> int:
        nonlocal after
        if after < 0:
            after = await client.head()
        decision = next(decisions)
        after = await client.append(decision.event, decision.query, after)
        return 1

    return step


def cycles(client: AsyncClient, decisions: Iterator[Decision]) -> AsyncStep:
    """Read what the decision depends on, then append."""

    async def step() -> int:
        decision = next(decisions)
        query = decision.query
        head, _ = await client.read(query)
        await client.append(decision.event, query, head)
        return 1

    return step


def executes(client: AsyncCommandClient, decisions: Iterator[Decision]) -> AsyncStep:
    """The cycle as a command; only stores that have such a thing can do it."""

    async def step() -> int:
        await client.execute(next(decisions))
        return 1

    return step


def contended_cycles(client: AsyncClient, decisions: Iterator[Decision], share: float) -> AsyncStep:
    """Cycles of which a share is refused at first, because of an event that came after they read.

    The event is the client's own of the cycle before, so that the share is the same for every store, however
    fast it is. Somebody who is refused reads and appends again.
    """
    choose = random.Random(1)
    last: tuple[Decision, int] | None = None

    async def step() -> int:
        nonlocal last
        if last is not None and choose.random() < share:
            stale, head = last
            await client.read(stale.query)
            try:
                await client.append(stale.event, stale.query, head)
            except Refused:
                pass
            else:
                raise AssertionError("an append with a conflict was accepted")
        decision = next(decisions)
        head, _ = await client.read(decision.query)
        await client.append(decision.event, decision.query, head)
        last = decision, head
        return 1

    return step


def queries(client: Client, decisions: Iterator[Decision]) -> Step:
    """Only the read of a decision."""

    def step() -> int:
        client.read(next(decisions).query)
        return 1

    return step


def reads(client: Client, query: Query) -> Step:
    """The same read again and again; counts reads."""

    def step() -> int:
        client.read(query)
        return 1

    return step


def scans(client: Client) -> Step:
    """Read the whole log; counts events."""
    return client.scan


def bulk_appends(client: Client, batch: Sequence[NewEvent]) -> Step:
    """Write a batch; counts events."""

    def step() -> int:
        client.append_batch(batch)
        return len(batch)

    return step


def checks(client: Client, query: Query, event: NewEvent) -> Step:
    """Append under one condition that looks at the whole log; the event itself does not match it."""

    def step() -> int:
        client.append(event, query, 0)
        return 1

    return step


def checks_at_head(client: Client, query: Query, event: NewEvent) -> Step:
    """Append under a condition since the last append."""
    after = client.head()

    def step() -> int:
        nonlocal after
        after = client.append(event, query, after)
        return 1

    return step
