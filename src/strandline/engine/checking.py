"""What a sound log looks like, whoever keeps it: the part of `check` that engines share.

An engine says how to look at one snapshot of its log; what must hold is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import msgspec

from ..append import RecordedAppend
from ..errors import CorruptLog, InvalidInput
from ..event import SequencedEvent, check_metadata, own_tags
from ..query import Query
from . import Span, audit
from .reports import CheckReport, Problem, Progress
from .suspects import suspects

PAGE = 2_000
MAX_PROBLEMS = 1_000

Entry = tuple[Any, Any, int]
"""An entry of the index: tag (falsy for the one that every event has) and type as the engine writes them, position."""
AppendRow = tuple[int, int | None, int | None]
"""Of each event its position, the number of its append, and its span; only the first event must have the number."""


def _tracking(event: SequencedEvent) -> tuple[str, int] | None:
    """Return what the event's append tracked. Damage is reported elsewhere."""
    try:
        return event.tracking
    except (CorruptLog, InvalidInput):
        return None


class LogCheck(ABC):
    """One run over one snapshot of a log."""

    damage: tuple[type[Exception], ...] = (
        *(CorruptLog, InvalidInput, msgspec.DecodeError),
        *(TypeError, ValueError, OverflowError),
    )
    """What reading a damaged log raises."""

    def __init__(self, reader: audit.Reader, progress: Progress | None) -> None:
        self._reader = reader
        self._progress = progress or (lambda _done, _all: None)
        self._problems: list[Problem] = []
        self._head = 0
        self._entries = 0
        self._present = 0
        self._appends = 0
        self._conditions = 0
        self._tracked: dict[str, int] = {}

    def run(self) -> CheckReport:
        """Look at everything; what cannot be read is a problem, too."""
        try:
            self._check_storage()
            self._check_log()
        except self.damage as error:
            self.found("file", 0, f"cannot be read: {error}")
        return CheckReport(self._head, self._appends, self._conditions, self._entries, self._problems)

    def found(self, kind: str, position: int, message: str) -> None:
        """Report a problem."""
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(Problem(kind, position, message))

    def _check_log(self) -> None:
        self._check_events()
        self._check_surplus(self._present)
        self._check_tracked()
        self._check_tags(self._history)
        self._check_appends()
        self._check_conditions(self._history)

    @cached_property
    def _history(self) -> audit.History:
        return audit.History(self._reader)

    def _check_events(self) -> None:
        """Positions, times and index entries of every event."""
        last, recorded_at = 0, 0
        for page in self._pages():
            for event in page:
                if event.position != last + 1:
                    self.found("position", event.position, f"follows position {last}")
                if event.raw_recorded_at < recorded_at:
                    self.found("time", event.position, "is recorded before its predecessor")
                self._check_form(event)
                last, recorded_at = event.position, event.raw_recorded_at
            self._check_tracking(page)
            self._check_entries([entry for event in page for entry in self._entries_of(event)])
            self._progress(last, 2 * self._head)

    def _check_form(self, event: SequencedEvent) -> None:
        """Whether those who read the event can make of it what they are promised."""
        try:
            _ = event.id, event.recorded_at, event.tracking
            if event.raw_metadata is not None:
                check_metadata(event.metadata)
        except self.damage as error:
            self.found("event", event.position, f"cannot be read: {error}")

    def _check_tracking(self, page: list[SequencedEvent]) -> None:
        """Whether the positions of each source increase from append to append."""
        tracking = {event.position: tracking for event in page if (tracking := _tracking(event)) is not None}
        if not tracking:
            return
        rows = self._append_rows(page[0].position - 1, len(page))
        later = {position for position, _, span in rows if span is not None and span < 0}
        for position, (source, tracked) in tracking.items():
            last = self._tracked.get(source, -1)
            if tracked < last or (tracked == last) != (position in later):
                self.found("tracking", position, f"came with position {tracked} of {source!r} after {last}")
            self._tracked[source] = max(tracked, last)

    def _check_tracked(self) -> None:
        """Whether the stored positions of sources are not behind those of the events."""
        stored = dict(self._stored_positions())
        for source, tracked in self._tracked.items():
            if stored.get(source, -1) < tracked:
                told = f"position {stored.get(source)} of {source!r} is stored, an event came with {tracked}"
                self.found("tracking", 0, told)

    def _pages(self) -> Iterator[list[SequencedEvent]]:
        span: Span | None = Span()
        while span is not None:
            page = self._reader.read_page(Query.all(), span, PAGE)
            self._head, span = page.head, page.rest
            yield page.events

    def _check_entries(self, entries: list[Entry]) -> None:
        indexed_to = self._indexed_to()
        settled = [entry for entry in entries if entry[2] <= indexed_to]
        newer = [entry for entry in entries if entry[2] > indexed_to]
        present = self._count_present(settled)
        self._entries += len(entries)
        self._present += present + self._count_present(newer)
        if present < len(settled):
            self._name_missing(settled)

    def _name_missing(self, entries: list[Entry]) -> None:
        for entry in entries:
            if len(self._problems) < MAX_PROBLEMS and not self._count_present([entry]):
                tag = f"tag {entry[0]}" if entry[0] else "its type"
                self.found("index", entry[2], f"the event is not in the index under {tag}")

    def _check_tags(self, history: audit.History) -> None:
        kept = {position: own_tags(tags) for position, tags in self._appended_tags()}
        for position in history.retagged:
            event = history.event(position)
            if history.tags(event, position) != kept.pop(position, None):
                self.found("tags", position, "the present tags do not follow from the retags")
        for position in kept:
            self.found("tags", position, "has tags as appended, but no retag")

    def _check_appends(self) -> None:
        first, last = 1, 0
        for position, number, span in self._all_append_rows():
            if position <= last:
                if span != first - position or number not in {None, self._appends}:
                    self.found("append", position, f"belongs to append {self._appends}, but does not say so")
                continue
            first, last = position, position + (span or 1) - 1
            self._appends += 1
            if number != self._appends or last < first:
                told = f"append {number} covers {first} to {last}, expected append {self._appends}"
                self.found("append", first, told)
        if last > self._head:
            self.found("append", first, f"covers {first} to {last}, the log ends at {self._head}")

    def _all_append_rows(self) -> Iterator[AppendRow]:
        after = 0
        while rows := self._append_rows(after, PAGE):
            yield from rows
            after = rows[-1][0]

    def _check_conditions(self, history: audit.History) -> None:
        for first in suspects(self._reader, history, self._counted_appends(), self._tell_conditions):
            if len(self._problems) < MAX_PROBLEMS:
                (append,) = self._recorded_appends(Span(first - 1), 1)
                broken = audit.violation(self._reader, history, append)
                if broken is not None:
                    told = f"was accepted although event {broken} matches its condition"
                    self.found("condition", first, told)
        self._tell_conditions(self._head)

    def _counted_appends(self) -> Iterator[RecordedAppend]:
        span = Span()
        while page := self._recorded_appends(span, PAGE):
            self._conditions += sum(append.condition is not None for append in page)
            yield from page
            span = Span(page[-1].first)

    def _tell_conditions(self, position: int) -> None:
        self._progress(self._head + min(position, self._head), 2 * self._head)

    @abstractmethod
    def _check_storage(self) -> None:
        """Look at what only this engine has."""

    @abstractmethod
    def _indexed_to(self) -> int:
        """The position up to which the index must have every entry; later ones may be kept elsewhere."""

    @abstractmethod
    def _entries_of(self, event: SequencedEvent) -> Iterable[Entry]:
        """The entries that the index must have for an event."""

    @abstractmethod
    def _count_present(self, entries: list[Entry]) -> int:
        """How many of these entries the index has."""

    @abstractmethod
    def _check_surplus(self, present: int) -> None:
        """Report what the index has besides the `present` entries that belong there."""

    @abstractmethod
    def _appended_tags(self) -> Iterable[tuple[int, str]]:
        """The tags as appended that are kept, by position."""

    @abstractmethod
    def _stored_positions(self) -> Iterable[tuple[str, int]]:
        """The sources that the log tracks, and the last position of each."""

    @abstractmethod
    def _append_rows(self, after: int, size: int) -> list[AppendRow]:
        """At most `size` rows of the events after a position, in order."""

    @abstractmethod
    def _recorded_appends(self, span: Span, size: int) -> list[RecordedAppend]:
        """See `Engine.appends_page`."""
