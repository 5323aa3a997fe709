"""`python -m bench`: measure Strandline and its peers side by side."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from strandline import StrandlineError

from .cases import RAW, Case, RawCase, raw_cases, store_cases
from .homes import Databases, Directories, Home, HomeName
from .lab import Lab, Settings
from .machine import describe
from .plan import plan, take
from .report import print_results, write_json
from .results import Measurement, Results
from .stores import Store, all_stores

HOMES: tuple[HomeName, ...] = ("embedded", "postgres")
GROUPS = (
    RAW,
    "append",
    "cycle",
    "execute",
    "query",
    "scan",
    "follow",
    "spark",
    "bulk",
    "check",
    "processes",
    "small",
    "disk",
    "memory",
)
# Not /tmp: that is memory on many machines, and flushes to memory cost nothing.
DIRECTORY = Path("/var/tmp")
PIPED_WIDTH = 170
BUSY = 0.2  # cores


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    options = _options(arguments)
    settings = Settings(options.events, options.clients, options.seconds, options.rounds)
    console = Console() if sys.stdout.isatty() else Console(width=PIPED_WIDTH)
    command = shlex.join(["python", "-m", "bench", *(sys.argv[1:] if arguments is None else arguments)])
    homes, groups = _chosen(options.only, HOMES), _chosen(options.only, GROUPS)
    stores = [store for store in map(all_stores().__getitem__, options.stores) if store.home in homes]
    cases: list[Case | RawCase] = [case for case in raw_cases(settings) if case.home in homes]
    cases = [case for case in (*cases, *store_cases(settings)) if case.group in groups]
    started = datetime.now(UTC)
    with _open(homes, options.directory) as (opened, machine):
        run = {
            "command": command,
            "started": started.isoformat(),
            "machine": machine,
            "settings": vars(settings) | {"seed": options.seed, "homes": homes, "only": groups},
            "stores": {
                store.name: {"version": _version(store), "durability": store.durability} for store in stores
            },
        }
        _print_head(console, run, settings)
        measurements = _measure(cases, stores, Lab(opened, settings), options.seed)
    results = Results(cases, measurements)
    seconds = (datetime.now(UTC) - started).total_seconds()
    foreign = [one.foreign_cores for one in measurements]
    console.print()
    print_results(console, results)
    _say(
        console,
        f"\nothers: cores that other processes kept busy meanwhile, {sum(foreign) / max(1, len(foreign)):.2f} "
        f"on average, {max(foreign, default=0):.2f} at most. {seconds:.0f} s; details in {options.json}",
    )
    if sum(foreign) > BUSY * len(foreign):
        _say(console, "the machine was busy with other things: run it again when it is quiet", "yellow")
    write_json(options.json, run | {"took_seconds": seconds}, results, measurements)


@contextmanager
def _open(homes: Sequence[HomeName], where: Path) -> Iterator[tuple[dict[HomeName, Home], dict[str, Any]]]:
    """The homes in a directory that is removed at the end, and what they are on."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-", dir=where) as name:
        directory = Path(name)
        directory.chmod(0o711)  # a server that root starts runs as somebody else
        machine = describe(directory)
        opened: dict[HomeName, Home] = {"embedded": Directories(directory)}
        if "postgres" not in homes:
            yield opened, machine
            return
        try:
            databases = Databases(directory)
        except (RuntimeError, OSError, StrandlineError) as error:
            _fail(f"no PostgreSQL server: {error}", "python -m bench --only embedded does without")
        try:
            yield opened | {"postgres": databases}, machine | {"postgres": databases.describe()}
        finally:
            databases.close()


def _print_head(console: Console, run: dict[str, Any], settings: Settings) -> None:
    machine = run["machine"]
    _say(console, f"$ {run['command']}")
    _say(
        console,
        f"{machine['cores']} cores ({machine['cpu']}), {machine['memory_mib']:,} MiB, "
        f"{machine['file_system']}, {machine['kernel']}, Python {machine['python']}, "
        f"SQLite {machine['sqlite']}; {settings.events:,} events, "
        f"{settings.rounds} × {settings.seconds:g} s per number, load {machine['load_average'][0]:.2f}",
    )
    if "postgres" in machine:
        version, *server = machine["postgres"].items()
        _say(console, f"PostgreSQL {version[1]}: {', '.join(map(' '.join, server))}", "dim")
    for name, store in run["stores"].items():
        _say(console, f"{name} {store['version']}: {store['durability']}", "dim")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, markup=False, highlight=False)


def _fail(what: str, hint: str) -> NoReturn:
    sys.stderr.write(f"error: {what}\nhint: {hint}\n")
    raise SystemExit(2)


def _measure(cases: list[Case | RawCase], stores: list[Store], lab: Lab, seed: int) -> list[Measurement]:
    turns, measurements = plan(cases, stores, lab.settings.rounds, seed), []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Drawn between measurements only: a thread that draws would compete with those measured.
    notes = Console(stderr=True)
    with Progress(*columns, console=notes, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("", total=len(turns))
        for turn in turns:
            progress.update(task, description=f"{turn.store} {turn.case}", refresh=True)
            measurements.append(take(turn, lab))
            progress.advance(task)
    return measurements


def _version(store: Store) -> str:
    try:
        return store.version()
    except ImportError as error:
        _fail(f"{store.name} is not installed: {error}", "run make setup, or leave it out with --stores")


def _chosen(names: list[str], kind: Sequence[Any]) -> list[Any]:
    """Those of a kind that are named; all of them if none is."""
    return [name for name in kind if name in names] or list(kind)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="events in the store (%(default)s)")
    parser.add_argument("--clients", type=_numbers, default=(1, 8, 64), help="clients at once (1,8,64)")
    parser.add_argument("--seconds", type=float, default=0.75, help="per measurement (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements per number (%(default)s)")
    parser.add_argument(
        "--only",
        type=_names((*HOMES, *GROUPS)),
        default=[],
        help=f"one half ({' or '.join(HOMES)}), or some of the cases ({','.join(GROUPS)}), or both",
    )
    known = tuple(all_stores())
    parser.add_argument("--stores", type=_names(known), default=list(known), help=f"of {','.join(known)}")
    parser.add_argument("--seed", type=int, default=1, help="of the order of measurements")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="where stores live (%(default)s)")
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), help="the results (%(default)s)"
    )
    return parser.parse_args(arguments)


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


if __name__ == "__main__":
    main()
