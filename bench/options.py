"""The command line: how much is measured, of what, and for how long."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .homes import HomeName
from .lab import Settings
from .peers import event_storage
from .stores import all_stores

HOMES: tuple[HomeName, ...] = ("embedded", "postgres")
GROUPS = (
    *(
        "raw",
        "append",
        "cycle",
        "execute",
        "contention",
        "query",
        "scan",
        "bulk",
        "follow",
        "grpc",
        "spark",
        "check",
    ),
    *("processes", "wallet", "disk", "memory", "flushes"),
)
# Not /tmp: that is memory on many machines, and flushes to memory cost nothing.
DIRECTORY = Path("/var/tmp")
QUICK = Settings(events=100_000, clients=(1, 8, 64), seconds=0.3, rounds=3, sizes=(1_000,))
FULL = Settings(
    events=100_000,
    clients=(1, 8, 64),
    seconds=2.0,
    rounds=5,
    sizes=(1_000, 1_000_000),
    huge=10_000_000,
    is_full=True,
)
REHEARSAL = Settings(
    events=200,
    clients=(1, 2),
    seconds=0.005,
    rounds=1,
    huge=300,
    is_full=True,
    is_rehearsal=True,
)
EPILOG = """
examples:
  python -m bench                               a few minutes: all goals, with a log of 100,000 events
  python -m bench --only embedded,append        some of it
  python -m bench --full --hours 2              everything; what is not done in time, the same command does later
  python -m bench.page build/bench-full.json    docs/performance.md
"""


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options, with `settings` made of some of them."""
    options = _parser().parse_args(arguments)
    options.full |= options.rehearse
    usual = REHEARSAL if options.rehearse else FULL if options.full else QUICK
    chosen = {
        name: getattr(options, name) for name in vars(usual) if getattr(options, name, None) is not None
    }
    options.settings = Settings(**vars(usual) | chosen)
    kind = "-rehearsal" if options.rehearse else "-full" if options.full else ""
    options.json = options.json or Path(f"build/bench{kind}.json")
    return options


def chosen(names: list[str], kind: Sequence[Any]) -> list[Any]:
    """Those of a kind that are named; all of them if none is."""
    return [name for name in kind if name in names] or list(kind)


def _parser() -> argparse.ArgumentParser:
    known, usual = (*all_stores(), *event_storage.STORES), vars(QUICK)
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Strandline and its peers side by side.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--full", action="store_true", help="everything, not only what shows whether the goals are reached")
    add(
        "--rehearse",
        action="store_true",
        help="everything in seconds, to see that it runs; no figures come of it",
    )
    add("--events", type=int, help=f"in the log ({usual['events']:,})")
    add("--sizes", type=_numbers, help="of other logs (1000; full: 1000,1000000)")
    add("--huge", type=int, help="size of a log of ours that is measured once (full: 10000000; 0: none)")
    add("--clients", type=_numbers, help="at once (1,8,64)")
    add("--seconds", type=float, help=f"per measurement ({QUICK.seconds:g}; full: {FULL.seconds:g})")
    add("--rounds", type=int, help=f"measurements per number ({QUICK.rounds}; full: {FULL.rounds})")
    halves = f"one half ({' or '.join(HOMES)}), or some of the cases ({','.join(GROUPS)}), or both"
    add("--only", type=_names((*HOMES, *GROUPS)), default=[], help=halves)
    add("--stores", type=_names(known), default=list(known), help=f"of {','.join(known)}")
    add("--hours", type=float, help="stop in time; the same command goes on from there")
    add(
        "--again",
        action="store_true",
        help="begin anew, whatever the file has of a run that was not finished",
    )
    add("--seed", type=int, default=1, help="of the order of measurements (%(default)s)")
    add("--directory", type=Path, default=DIRECTORY, help="where stores live (%(default)s)")
    add("--json", type=Path, help="the results (build/bench.json; full: build/bench-full.json)")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(part) for part in text.split(",")}))


class _names:  # noqa: N801  (used as a function)
    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known

    def __call__(self, text: str) -> list[str]:
        unknown = set(text.split(",")) - set(self._known)
        if unknown:
            raise argparse.ArgumentTypeError(
                f"{', '.join(sorted(unknown))}: not one of {','.join(self._known)}"
            )
        return [name for name in self._known if name in text.split(",")]
