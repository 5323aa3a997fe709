"""Taking turns, with a bar between them and every measurement in the file at once."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .lab import Lab, Settings
from .plan import Turn, estimate, take
from .runfile import RunFile
from .wording import duration


def measure(turns: Sequence[Turn], lab: Lab, file: RunFile, hours: float | None) -> None:
    """Take the turns one after another, as long as there is time."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began, settings = perf_counter(), lab.settings
    # Drawn between measurements only: a thread that draws would compete with those measured.
    notes = Console(stderr=True)
    with Progress(*columns, console=notes, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("", total=len(turns))
        for number, turn in enumerate(turns):
            passed = perf_counter() - began
            if hours is not None and passed + estimate([turn], settings) > hours * 3600:
                return
            remaining = _remaining(turns, number, passed, settings)
            progress.update(task, description=f"{turn.store} {turn.case}, {remaining} to go", refresh=True)
            file.add(take(turn, lab))
            progress.advance(task)


def _remaining(turns: Sequence[Turn], number: int, passed: float, settings: Settings) -> str:
    """The estimate, corrected by how wrong it was so far."""
    expected = estimate(turns[number:], settings)
    so_far = estimate(turns[:number], settings)
    return duration(expected * passed / so_far if so_far and passed > 60 else expected)


def left(turns: Sequence[Turn], settings: Settings) -> str:
    """What a run that stopped in time did not do."""
    return f"{len(turns):,} measurements are left, about {duration(estimate(turns, settings))}: the same command goes on"
