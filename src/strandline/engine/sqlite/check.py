"""Verifying a file: positions, index against events, ids, tags, and every recorded condition."""

from __future__ import annotations

import os
from collections.abc import Iterator

import apsw
import msgspec

from ...errors import CorruptLog
from ...event import SequencedEvent, split_tags
from ...names import index_tags
from ...query import Query
from .. import audit
from ..reports import CheckReport, Problem, Progress
from ..rules import Time
from . import SqliteEngine
from .appends import recorded_appends
from .connection import READER_CACHE_KIB, Connection, is_writable, translated
from .names import EVERY_EVENT, Names
from .recent import Recent
from .search import Range, Search
from .statements import sql

PAGE = 2_000
MAX_PROBLEMS = 1_000

_POSTINGS_PRESENT = sql("postings_present")
_APPENDS_NUMBERED = sql("appends_numbered")


class Check:
    """One run over one snapshot of a log."""

    def __init__(self, path: str, progress: Progress | None) -> None:
        self._progress = progress or (lambda _done, _all: None)
        SqliteEngine(path, Time(), create=False).close()  # refuses what is no store, or another version's
        self._connection = Connection(
            path, cache_kib=READER_CACHE_KIB, writable=is_writable(os.path.abspath(path))
        )
        self._execute = self._connection.execute
        self._names = Names()
        self._search = Search(self._connection, self._names, Recent(self._names))
        self._problems: list[Problem] = []
        self._appends = 0
        self._conditions = 0
        self._head = 0

    def run(self) -> CheckReport:
        """Look at everything; a damaged file is a problem, too."""
        postings = 0
        try:
            with self._connection.snapshot():
                self._search.look()
                self._head = self._search.head
                self._check_file()
                postings = self._check_events()
                self._check_appends()
                self._check_conditions()
        except (CorruptLog, apsw.CorruptError, msgspec.DecodeError) as error:
            self._found("file", 0, f"cannot be read: {error}")
        return CheckReport(self._head, self._appends, self._conditions, postings, self._problems)

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    def _found(self, kind: str, position: int, message: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(Problem(kind, position, message))

    def _check_file(self) -> None:
        for (message,) in self._execute("pragma integrity_check"):
            if message != "ok":
                self._found("file", 0, message)

    def _check_events(self) -> int:
        """Positions, times, tags and index entries of every event; returns the number of entries.

        Those beyond `indexed_to` may or may not be in the file yet.
        """
        indexed_to = self._search.indexed_to
        entries, expected, last, recorded_at = 0, 0, 0, 0
        for page in self._pages():
            postings = [posting for event in page for posting in self._postings(event)]
            settled = [posting for posting in postings if posting[2] <= indexed_to]
            self._check_postings(settled)
            newer = self._count_postings([posting for posting in postings if posting[2] > indexed_to])
            expected += len(settled) + newer
            entries += len(postings)
            for event in page:
                if event.position != last + 1:
                    self._found("position", event.position, f"follows position {last}")
                if event.raw_recorded_at < recorded_at:
                    self._found("time", event.position, "is recorded before its predecessor")
                last, recorded_at = event.position, event.raw_recorded_at
            self._progress(last, 2 * self._head)
        ((found,),) = self._execute("select count(*) from posting")
        if found != expected and not self._problems:
            self._found("index", 0, f"has {found} entries, the events have {expected} of them")
        self._check_retagged(audit.History(self._search))
        return entries

    def _pages(self) -> Iterator[list[SequencedEvent]]:
        within = Range(0, self._head)
        while page := self._search.candidates(Query.all(), within, PAGE):
            yield page
            within = within.beyond(page[-1].position)

    def _postings(self, event: SequencedEvent) -> Iterator[tuple[int, int, int]]:
        type_ = self._names.find(self._connection, event.type) or -1
        yield EVERY_EVENT, type_, event.position
        for tag in index_tags(event.tags, event.stream, event.subject):
            yield self._names.find(self._connection, tag) or -1, type_, event.position

    def _count_postings(self, postings: list[tuple[int, int, int]]) -> int:
        return int(self._execute(_POSTINGS_PRESENT, (msgspec.json.encode(postings).decode(),))[0][0])

    def _check_postings(self, postings: list[tuple[int, int, int]]) -> None:
        if self._count_postings(postings) == len(postings):
            return
        for posting in postings:
            if not self._count_postings([posting]):
                self._found(
                    "index", posting[2], f"the event is not in the index under tag number {posting[0]}"
                )

    def _check_retagged(self, history: audit.History) -> None:
        rows = self._execute("select position, tags from appended_tags")
        kept = {position: split_tags(tags) for position, tags in rows}
        for position in history.retagged:
            event = history.event(position)
            if history.tags(event, position) != kept.pop(position, None):
                self._found("tags", position, "the present tags do not follow from the retags")
        for position in kept:
            self._found("tags", position, "has tags as appended, but no retag")

    def _check_appends(self) -> None:
        expected = 1
        for first, last, number in self._execute(_APPENDS_NUMBERED):
            self._appends += 1
            if (first, number) != (expected, self._appends) or last < first:
                told = f"append {number} covers {first} to {last}, expected append {self._appends} from {expected}"
                self._found("append", first, told)
            expected = last + 1
        if expected != self._head + 1:
            self._found(
                "append", self._head, f"recorded appends end at {expected - 1}, the log at {self._head}"
            )

    def _check_conditions(self) -> None:
        history = audit.History(self._search)
        after = 0
        while page := recorded_appends(self._connection, self._names, after, PAGE):
            for append in page:
                self._conditions += append.condition is not None
                broken = audit.violation(self._search, history, append)
                if broken is not None:
                    self._found(
                        "condition",
                        append.first,
                        f"was accepted although event {broken} matches its condition",
                    )
            after = page[-1].last
            self._progress(self._head + min(after, self._head), 2 * self._head)


def check(path: str, progress: Progress | None) -> CheckReport:
    """Verify the log in the file."""
    with translated(path):
        run = Check(path, progress)
        try:
            return run.run()
        finally:
            run.close()
