"""An export: what it is told is checked, then the lake is brought up to the head of its log."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import closing
from typing import cast, get_args

from ...engine import Engine
from ...engine.open import open_engine
from ...errors import InvalidInput
from ..mark import Mark, check_mark
from .classes import event_classes
from .delta import require_deltalake
from .export import Exported, Progress, Projected, Source
from .folder import Folder
from .gold import paths_of, stale
from .jobs import Jobs
from .manifest import Format, Manifest
from .run import Classes, Run


def bring_up_to_date(
    jobs: Jobs,
    url: str,
    lake: str | os.PathLike[str],
    format: str,
    *,
    log: str,
    events: Source | Iterable[Source],
    projections: Projected | Iterable[Projected],
    batch: int,
    progress: Progress,
) -> Exported:
    """See `export`."""
    started = time.monotonic()
    chosen, size, folder = _format(format), _size(batch), Folder(lake)
    given, paths = event_classes(events), paths_of(projections)
    with closing(opened(url, log)) as engine:
        for path in paths:
            jobs.fold(path, engine.head())  # which says what is wrong with it, before anything is written
        with folder.locked():
            head, manifest = engine.head(), _manifest(folder, chosen, engine)
            classes, tables = _with_known(given, manifest), stale(manifest, paths, head)
            folds = {name: jobs.fold(table.projection, head) for name, table in tables.items()}
            run = Run(folder, manifest, engine, jobs, classes, head=head)
            written, rewritten = run.all(size, progress)
            for name, table in tables.items():
                run.put_gold(name, table, jobs.write_table(run.whole_job(table.folder), folds[name]))
            return _exported(folder, run.manifest, written, rewritten, time.monotonic() - started)


def opened(url: str, log: str) -> Engine:
    """The log, which must be there."""
    return open_engine(url, log=log, clock=None, record_conditions=True, create=False)


def _format(format: str) -> Format:
    if format not in get_args(Format):
        raise InvalidInput(
            f"a lake's format is parquet or delta, not {format!r:.40}",
            hint='leave it out, or write format="delta"',
        )
    if format == "delta":
        require_deltalake()
    return cast("Format", format)


def _size(batch: int) -> int:
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InvalidInput(
            f"a batch is a whole number of events from 1, not {batch!r:.40}",
            hint="leave it out, or write batch=1_000_000",
        )
    return batch


def _manifest(folder: Folder, format: Format, engine: Engine) -> Manifest:
    """The manifest of the lake, or that of a new one."""
    manifest = folder.read()
    if manifest is None:
        folder.refuse_foreign()
        return Manifest(format=format, log=str(engine.log_id()))
    check_mark(
        engine,
        Mark(manifest.log, manifest.head, manifest.fingerprint),
        hint=f"{folder.path} is the lake of another log: export into another folder",
    )
    if manifest.format != format:
        raise InvalidInput(
            f"the lake has the format {manifest.format}, not {format}",
            hint=f'write format="{manifest.format}", or export into another folder',
        )
    return manifest


def _with_known(given: Classes, manifest: Manifest) -> Classes:
    """The classes that are given, and those that the lake's tables were made with."""
    known = [table.cls for type, table in manifest.silver.items() if table.cls and type not in given]
    return {**event_classes(known), **given}


def _exported(folder: Folder, manifest: Manifest, written: int, rewritten: int, seconds: float) -> Exported:
    files = [file for _, listed in manifest.tables() for file in listed]
    return Exported(
        folder.path,
        manifest.format,
        manifest.head,
        written,
        rewritten,
        sum(1 for table in manifest.silver.values() if table.files),
        len(manifest.gold),
        len(files),
        sum(file.bytes for file in files),
        round(seconds, 3),
    )
