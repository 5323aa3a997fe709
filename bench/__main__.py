"""`python -m bench`: measure Strandline and its peers side by side."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from strandline import StrandlineError

from .case import RAW, Case, RawCase
from .cases import raw_cases, store_cases
from .homes import Databases, Directories, Home, HomeName
from .lab import Lab, Settings
from .machine import code_digest, describe
from .measuring import left, measure
from .options import GROUPS, HOMES, chosen, parse
from .peers import event_storage
from .plan import Turn, disk_bytes, estimate, plan
from .report import print_results
from .runfile import Changed, RunFile
from .stores import Store, all_stores
from .wording import duration

PIPED_WIDTH = 170
BUSY = 0.2  # cores


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    options = parse(arguments)
    settings: Settings = options.settings
    console = Console() if sys.stdout.isatty() else Console(width=PIPED_WIDTH)
    homes: list[HomeName] = chosen(options.only, HOMES)
    stores = [
        store
        for name, store in all_stores().items()
        if name in options.stores and store.home in homes and (settings.is_full or not store.is_fast)
    ]
    everything: list[Case | RawCase] = [*store_cases(settings), *raw_cases(settings)]
    command = shlex.join(["python", "-m", "bench", *(sys.argv[1:] if arguments is None else arguments)])
    with _open(homes, options) as (opened, machine):
        file = RunFile(options.json, _head(command, options, stores, machine), everything)
        _go_on(file, options)
        all_turns = plan(_asked(everything, options, homes), stores, options.seed, settings)
        turns = [turn for turn in all_turns if turn.key not in file.done]
        _print_head(console, file.head, settings)
        _announce(console, turns, len(all_turns), options)
        file.begin()
        try:
            with closing(Lab(opened, settings, Path(machine["directory"]))) as lab:
                measure(turns, lab, file, options.hours)
        finally:
            file.finish()
    _conclude(console, file, [turn for turn in turns if turn.key not in file.done], settings)


def _head(
    command: str, options: argparse.Namespace, stores: Sequence[Store], machine: dict[str, Any]
) -> dict[str, Any]:
    described = {store.name: {"version": _version(store), "durability": store.durability} for store in stores}
    if options.full:
        described |= {
            name: event_storage.DESCRIPTIONS[name] for name in event_storage.STORES if name in options.stores
        }
    return {
        "command": command,
        "started": datetime.now(UTC).isoformat(),
        "code": code_digest(),
        "machine": machine,
        "settings": vars(options.settings) | {"seed": options.seed},
        "stores": described,
    }


def _asked(
    everything: Sequence[Case | RawCase], options: argparse.Namespace, homes: Sequence[HomeName]
) -> list[Case | RawCase]:
    groups, names = chosen(options.only, GROUPS), (RAW, *options.stores)
    return [
        case
        for case in everything
        if case.group in groups and (isinstance(case, Case) or (case.home in homes and case.store in names))
    ]


def _go_on(file: RunFile, options: argparse.Namespace) -> None:
    if not options.full or options.again:
        return
    try:
        file.go_on()
    except Changed as error:
        _fail(str(error), "--again begins anew, --json names another file")


@contextmanager
def _open(
    homes: Sequence[HomeName], options: argparse.Namespace
) -> Iterator[tuple[dict[HomeName, Home], dict[str, Any]]]:
    """The homes in a directory that is removed at the end, and what they are on."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-", dir=options.directory) as name:
        directory = Path(name)
        directory.chmod(0o711)  # a server that root starts runs as somebody else
        machine = describe(directory)
        opened: dict[HomeName, Home] = {"embedded": Directories(directory)}
        if "postgres" not in homes:
            yield opened, machine
            return
        try:
            databases = Databases(directory, flushes=not options.rehearse)
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


def _announce(console: Console, turns: Sequence[Turn], of: int, options: argparse.Namespace) -> None:
    needed, free = disk_bytes(turns, options.settings), shutil.disk_usage(options.directory).free
    if needed > free:
        _fail(
            f"the logs take about {needed >> 30} GiB, and {options.directory} has {free >> 30} GiB",
            "name another --directory, or measure less: --huge 0, --sizes 1000",
        )
    done = f"{of - len(turns):,} measurements are in {options.json}, " if len(turns) < of else ""
    limit = f", stops after {options.hours:g} h" if options.hours else ""
    expected = duration(estimate(turns, options.settings))
    space = f" and {needed >> 30} GiB in {options.directory}" if needed >> 30 else ""
    _say(console, f"{done}{len(turns):,} to take: about {expected} on a quiet machine{space}{limit}")


def _conclude(console: Console, file: RunFile, not_taken: Sequence[Turn], settings: Settings) -> None:
    foreign = [one.foreign_cores for one in file.measurements]
    print_results(console, file.results)
    _say(
        console,
        f"others: cores that other processes kept busy meanwhile, {sum(foreign) / max(1, len(foreign)):.2f} "
        f"on average, {max(foreign, default=0):.2f} at most. "
        f"{sum(one.took_seconds for one in file.measurements):.0f} s; details in {file.path}",
    )
    if sum(foreign) > BUSY * len(foreign):
        _say(console, "the machine was busy with other things: run it again when it is quiet", "yellow")
    if not_taken:
        _say(console, left(not_taken, settings), "yellow")
    elif not settings.is_full:
        _say(
            console,
            "left to make bench-full: logs of 1 M and 10 M events, asyncio and threads with every number of "
            "clients, conflicts, costs per events of a tag, subscriptions, two tables with many keys on Spark, flushes, "
            "the peers' fast settings, peers with small logs, node event-storage; the wallet, the limits of the machine "
            "and the audit were measured once",
            "dim",
        )


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, markup=False, highlight=False)


def _fail(what: str, hint: str) -> NoReturn:
    sys.stderr.write(f"error: {what}\nhint: {hint}\n")
    raise SystemExit(2)


def _version(store: Store) -> str:
    try:
        return store.version()
    except ImportError as error:
        _fail(f"{store.name} is not installed: {error}", "run make setup, or leave it out with --stores")


if __name__ == "__main__":
    main()
