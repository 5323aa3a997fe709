"""Staging without Spark: what executors would be given, handed to what they run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from strandline.append import MAX_DATA_BYTES
from strandline.spark.importing.lines import Lines
from strandline.spark.importing.origin import Origin, Staged, origins
from strandline.spark.staging.piece import Piece

SETTINGS = {"max_data_bytes": MAX_DATA_BYTES, "original_time": None}


def split(
    lines: Sequence[bytes], file: str = "file:///data/a.ndjson", block: int = 0
) -> list[pa.RecordBatch]:
    """The lines of a part of a file as Spark hands them over, a few at once."""
    return [
        pa.RecordBatch.from_arrays(
            [
                pa.array([0] * len(some), pa.int32()),
                pa.array([file] * len(some)),
                pa.array([block] * len(some), pa.int64()),
                pa.array(some, pa.binary()),
            ],
            names=["source", "file", "block", "line"],
        )
        for some in _grouped(lines, 700)
    ]


def _grouped(lines: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
    return (lines[start : start + size] for start in range(0, len(lines), size))


def stage_lines(
    batches: Iterable[pa.RecordBatch], folder: Path, format: str = "json", **settings: Any
) -> list[Piece]:
    """What a task makes of its batches."""
    return list(Lines.stage(batches, str(folder), {"format": format, **SETTINGS, **settings}))


def staged(pieces: Sequence[Piece], name: str | None = None) -> list[Staged]:
    """All that was staged, in order."""
    return list(events_in(origins(sorted(pieces, key=lambda piece: piece.first), name)))


def events_in(placed: Iterable[Origin]) -> Iterator[Staged]:
    return itertools.chain.from_iterable(origin.events() for origin in placed)
