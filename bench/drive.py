"""Clients of one process against a store that runs: threads or asyncio, whichever the store is for."""

from __future__ import annotations

import asyncio
from typing import Literal, NamedTuple

from .clients import (
    Sample,
    appends,
    appends_async,
    cycles,
    cycles_async,
    executes,
    executes_async,
    run_tasks,
    run_threads,
)
from .stores import Store
from .workload import Workload

Action = Literal["append", "cycle", "execute", "cached"]
STEPS = {"append": appends, "cycle": cycles, "execute": executes, "cached": executes}
ASYNC_STEPS = {
    "append": appends_async,
    "cycle": cycles_async,
    "execute": executes_async,
    "cached": executes_async,
}


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
    warm_up = [
        decision
        for index in range(crowd.here if keeps_states else 0)
        for decision in workload.every_key(crowd.first + index, crowd.everywhere)
    ]
    decisions = [workload.decisions(crowd.first + index, crowd.everywhere) for index in range(crowd.here)]
    if store.is_async:

        async def run() -> Sample:
            async with store.connect_async(address, keeps_states=keeps_states) as client:
                for decision in warm_up:
                    await client.execute(decision)
                steps = [await ASYNC_STEPS[action](client, each) for each in decisions]
                return await run_tasks(steps, seconds)

        return asyncio.run(run())
    with store.connect(address, keeps_states=keeps_states) as client:
        for decision in warm_up:
            client.execute(decision)
        return run_threads([STEPS[action](client, each) for each in decisions], seconds)
