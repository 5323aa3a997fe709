"""The goals of the benchmark issue: what each case is to reach against a peer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

PROTOCOL = "grpc:"  # begins the names of the cases that UmaDB's client measures
MEANT_FOR_A_MILLION = "the goal is for 1 M events"


@dataclass(frozen=True)
class Goal:
    """`floor` must hold, `target` is wanted; `of` says of what number.

    `peer`: ours divided by the peer's (in the case `beside`, if given). `share`: ours divided by ours in the case
    `beside`; `growth`: the same, where that is a smaller log. `value`: our number itself, at most that; `rate`: at
    least that.
    """

    case: str
    stores: tuple[str, ...]
    floor: float
    target: float
    of: Literal["peer", "growth", "share", "value", "rate"] = "peer"
    beside: str = ""
    p99_below: float | Literal["peer"] | None = None  # milliseconds, or the peer's
    note: str = ""


@dataclass(frozen=True)
class Match:
    """Stores that are compared with a peer, and what they have to reach."""

    title: str
    ours: tuple[str, ...]
    peer: str
    others: tuple[str, ...]  # the peer with other settings, and peers without goals
    all_goals: tuple[Goal, ...]
    prefix: str = ""  # of the names of its cases, if they are only about this match

    def has(self, case: str, store: str) -> bool:
        """Whether a number is one of this match."""
        return store in self.stores and case.startswith(PROTOCOL) == bool(self.prefix)

    @property
    def stores(self) -> tuple[str, ...]:
        return (*self.ours, self.peer, *self.others)

    def goals(self, case: str, store: str) -> list[Goal]:
        """What this store has to reach in this case."""
        return [goal for goal in self.all_goals if goal.case == case and store in goal.stores]


def _embedded() -> Match:
    threads, tasks = ("strandline",), ("strandline-async",)
    both = (*threads, *tasks)
    return Match(
        "embedded, against UmaDB (which is a server: its numbers contain a gRPC call over loopback)",
        both,
        "umadb",
        ("umadb-fast", "event-storage", "event-storage-fsync"),
        (
            Goal("append@1", threads, 4, 8),
            Goal("append@64", tasks, 2.5, 5, p99_below="peer"),
            Goal("cycle@1", threads, 3.5, 5),
            Goal("cycle@64", both, 1.6, 3),
            *_by_command(threads, both, (3, 4), (1.4, 2.5), (6, 10), (5, 10)),
            Goal("query", threads, 6, 9),
            Goal("scan", threads, 2.5, 3.5),
            Goal("bulk", threads, 1, 2),
            Goal("stale", threads, 500, 5000),
            Goal("hot-rare", threads, 1, 20, note=MEANT_FOR_A_MILLION),
            Goal("hot-rare:1M", threads, 1, 20),
            *_sustained(both),
            Goal("processes:2x32", both, 1.5, 3, p99_below=150.0),
            Goal("follow", threads, 50_000, 100_000, of="rate"),
            Goal("follow-delay", threads, 10, 2, of="value"),
            Goal("read-model", threads, 10_000, 20_000, of="rate"),
            Goal("disk", threads, 420, 420, of="value"),
            Goal("memory", threads, 100, 100, of="value", note=MEANT_FOR_A_MILLION),
            Goal("memory:1M", threads, 100, 100, of="value"),
        ),
    )


def _postgres() -> Match:
    threads, tasks = ("strandline-pg",), ("strandline-pg-async",)
    both = (*threads, *tasks)
    return Match(
        "PostgreSQL, against eventsourcing's DCB recorder (on the same server, over loopback)",
        both,
        "eventsourcing-pg",
        ("eventsourcing-pg-fast",),
        (
            Goal("append@1", threads, 2, 3),
            Goal("append@64", tasks, 10, 16),
            Goal("cycle@1", threads, 2, 3),
            Goal("cycle@64", both, 4, 6),
            *_by_command(threads, both, (1.8, 2.5), (3.5, 5), (3, 4), (8, 12)),
            Goal("query", threads, 2.5, 4),
            Goal("scan", threads, 3, 4),
            Goal("bulk", threads, 3, 5),
            Goal("stale", threads, 100, 500),
            Goal("hot-rare", threads, 5, 50, note=MEANT_FOR_A_MILLION),
            Goal("hot-rare:1M", threads, 5, 50),
            *_sustained(both),
            Goal("processes:2x32", both, 10, 20),
            Goal("processes:2x32", both, 0.8, 0.8, of="share", beside="append@64"),
            Goal("follow-delay", threads, 10, 2, of="value"),
            Goal("read-model", threads, 8_000, 12_000, of="rate"),
            *_by_spark(threads),
        ),
    )


def _sustained(stores: tuple[str, ...]) -> Iterator[Goal]:
    """What is left of the small log's appends in a large one."""
    small = "append@64:1k"
    yield Goal("append@64", stores, 0.5, 0.8, of="growth", beside=small, note=MEANT_FOR_A_MILLION)
    yield Goal("append@64:1M", stores, 0.5, 0.8, of="growth", beside=small)


def _by_spark(stores: tuple[str, ...]) -> Iterator[Goal]:
    """What our source has to reach beside Spark's own for JDBC, a rebuild beside one process, one pass beside two."""
    pairs = [
        ("spark:read", "spark:read-jdbc", 1.0, 1.1),
        ("spark:narrow", "spark:narrow-jdbc", 1 / 1.5, 1.0),
        *[(f"spark:rebuild@{keys}", f"spark:process@{keys}", 1.0, 1.0) for keys in ("2k", "50k")],
        *[(f"spark:two@{keys}", f"spark:each@{keys}", 1.2, 1.2) for keys in ("2k", "50k")],
    ]
    for size, note in (("", MEANT_FOR_A_MILLION), (":1M", "")):
        for case, beside, floor, target in pairs:
            yield Goal(
                f"{case}{size}", stores, floor, target, of="share", beside=f"{beside}{size}", note=note
            )
    for keys in ("2k", "50k"):  # the time per event must not grow
        case = f"spark:rebuild@{keys}"
        yield Goal(f"{case}:1M", stores, 1, 1, of="growth", beside=case)


def _by_command(one: tuple[str, ...], many: tuple[str, ...], *aims: tuple[float, float]) -> Iterator[Goal]:
    """What commands have to reach against the peer's cycle, and against our own without types.

    As elsewhere, `one` client is a thread; a loop with one task gains nothing by being one.
    """
    cases = ("execute@1", "execute@64", "cached@1", "cached@64")
    for case, (floor, target) in zip(cases, aims, strict=True):
        clients = case.partition("@")[2]
        stores = one if clients == "1" else many
        yield Goal(case, stores, floor, target, beside=f"cycle@{clients}")
        if case.startswith("execute"):
            yield Goal(case, stores, 1 / 1.4, 1, of="share", beside=f"cycle@{clients}")


def _protocol() -> Match:
    ours, calls = ("strandline-grpc",), ("append", "condition", "read", "cycle", "subscribe")
    return Match(
        "UmaDB's protocol: our gRPC face on SQLite, against UmaDB's server, through UmaDB's Python client",
        ours,
        "umadb",
        (),
        (
            *(Goal(f"{PROTOCOL}{call}@1", ours, 1, 1) for call in calls),
            *(Goal(f"{PROTOCOL}{call}@64", ours, 1 / 3 if call == "read" else 0.5, 1) for call in calls),
        ),
        PROTOCOL,
    )


EMBEDDED, PROTOCOLS, POSTGRES = _embedded(), _protocol(), _postgres()
MATCHES = (EMBEDDED, PROTOCOLS, POSTGRES)

# What Crablet says of its own wallet, in requests per second (October 2025).
CRABLET = {
    "wallet:open": 44,
    "wallet:deposit": 350,
    "wallet:withdraw": 350,
    "wallet:transfer": 300,
    "wallet:history": 1_000,
}
CRABLET_SETTING = (
    "Crablet's figures are its own (October 2025): HTTP requests to a Java service with PostgreSQL, by clients and on a "
    "machine that it does not describe. Ours are calls of execute in one process on this machine, without HTTP. So they "
    "show what is possible, not who is faster."
)
