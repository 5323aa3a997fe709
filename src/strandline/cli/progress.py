"""Progress bars, on stderr and only on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .screen import messages, visible

Step = Callable[[int, int], None]


@contextlib.contextmanager
def progress(what: str) -> Iterator[Step]:
    """A bar that is told how much is done and how much there is; it leaves nothing behind."""
    terminal = messages()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(visible(what), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
