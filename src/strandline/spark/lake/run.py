"""One export, step by step: tables whose class changed, batches that a retag changed, then what is new."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ...domain.event import DomainEvent
from ...engine import Engine, Span
from ...engine.audit import events
from ...names import RETAGGED
from ...query import Query
from ...retag import changes_of
from ..loading import path_of
from ..mark import mark_at
from . import delta
from .changes import Added, by_table, joined, settled, with_batch, with_classes, with_gold, with_silver
from .classes import fields_of
from .export import Progress
from .folder import Folder
from .inference import Fields, join_fields
from .inference import settled as held
from .jobs import Jobs
from .kinds import columns_of
from .manifest import Batch, Gold, Manifest, Silver
from .names import folder_name
from .silver import OWN_COLUMNS
from .steps import passed
from .task import Job, Report, SilverTable
from .whole import check_bronze, check_silver

SMALL_BATCHES = 32

Classes = Mapping[str, type[DomainEvent]]


class Run:
    """Brings a lake up to the head of its log."""

    def __init__(
        self, folder: Folder, manifest: Manifest, engine: Engine, jobs: Jobs, classes: Classes, *, head: int
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.head = head
        self._engine = engine
        self._jobs = jobs
        self._silver = dict(manifest.silver)  # also of types that have a class, and no event yet
        self._classes = classes

    def all(self, size: int, progress: Progress) -> tuple[int, int]:
        """Do everything but gold; how many events are new, and how many were written anew."""
        self._finish()
        rewritten = self._write_retyped(size) + self._write_retagged()
        written, joined_again = self._write_new(size, progress)
        return written, rewritten + joined_again

    def _finish(self) -> None:
        """Finish what an export began that was killed, or begin a new lake."""
        if self.manifest.changes:
            self._take_effect(self.manifest)
        self.folder.clean()
        if self.manifest.commit == 0:
            self.folder.save(self.manifest)
        if self.manifest.format == "delta":
            delta.refuse_broken(self.folder, self.manifest)
        else:
            self.folder.refuse_broken(self.manifest)
        passed("the lake is in order")

    def _write_retyped(self, size: int) -> int:
        """Write silver tables anew if their class has other columns or another version by now; how many events."""
        typed = {type: self._typed(type, cls) for type, cls in sorted(self._classes.items())}
        known = self.manifest.silver
        changed = {t: table for t, table in typed.items() if t in known and _is_other(known[t], table)}
        self._silver |= typed
        self._remember({type: table for type, table in typed.items() if type not in changed})
        if not changed:
            return 0
        batches = [*joined(self.manifest.batches, size)]
        self.manifest = replace(self.manifest, batches=batches)
        job, query = self._job(changed), Query.types(*changed)
        reports = [
            report
            for batch in batches
            for report in self._jobs.write_events(job, batch.after, batch.until, query)
        ]
        passed("tables are staged anew")
        counts = {type: sum(file.rows for file in known[type].files) for type in changed}
        check_silver(reports, counts, {type: table.folder for type, table in changed.items()})
        self._commit(with_silver(self.manifest, changed, self._stage(reports)))
        return sum(counts.values())

    def _remember(self, tables: Mapping[str, Silver]) -> None:
        """Note which classes tables have, so that they need not be named again, also of types without events yet."""
        manifest = with_classes(self.manifest, tables)
        if manifest != self.manifest:
            self.folder.save(manifest)
            self.manifest = manifest

    def _write_retagged(self) -> int:
        """Write batches anew in which a retag has changed tags since; how many events."""
        touched = [*_retagged(self._engine, self.manifest.batches, self.head)]
        for batch in touched:
            self._write(batch.after, batch.until)
        judged = [replace(batch, as_of=self.head) for batch in self.manifest.batches]
        self.manifest = replace(self.manifest, batches=judged)
        return sum(batch.until - batch.after for batch in touched)

    def _write_new(self, size: int, progress: Progress) -> tuple[int, int]:
        """Write the new events, batch by batch; how many, and how many were written anew with them."""
        known = self.manifest.head
        count, start = self.head - known, self._start(size) if known < self.head else known
        for after in range(start, self.head, size):
            progress("events", max(0, after - known), count)
            self._write(after, min(after + size, self.head))
        progress("events", count, count)
        return count, known - start

    def _start(self, size: int) -> int:
        """After which event to begin: where small batches do, once there are many of them, so that files stay few."""
        tail = [batch for batch in self.manifest.batches if self.manifest.head - batch.after < size]
        return tail[0].after if len(tail) >= SMALL_BATCHES else self.manifest.head

    def put_gold(self, name: str, table: Gold, reports: Iterable[Report]) -> None:
        """Replace the table of a projection."""
        self._commit(with_gold(self.manifest, name, table, self._stage(reports)))

    def whole_job(self, folder: str) -> Job:
        """The job that writes a table as it comes."""
        return replace(self._job({}), whole=folder, until=self.head)

    def _write(self, after: int, until: int) -> None:
        """Write the events `(after, until]`: all in one pass, and once more those of types that are new."""
        job = replace(self._job(self._silver), bronze=True, infer=True)
        reports = self._jobs.write_events(job, after, until, None)
        passed("bronze and known types are staged")
        new = self._inferred([report.inferred for report in reports])
        if new:
            job = self._job({type: self._silver[type] for type in new})
            reports += [
                Report(files=report.files)
                for report in self._jobs.write_events(job, after, until, Query.types(*new))
            ]
            passed("new types are staged")
        seen = check_bronze(reports, after, until)
        check_silver(reports, seen, {type: self._silver[type].folder for type in seen})
        tables = {type: self._silver[type] for type in seen}
        batch = Batch(after, until, self.head)
        manifest = with_batch(self.manifest, batch, tables, self._stage(reports))
        if until > manifest.head:
            manifest = replace(manifest, head=until, fingerprint=mark_at(self._engine, until).fingerprint)
        self._commit(manifest)

    def _stage(self, reports: Iterable[Report]) -> Added:
        staged = self.folder.stage(file for report in reports for file in report.files)
        passed("files are ready")
        return by_table(staged)

    def _commit(self, manifest: Manifest) -> None:
        manifest.check()
        self.folder.save(manifest)
        passed("the manifest is replaced")
        self._take_effect(manifest)
        self.folder.clean()

    def _take_effect(self, manifest: Manifest) -> None:
        if manifest.format == "delta":
            delta.settle(self.folder, manifest)
        else:
            self.folder.settle(manifest.changes)
        passed("files are in their places")
        self.manifest = settled(manifest)
        self.folder.save(self.manifest)

    def _job(self, tables: Mapping[str, Silver]) -> Job:
        silver = {type: SilverTable(table.folder, table.columns, table.cls) for type, table in tables.items()}
        return Job(staging=self.folder.staging, commit=self.manifest.commit + 1, silver=silver)

    def _typed(self, type: str, cls: type[DomainEvent]) -> Silver:
        folder = self._folder(type)
        table = Silver(folder, columns_of(fields_of(cls), OWN_COLUMNS), path_of(cls), cls.event_version)
        self._silver.setdefault(type, table)  # its folder is taken
        return table

    def _inferred(self, found: Sequence[dict[str, Fields]]) -> list[str]:
        """The types that are new; from now on their columns stay as they are."""
        new = sorted({type for types in found for type in types})
        for type in new:
            fields = held(join_fields(types.get(type, {}) for types in found))
            self._silver[type] = Silver(self._folder(type), columns_of(fields, OWN_COLUMNS), None, 0)
        return new

    def _folder(self, type: str) -> str:
        if type in self._silver:
            return self._silver[type].folder
        taken = (table.folder.partition("/")[2] for table in self._silver.values())
        return f"silver/{folder_name(type, taken)}"


def _is_other(known: Silver, table: Silver) -> bool:
    """Whether a table that has rows would have other ones now."""
    is_same = (known.columns, known.version) == (table.columns, table.version) and known.cls is not None
    return bool(known.files) and not is_same


def _retagged(engine: Engine, batches: Sequence[Batch], head: int) -> Iterator[Batch]:
    """The batches with an event that was retagged after they were written."""
    touched: set[int] = set()
    oldest = min((batch.as_of for batch in batches), default=head)
    if oldest >= head:
        return
    ends = [batch.until for batch in batches]
    for retag in events(engine, Query.types(RETAGGED), Span(oldest, head)):
        for change in changes_of(retag):
            number = bisect.bisect_left(ends, change.position)
            if number < len(batches) and batches[number].as_of < retag.position:
                touched.add(number)
    yield from (batches[number] for number in sorted(touched))
