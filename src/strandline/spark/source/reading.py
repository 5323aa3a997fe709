"""Reading a range of a log as Arrow batches, by the quickest way that there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from ...arrow import Raw, batch_of, raw_columns
from ...engine import Engine, Span
from ...engine.scan import COLUMNS, Types
from ...engine.sqlite import SqliteEngine
from ...engine.sqlite.scan import scan
from ...errors import InvalidInput, Unavailable
from ...query import Query
from . import copying
from .options import Options
from .ranges import Range

PAGE = 1_000


def batches(options: Options, query: Query, part: Range, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The matching events of a range, in order."""
    names = [name for name in COLUMNS if name in schema.names or name == "position"]
    for raw in raw_batches(options, query, part, names):
        yield batch_of(raw, schema)


def raw_batches(options: Options, query: Query, part: Range, names: Sequence[str]) -> Iterator[Raw]:
    """The same as columns of the log: those that are named, or all."""
    types = Types.of(query) if part.scan else None
    if types is not None and options.place.engine == "postgres":
        copied = copying.connect(options)
        if copied is not None:
            with copied:
                check_whole(part, *copied.log_and_head())
                yield from copied.scan(names, part.after, part.until, types)
            return
    engine = options.open()
    try:
        check_whole(part, str(engine.log_id()), engine.head())
        if types is not None and isinstance(engine, SqliteEngine):
            for rows in scan(engine, names, part.after, part.until, types):
                yield raw_columns(rows, names)
        else:
            yield from _pages(engine, query, part)
    finally:
        engine.close()


def _pages(engine: Engine, query: Query, part: Range) -> Iterator[Raw]:
    span: Span | None = Span(part.after, part.until)
    while span is not None:
        page = engine.read_page(query, span, PAGE)
        if page.events:
            yield raw_columns(map(msgspec.structs.astuple, page.events))
        span = page.rest


def check_whole(part: Range, log: str, head: int) -> None:
    """Refuse to read what is not there: from another log, or from a replica that lags behind."""
    if log != part.log:
        raise InvalidInput(
            f"this executor reads the log {log}, and the read was planned on the log {part.log}",
            hint="let the URL name the same database, or the same file, on the driver and on every executor",
        )
    if head < part.until:
        raise Unavailable(
            f"the log ends at position {head} for this executor, and the read was planned up to {part.until}",
            hint="wait until the replica has caught up, or read from the primary server",
        )
