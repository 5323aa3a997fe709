"""A log as a Spark stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from places import Place
from strandline import Event


class Run:
    """A stream that delivers what is there and ends, as often as it is started."""

    def __init__(self, spark: Any, place: Place, checkpoint: Path, **options: Any) -> None:
        self.batches: list[tuple[int, list[int]]] = []
        self.checkpoint = checkpoint
        self._stream = (
            spark.readStream.format("strandline")
            .option("url", str(place.url))
            .options(**place.options, **options)
            .schema("position BIGINT, type STRING")
            .load()
        )

    def start(self) -> list[tuple[int, list[int]]]:
        """The batches of one run: their numbers and positions."""
        batches: list[tuple[int, list[int]]] = []

        def keep(frame: Any, number: int) -> None:
            batches.append((number, sorted(r.position for r in frame.collect())))

        query = (
            self._stream.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        return batches


def append(place: Place, count: int) -> None:
    with place.connect() as store:
        store.append([Event("Paid", {"n": number}) for number in range(count)])


def test_a_stream_goes_on_where_it_ended_and_replays_a_batch_whose_commit_was_lost(
    spark, kept: Place, tmp_path: Path
):
    append(kept, 5)
    run = Run(spark, kept, tmp_path / "checkpoint", maxEventsPerTrigger=2)
    assert run.start() == [(0, [1, 2]), (1, [3, 4]), (2, [5])]

    append(kept, 1)
    offset = json.loads((tmp_path / "checkpoint/offsets/2").read_text().splitlines()[-1])
    assert offset["position"] == 5
    (tmp_path / "checkpoint/commits/2").unlink()
    (tmp_path / "checkpoint/commits/.2.crc").unlink()

    assert run.start() == [(2, [5]), (3, [6])]


def test_a_log_that_went_another_way_stops_the_stream(spark, kept: Place, tmp_path: Path):
    append(kept, 3)
    Run(spark, kept, tmp_path / "checkpoint").start()
    other = kept.another()
    append(other, 5)

    with pytest.raises(StreamingQueryException) as caught:
        Run(spark, other, tmp_path / "checkpoint").start()
    assert "position 3 was reached in the log" in str(caught.value)
    assert "begin a new stream: with another checkpoint location" in str(caught.value)
