"""Clients of one process against a store that runs: threads or asyncio, whichever the store is for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

from .clients import AsyncStep, Sample, run_each, run_tasks, run_threads
from .steps import Waitless, appends, contended_cycles, cycles, executes, in_thread
from .stores import Store
from .workload import Decision, Workload

Action = Literal["append", "cycle", "execute", "cached", "contended10", "contended50"]
STEPS: dict[Action, Callable[[Any, Iterator[Decision]], AsyncStep]] = {
    "append": appends,
    "cycle": cycles,
    "execute": executes,
    "cached": executes,
    "contended10": partial(contended_cycles, share=0.1),
    "contended50": partial(contended_cycles, share=0.5),
}
WARMING_CLIENTS = 32


class Crowd(NamedTuple):
    """The clients of one process among those of all processes."""

    first: int
    here: int
    everywhere: int


def drive(
    store: Store, address: str, action: Action, workload: Workload, crowd: Crowd, seconds: float
) -> Sample:
    """Connect, and let the crowd decide on its own keys for so many seconds."""
    keeps_states = action == "cached"
    decisions = [workload.decisions(crowd.first + index, crowd.everywhere) for index in range(crowd.here)]
    keys = [
        decision
        for index in range(crowd.here if keeps_states else 0)
        for decision in workload.every_key(crowd.first + index, crowd.everywhere)
    ]
    shares = [keys[number::WARMING_CLIENTS] for number in range(WARMING_CLIENTS)]
    make = STEPS[action]
    if store.is_async:

        async def run() -> Sample:
            async with store.connect_async(address, keeps_states=keeps_states) as client:
                await asyncio.gather(*[_know(client, share) for share in shares])
                return await run_tasks([make(client, each) for each in decisions], seconds)

        return asyncio.run(run())
    with store.connect(address, keeps_states=keeps_states) as connected:
        client = Waitless(connected)
        run_each([in_thread(partial(_know, client, share)) for share in shares if share])
        return run_threads([in_thread(make(client, each)) for each in decisions], seconds)


async def _know(client: Any, decisions: list[Decision]) -> int:
    """Use keys once, so that the client has a state of each."""
    for decision in decisions:
        await client.execute(decision)
    return len(decisions)
