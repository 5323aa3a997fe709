"""Verifying a file: the file itself, then the log in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from uuid import UUID

import apsw
import msgspec

from ...append import RecordedAppend
from ...errors import CorruptLog
from ...event import SequencedEvent
from ...names import index_tags
from .. import Span
from ..checking import MAX_PROBLEMS, AppendRow, Entry, LogCheck
from ..notes import LAST_CHECK, PATIENCE_SECONDS, leave_note
from ..reports import CheckReport, Progress
from ..rules import Time
from . import SqliteEngine
from .appends import recorded_appends
from .connection import READER_CACHE_KIB, Connection, is_writable, translated
from .names import EVERY_EVENT, Names
from .recent import Recent
from .search import Search
from .statements import sql

_ENTRIES_PRESENT = sql("postings_present")
_APPEND_ROWS = sql("append_rows")
_CHECK_IDS = sql("check_ids")
_GAPS = sql("gaps")
_ID_INDEX = "select 1 from pragma_index_list('event') where name = 'event_by_id' and \"unique\""


class SqliteCheck(LogCheck):
    """One run over one snapshot of a file."""

    damage = (*LogCheck.damage, apsw.CorruptError, apsw.SQLError)

    def __init__(self, connection: Connection, progress: Progress | None) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._names = Names()
        self._search = Search(connection, self._names, Recent(self._names))
        super().__init__(self._search, progress)

    def _check_storage(self) -> None:
        for (message,) in self._execute("pragma integrity_check"):
            if message != "ok":
                self.found("file", 0, message)
        if not self._execute(_ID_INDEX):
            self.found("schema", 0, "lacks the unique index event_by_id")
        for position, id_ in self._execute(_CHECK_IDS, (MAX_PROBLEMS,)):
            self.found("id", position, f"has the id {UUID(bytes=id_)} of an earlier event")

    def _check_log(self) -> None:
        try:
            self._search.look()
        except CorruptLog:  # say more than where it was met
            for position, previous in self._execute(_GAPS, (MAX_PROBLEMS,)):
                self.found("position", position, f"follows position {previous}")
            raise
        super()._check_log()

    def _indexed_to(self) -> int:
        return self._search.indexed_to

    def _entries_of(self, event: SequencedEvent) -> Iterable[Entry]:
        type_ = self._names.find(self._connection, event.type) or -1
        yield EVERY_EVENT, type_, event.position
        for tag in index_tags(event.tags, event.stream, event.subject, event.key):
            yield self._names.find(self._connection, tag) or -1, type_, event.position

    def _count_present(self, entries: list[Entry]) -> int:
        return int(self._execute(_ENTRIES_PRESENT, (msgspec.json.encode(entries).decode(),))[0][0])

    def _check_surplus(self, present: int) -> None:
        ((found,),) = self._execute("select count(*) from posting")
        if found != present:
            self.found("index", 0, f"has {found} entries, the events have {present} of them")

    def _appended_tags(self) -> Iterable[tuple[int, str]]:
        return self._execute("select position, tags from appended_tags")

    def _stored_positions(self) -> Iterable[tuple[str, int]]:
        return self._execute("select source, position from tracking")

    def _append_rows(self, after: int, size: int) -> list[AppendRow]:
        return self._execute(_APPEND_ROWS, (after, size))

    def _recorded_appends(self, span: Span, size: int) -> list[RecordedAppend]:
        return recorded_appends(self._connection, self._names, span, size)


def check(path: str, progress: Progress | None) -> CheckReport:
    """Verify the log in the file."""
    with translated(path):
        SqliteEngine(path, Time(), create=False).close()  # refuses what is no store, or another version's
        writable = is_writable(os.path.realpath(path))
        connection = Connection(path, cache_kib=READER_CACHE_KIB, writable=writable)
        try:
            with connection.snapshot():
                report = SqliteCheck(connection, progress).run()
        finally:
            connection.close()
    if not report.problems:
        leave_note(lambda: save_note(path, LAST_CHECK))
    return report


def save_note(path: str, key: str) -> None:
    """Note in the log that something was done now."""
    engine = SqliteEngine(path, Time(), create=False, lock_timeout=PATIENCE_SECONDS)
    try:
        engine.save_note(key)
    finally:
        engine.close()
