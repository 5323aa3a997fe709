"""What tests ask of a lake: it shows the log, event for event, to every reader."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from places import Place
from strandline.spark import lake_files
from strandline.spark.lake.folder import Folder
from strandline.spark.lake.kinds import Kind
from strandline.spark.lake.manifest import Silver

Rows = list[dict[str, Any]]


def bronze(lake: str | Path) -> Rows:
    """What a reader gets who knows nothing but the folder, and that it has Delta tables if it has."""
    is_delta = Path(lake, "bronze/_delta_log").exists()
    files = glob.glob(f"{lake}/bronze/**/*.parquet", recursive=True)
    return rows(lake_files(lake) if is_delta else files, "position")


def silver(lake: str | Path, type: str) -> Rows:
    return rows(lake_files(lake, f"silver/{type}"), "_position")


def gold(lake: str | Path, projection: str) -> Rows:
    return rows(lake_files(lake, f"gold/{projection}"), "id")


def rows(files: list[str], order: str) -> Rows:
    found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(found, key=lambda row: row[order])


def logged(place: Place, until: int | None = None) -> Rows:
    """The log as bronze has it."""
    with place.connect() as store:
        return [
            {
                "position": event.position,
                "type": event.type,
                "tags": list(event.tags),
                "data": text(event.data),
                "id": str(event.id),
                "metadata": list(event.metadata.items()),
                "stream": event.stream,
                "subject": event.subject,
                "recorded_at": event.recorded_at,
                "data_bytes": event.data if text(event.data) is None else None,
            }
            for event in store.read(until=until)
        ]


def text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def equals_log(lake: str | Path, place: Place, until: int | None = None) -> None:
    """Every event is in bronze once and in the table of its type once, with its data and present tags."""
    expected = logged(place, until)
    folder = Folder(lake)
    manifest = folder.existing()
    assert bronze(lake) == expected
    assert manifest.head == len(expected)
    by_day = {(Path(file.path).parent.name, file.first) for file in manifest.bronze}
    days = {row["position"]: f"date={row['recorded_at'].date().isoformat()}" for row in expected}
    assert by_day == {(days[first], first) for _, first in by_day}
    by_type = {type: iter(silver(lake, type)) for type, table in manifest.silver.items() if table.files}
    for event in expected:
        if not event["type"].startswith("$"):
            row = next(by_type[event["type"]])
            assert [row["_position"], row["_tags"], row["_id"]] == [
                event["position"],
                event["tags"],
                event["id"],
            ]
            assert_same_data(row, manifest.silver[event["type"]], values(event))
    assert [row for rows in by_type.values() for row in rows] == []
    assert not Path(folder.staging).exists()


def assert_same_data(row: dict[str, Any], table: Silver, written: Any) -> None:
    """The row has what was written, in its columns or beside them; what is null is as if it was not there."""
    if not isinstance(written, dict):
        assert row["_data"] == written
        return
    shown = {column.field: value_of(column.kind, row[column.name]) for column in table.columns}
    data = without_nulls({**shown, **json.loads(row["_rest"] or "{}")})
    if table.cls is not None:
        data = {name: data[name] for name in written}  # a class may have defaults
    assert row["_data"] is None
    assert data == written


def value_of(kind: Kind, value: Any) -> Any:
    return json.loads(value) if kind.name == "json" and value is not None else value


def values(row: dict[str, Any]) -> Any:
    data = row["data"].encode() if row["data_bytes"] is None else row["data_bytes"]
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return data
    return without_nulls(decoded) if isinstance(decoded, dict) else data


def without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
