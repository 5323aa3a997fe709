"""`python -m bench`: measure Strandline and its peers side by side."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .cases import RAW, Case, RawCase, raw_cases, store_cases
from .lab import Lab, Settings
from .machine import describe
from .plan import plan, take
from .report import print_results, write_json
from .results import Measurement, Results
from .stores import Store, all_stores

GROUPS = (RAW, "append", "cycle", "query", "scan", "bulk", "check", "processes", "small", "disk", "memory")
# Not /tmp: that is memory on many machines, and flushes to memory cost nothing.
DIRECTORY = Path("/var/tmp")
PIPED_WIDTH = 150
BUSY = 0.2  # cores


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    options = _options(arguments)
    settings = Settings(options.events, options.clients, options.seconds, options.rounds)
    notes = Console(stderr=True)
    console = Console() if sys.stdout.isatty() else Console(width=PIPED_WIDTH)
    command = shlex.join(["python", "-m", "bench", *(sys.argv[1:] if arguments is None else arguments)])
    stores, skipped = _installed(options.stores)
    cases: list[Case | RawCase] = [*raw_cases(), *store_cases(settings)]
    cases = [case for case in cases if case.group in options.only]
    started = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="strandline-bench-", dir=options.directory) as directory:
        machine = describe(Path(directory))
        run = {
            "command": command,
            "started": started.isoformat(),
            "machine": machine,
            "settings": vars(settings) | {"seed": options.seed, "only": options.only},
            "stores": {
                store.name: {"version": store.version(), "durability": store.durability} for store in stores
            },
            "skipped": skipped,
        }
        console.print(f"$ {command}", markup=False, highlight=False)
        console.print(
            f"{machine['cores']} cores ({machine['cpu']}), {machine['memory_mib']:,} MiB, "
            f"{machine['file_system']}, {machine['kernel']}, Python {machine['python']}, "
            f"SQLite {machine['sqlite']}; {settings.events:,} events, "
            f"{settings.rounds} × {settings.seconds:g} s per number, load {machine['load_average'][0]:.2f}",
            markup=False,
            highlight=False,
        )
        for store in stores:
            console.print(f"{store.name} {store.version()}: {store.durability}", style="dim", markup=False)
        for name, reason in skipped.items():
            console.print(f"SKIPPED {name}: {reason}", style="bold red", markup=False)
        measurements = _measure(cases, stores, Lab(Path(directory), settings), options.seed, notes)
    results = Results(cases, measurements)
    seconds = (datetime.now(UTC) - started).total_seconds()
    foreign = [one.foreign_cores for one in measurements]
    console.print()
    print_results(console, results)
    console.print(
        f"\nothers: cores that other processes kept busy meanwhile, {sum(foreign) / max(1, len(foreign)):.2f} "
        f"on average, {max(foreign, default=0):.2f} at most. {seconds:.0f} s; details in {options.json}",
        markup=False,
        highlight=False,
    )
    if sum(foreign) > BUSY * len(foreign):
        console.print("the machine was busy with other things: run it again when it is quiet", style="yellow")
    write_json(options.json, run | {"took_seconds": seconds}, results, measurements)


def _measure(
    cases: list[Case | RawCase], stores: list[Store], lab: Lab, seed: int, notes: Console
) -> list[Measurement]:
    turns, measurements = plan(cases, stores, lab.settings.rounds, seed), []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Drawn between measurements only: a thread that draws would compete with those measured.
    with Progress(*columns, console=notes, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("", total=len(turns))
        for turn in turns:
            progress.update(task, description=f"{turn.store} {turn.case}", refresh=True)
            measurements.append(take(turn, lab))
            progress.advance(task)
    return measurements


def _installed(names: list[str]) -> tuple[list[Store], dict[str, str]]:
    stores, skipped = [], {}
    for name in names:
        store = all_stores()[name]
        try:
            store.version()
        except ImportError as error:
            skipped[name] = f"not installed ({error})"
        else:
            stores.append(store)
    return stores, skipped


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="events in the store (%(default)s)")
    parser.add_argument("--clients", type=_numbers, default=(1, 8, 64), help="clients at once (1,8,64)")
    parser.add_argument("--seconds", type=float, default=2.0, help="per measurement (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements per number (%(default)s)")
    parser.add_argument("--only", type=_names(GROUPS), default=list(GROUPS), help=f"of {','.join(GROUPS)}")
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
