"""UmaDB's protocol: our gRPC face and UmaDB's server, through the same client, each with the same calls."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Literal

from .case import Case, Measured, count, in_any_way
from .clients import Step, run_threads
from .goals import PROTOCOL
from .lab import Lab, Settings
from .steps import Waitless, appends, cycles, in_thread, queries
from .stores import Client, Store
from .workload import Decision, Workload

GROUP = "grpc"
SUBSCRIBED = 500

Call = Literal["append", "condition", "read", "cycle", "subscribe"]
TITLES: dict[Call, tuple[str, str]] = {
    "append": ("append without a condition", "appends/s"),
    "condition": ("conditional append", "appends/s"),
    "read": ("decision query", "queries/s"),
    "cycle": ("cycle (read + append)", "decisions/s"),
    "subscribe": (f"subscribe, catch up with {SUBSCRIBED} events", "events/s"),
}


def cases(settings: Settings) -> Iterator[Case]:
    """Each call by few and by many clients."""
    for clients in sorted({min(settings.clients), max(settings.clients)}):
        for call, (title, unit) in TITLES.items():
            yield Case(
                f"{PROTOCOL}{call}@{clients}",
                GROUP,
                f"{title}, {count(clients)}, over gRPC",
                unit,
                partial(_measure, call=call, clients=clients),
                speaks_umadb,
                in_any_way,
                events=settings.events,
                clients=clients,
            )


def speaks_umadb(store: Store) -> bool:
    """Whether UmaDB's client can talk to a store. With other settings UmaDB is measured elsewhere."""
    return store.name == "umadb" or store.is_face


def _measure(lab: Lab, store: Store, call: Call, clients: int) -> Measured:
    workload = Workload(lab.settings.events)
    with lab.running(store, writes=True) as running, store.connect(running.address) as client:
        steps = [_step(client, call, workload.decisions(number, clients), lab) for number in range(clients)]
        return Measured.of(run_threads(steps, lab.settings.seconds))


def _step(client: Client, call: Call, decisions: Iterator[Decision], lab: Lab) -> Step:
    match call:
        case "append":
            return _unconditional(client, decisions)
        case "condition":
            return in_thread(appends(Waitless(client), decisions))
        case "read":
            return queries(client, decisions)
        case "cycle":
            return in_thread(cycles(Waitless(client), decisions))
        case "subscribe":
            return _caught_up(client, min(SUBSCRIBED, lab.settings.events))


def _unconditional(client: Client, decisions: Iterator[Decision]) -> Step:
    def step() -> int:
        client.append_batch([next(decisions).event])
        return 1

    return step


def _caught_up(client: Client, events: int) -> Step:
    """Begin a subscription in the middle of the log, and take what is there; counts events."""

    def step() -> int:
        with client.subscribe((), max(0, client.head() - events)) as subscription:
            return sum(1 for _ in islice(subscription, events))

    return step
