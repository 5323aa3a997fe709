"""The goals of the benchmark issue: what each case is to reach against a peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Goal:
    """`floor` must hold, `target` is wanted; `of` says of what number.

    `peer`: ours divided by the peer's. `growth`: ours in the full store divided by ours in this small one.
    `value`: our number itself, which must be at most that.
    """

    case: str
    stores: tuple[str, ...]
    floor: float
    target: float
    of: Literal["peer", "growth", "value"] = "peer"
    p99_below: float | Literal["peer"] | None = None  # milliseconds, or the peer's
    note: str = ""


@dataclass(frozen=True)
class Match:
    """Stores that are compared with a peer, and what they have to reach."""

    title: str
    ours: tuple[str, ...]
    peer: str
    goals: tuple[Goal, ...]

    def goal(self, case: str, store: str) -> Goal | None:
        """What this store has to reach in this case."""
        return next((goal for goal in self.goals if goal.case == case and store in goal.stores), None)


_THREADS = ("strandline",)
_ASYNC = ("strandline-async",)
_BOTH = (*_THREADS, *_ASYNC)

EMBEDDED = Match(
    "embedded, against UmaDB (which is a server: its numbers contain a gRPC call over loopback)",
    _BOTH,
    "umadb",
    (
        Goal("append@1", _THREADS, 4, 8),
        Goal("append@64", _ASYNC, 2.5, 5, p99_below="peer"),
        Goal("cycle@1", _THREADS, 3.5, 5),
        Goal("cycle@64", _BOTH, 1.6, 3),
        Goal("query", _THREADS, 6, 9),
        Goal("scan", _THREADS, 2.5, 3.5),
        Goal("bulk", _THREADS, 1, 2),
        Goal("stale", _THREADS, 500, 5000),
        Goal("hot-rare", _THREADS, 1, 20, note="at 1 M events"),
        Goal("small:append@64", _BOTH, 0.5, 0.8, of="growth", note="at 1 M events"),
        Goal("processes:2x32", _BOTH, 1.5, 3, p99_below=150.0),
        Goal("disk", _THREADS, 420, 420, of="value"),
        Goal("memory", _THREADS, 100, 100, of="value", note="at 1 M events"),
    ),
)

MATCHES = (EMBEDDED,)
