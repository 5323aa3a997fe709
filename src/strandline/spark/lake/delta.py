"""Delta tables without a JVM's help: a commit of delta-rs for each table, made once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import InvalidInput, MissingDependency
from .folder import Folder
from .manifest import ANEW, Change, File, Manifest, commit_of
from .silver import POSITION
from .steps import passed
from .task import BRONZE

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

Values = dict[str, str]

_DATE = "date"


def require_deltalake() -> None:
    """Say what to install if it is missing."""
    try:
        import deltalake  # noqa: F401
    except ImportError:
        raise MissingDependency(
            "Delta tables need the package deltalake", hint="pip install 'strandline[delta]'"
        ) from None


def files_of(table: str) -> list[str]:
    """The files of a table, as it is now."""
    require_deltalake()
    from deltalake import DeltaTable

    return sorted(DeltaTable(table).file_uris())


def settle(folder: Folder, manifest: Manifest) -> None:
    """Carry out the changes of a commit; a table that has them already is left alone."""
    folder.arrive(file for change in manifest.changes.values() for file in change.add)
    for table, change in manifest.changes.items():
        if change.add or change.remove:
            _commit(folder, manifest, table, change)
            passed("a Delta table is committed")


def refuse_broken(folder: Folder, manifest: Manifest) -> None:
    """Every table of the lake is there, with all that was committed to it."""
    for table, files in manifest.tables():
        if files and _last_commit(folder, manifest, table) < max(map(commit_of, files)):
            raise InvalidInput(
                f"the lake at {folder.path} lacks the table {table}, or a part of it", hint=ANEW
            )


def _last_commit(folder: Folder, manifest: Manifest, table: str) -> int:
    delta = _opened(folder.at(table))
    return 0 if delta is None else delta.transaction_version(_commits(manifest)) or 0


def _opened(place: str) -> DeltaTable | None:
    from deltalake import DeltaTable

    return DeltaTable(place) if DeltaTable.is_deltatable(place) else None


def _commits(manifest: Manifest) -> str:
    return f"strandline/{manifest.log}/commit"


def _commit(folder: Folder, manifest: Manifest, table: str, change: Change) -> None:
    from deltalake import CommitProperties, DeltaTable, Transaction

    place = folder.at(table)
    delta = _opened(place)
    if delta is not None and (delta.transaction_version(_commits(manifest)) or 0) >= manifest.commit:
        return
    columns, partitions = _columns(folder, table, change), [_DATE] if table == BRONZE else []
    if delta is None:
        delta = DeltaTable.create(place, columns, partition_by=partitions)
    once = CommitProperties(
        app_transactions=[
            Transaction(f"strandline/{manifest.log}", manifest.head),
            Transaction(_commits(manifest), manifest.commit),
        ]
    )
    if _is_optimized(delta, change):
        _replace_rows(delta, folder, table, change, once)
        return
    now = int(time.time() * 1_000)
    removed = [] if change.replaces else [_remove(table, file, now) for file in change.remove]
    delta.create_write_transaction(
        [*removed, *(_add(table, file, now) for file in change.add)],
        "overwrite" if change.replaces else "append",
        columns,
        partitions,
        commit_properties=once,
    )


def _is_optimized(delta: DeltaTable, change: Change) -> bool:
    """Whether files that go are gone already, because somebody else has put their rows into others."""
    if change.replaces or not change.remove:
        return False
    present = {uri.rpartition("/")[2] for uri in delta.file_uris()}
    return any(file.path.rpartition("/")[2] not in present for file in change.remove)


def _replace_rows(
    delta: DeltaTable, folder: Folder, table: str, change: Change, once: CommitProperties
) -> None:
    """Replace rows by their positions, whichever files they are in; all of them pass through this process."""
    from deltalake import write_deltalake

    rows = (
        batch
        for file in change.add
        for batch in _with_day(pq.ParquetFile(folder.at(file.path)).iter_batches(), _in_table(table, file)[1])
    )
    first, last = min(file.first for file in change.remove), max(file.last for file in change.remove)
    position = _position(table)
    write_deltalake(
        delta,
        pa.RecordBatchReader.from_batches(_columns(folder, table, change), rows),
        mode="overwrite",
        predicate=f"{position} >= {first} and {position} <= {last}",
        commit_properties=once,
    )


def _with_day(batches: Iterable[pa.RecordBatch], values: Values) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if values:
            day = pa.scalar(date.fromisoformat(values[_DATE]), pa.date32())
            yield batch.append_column(_DATE, pa.repeat(day, batch.num_rows))
        else:
            yield batch


def _columns(folder: Folder, table: str, change: Change) -> pa.Schema:
    """The columns of a table: those of its files, and the day that is in their path."""
    schema = pq.read_schema(folder.at(change.add[0].path))
    return schema.append(pa.field(_DATE, pa.date32())) if table == BRONZE else schema


def _add(table: str, file: File, now: int) -> Any:
    from deltalake.transaction import AddAction

    stats: dict[str, Any] = {"numRecords": file.rows}
    position = _position(table)
    if position is not None:
        stats |= {"minValues": {position: file.first}, "maxValues": {position: file.last}}
    path, values = _in_table(table, file)
    return AddAction(path, file.bytes, values, now, True, msgspec.json.encode(stats).decode())


def _remove(table: str, file: File, now: int) -> Any:
    from deltalake.transaction import RemoveAction

    path, values = _in_table(table, file)
    return RemoveAction(path, True, now, file.bytes, {**values})


def _position(table: str) -> str | None:
    """The column of a table of events that has their positions."""
    return {BRONZE: "position", "silver": POSITION}.get(table.partition("/")[0])


def _in_table(table: str, file: File) -> tuple[str, Values]:
    """The path inside the table, and the values that it stands for."""
    path = file.path.removeprefix(f"{table}/")
    return path, {_DATE: path.partition("/")[0].removeprefix(f"{_DATE}=")} if table == BRONZE else {}
