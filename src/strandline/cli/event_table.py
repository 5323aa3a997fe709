"""Events as rows that fit the terminal, printed as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice

from rich.console import Console
from rich.text import Text

from strandline import SequencedEvent

from .screen import console, plain, visible_bytes

SAMPLE = 200
GAP = "  "
WIDE = 100
HEADINGS = ("position", "time UTC", "type", "tags", "data")
STYLES = ("cyan", "dim", "bold", "green", "")


def print_events(events: Iterable[SequencedEvent]) -> int:
    """Print a table; the first events decide how wide its columns are. Returns how many there were."""
    coming = iter(events)
    first = list(islice(coming, SAMPLE))
    table = EventTable(first)
    if first:
        table.print_head()
    return sum(1 for _ in map(table.print_row, chain(first, coming)))


class EventTable:
    """Columns of fixed width, so that rows can be printed long before the last one is known."""

    def __init__(self, sample: Iterable[SequencedEvent], terminal: Console | None = None) -> None:
        self._console = terminal or console()
        events = list(sample)
        self._time, time_width = self._time_format(events)
        self._widths = self._fit(events, time_width)

    def print_head(self) -> None:
        """The headings."""
        self._print(Text(heading, style="bold dim") for heading in HEADINGS)

    def print_row(self, event: SequencedEvent) -> None:
        """One event."""
        self._print(self._cells(event))

    def _time_format(self, sample: list[SequencedEvent]) -> tuple[str, int]:
        if self._console.width >= WIDE:
            return "%Y-%m-%d %H:%M:%S", 19
        if all(event.recorded_at.date() == datetime.now(UTC).date() for event in sample):
            return "%H:%M:%S", 8
        return "%m-%d %H:%M", 11

    def _fit(self, sample: list[SequencedEvent], time: int) -> list[int]:
        position = max([len(HEADINGS[0]), *(len(str(event.position)) for event in sample)])
        left = max(self._console.width - position - time - len(GAP) * 4, 30)
        names = max([4, *(plain(event.type).cell_len for event in sample)])
        tags = max([4, *(plain(" ".join(event.tags)).cell_len for event in sample)])
        names = min(names, max(left * 2 // 5, 12))
        tags = min(tags, max(left * 2 // 5, 9))
        return [position, time, names, tags, max(left - names - tags, 9)]

    def _cells(self, event: SequencedEvent) -> Iterator[Text]:
        shown = (
            str(event.position).rjust(self._widths[0]),
            f"{event.recorded_at:{self._time}}",
            event.type,
            " ".join(event.tags),
            visible_bytes(event.data, most=4 * self._console.width),
        )
        return (plain(value, style) for value, style in zip(shown, STYLES, strict=True))

    def _print(self, cells: Iterable[Text]) -> None:
        line = Text()
        for cell, width in zip(cells, self._widths, strict=True):
            cell.truncate(width, overflow="ellipsis", pad=True)
            line.append_text(cell).append(GAP)
        line.rstrip()
        self._console.print(line, no_wrap=True, overflow="crop", crop=True)
