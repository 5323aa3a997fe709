"""Verifying a log in a database: its parts, ids, then events, index, appends and conditions, in one snapshot."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg import errors as pg

from ...append import RecordedAppend
from ...event import SequencedEvent
from ...names import RETAGGED, index_tags
from .. import Span
from ..checking import MAX_PROBLEMS, AppendRow, Entry, LogCheck
from ..notes import LAST_CHECK, PATIENCE_SECONDS, leave_note
from ..reports import CheckReport, Progress
from .address import Address
from .connection import Connection
from .failures import translated
from .schema import missing_parts, prepare
from .search import Search, Statements

# The index is asked as queries ask it; what should not be there is looked for in the tables themselves.
_BY_INDEX = """
set local enable_indexscan = on; set local enable_indexonlyscan = on; set local enable_seqscan = off;
set local enable_bitmapscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off
"""
_BY_TABLE = """
set local enable_indexscan = off; set local enable_indexonlyscan = off; set local enable_seqscan = on;
set local enable_bitmapscan = off; set local enable_hashjoin = on; set local enable_mergejoin = on
"""


class PostgresCheck(LogCheck):
    """One run over one snapshot of a log."""

    damage = (*LogCheck.damage, pg.DataCorrupted, pg.IndexCorrupted, psycopg.DataError)

    def __init__(self, connection: Connection, address: Address, progress: Progress | None) -> None:
        self._connection = connection
        self._rows = connection.rows
        self._address = address
        self._search = Search(connection, Statements(address))
        self._entries_present = address.sql("check_entries")
        self._append_rows_after = address.sql("check_appends")
        super().__init__(self._search, progress)

    def _check_storage(self) -> None:
        for part in missing_parts(self._connection, self._address):
            self.found("schema", 0, f"lacks {part}")
        self._connection.run(_BY_TABLE)
        for position, id_ in self._rows(self._address.sql("check_ids"), (MAX_PROBLEMS,)):
            self.found("id", position, f"has the id {id_} of an earlier event")
        self._connection.run(_BY_INDEX)

    def _indexed_to(self) -> int:
        return self._head

    def _entries_of(self, event: SequencedEvent) -> Iterable[Entry]:
        tags = set(index_tags(event.tags, event.stream, event.subject, event.key))
        if event.type == RETAGGED:
            tags.update(f"$changed:{tag}" for tag in self._tags_changed_by(event.position))
        return [(tag, event.type, event.position) for tag in sorted(tags)]

    def _tags_changed_by(self, retag: int) -> set[str]:
        """Return every tag that an event of this retag carried before or after it."""
        tags: set[str] = set()
        for event in self._history.changed_by(retag):
            own = {*self._history.tags(event, retag - 1), *self._history.tags(event, retag)}
            tags.update(index_tags(tuple(own), event.stream, event.subject, event.key))
        return tags

    def _count_present(self, entries: list[Entry]) -> int:
        if not entries:
            return 0
        columns = tuple(map(list, zip(*entries, strict=True)))
        return int(self._rows(self._entries_present, columns)[0][0])

    def _check_surplus(self, present: int) -> None:
        self._connection.run(_BY_TABLE)
        ((found,),) = self._rows(f"select count(*) from {self._address.identifier}.posting")
        if found != present:
            self._name_surplus(found, present)
        self._connection.run(_BY_INDEX)

    def _name_surplus(self, found: int, present: int) -> None:
        surplus = self._rows(self._address.sql("check_surplus"), (MAX_PROBLEMS,))
        for tag, type_, position in surplus:
            self.found(
                "index", position, f"the index has tag {tag} and type {type_} there, the event has not"
            )
        if not surplus:
            self.found("index", 0, f"has {found} entries, the events have {present} of them")

    def _appended_tags(self) -> Iterable[tuple[int, str]]:
        return self._rows(f"select position, tags from {self._address.identifier}.appended_tags")

    def _stored_positions(self) -> Iterable[tuple[str, int]]:
        return self._rows(f"select source, position from {self._address.identifier}.tracking")

    def _append_rows(self, after: int, size: int) -> list[AppendRow]:
        return self._rows(self._append_rows_after, (after, size))

    def _recorded_appends(self, span: Span, size: int) -> list[RecordedAppend]:
        return self._search.appends_page(span, size)


def check(address: Address, progress: Progress | None) -> CheckReport:
    """Verify the log."""
    with translated(address):
        connection = Connection(address)
        try:
            prepare(connection, address, create=False)
            with connection.snapshot():
                report = PostgresCheck(connection, address, progress).run()
            if not report.problems:
                leave_note(lambda: save_note(connection, address, LAST_CHECK))
            return report
        finally:
            connection.close()


def save_note(connection: Connection, address: Address, key: str) -> None:
    """Note in the log that something was done now."""
    with translated(address), connection.transaction():
        connection.run(f"set local lock_timeout = '{PATIENCE_SECONDS:.0f}s'")
        connection.raw.execute(address.sql("note_save"), (key,))
