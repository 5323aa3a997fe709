"""The source gives the log, event for event."""

from __future__ import annotations

import json

from places import Place
from strandline import Event
from strandline.spark.frames import events


def test_the_source_gives_what_the_store_reads(spark, kept: Place):
    with kept.connect() as store:
        store.append([Event(type="Paid", tags=["wallet:w1"], data={"amount": n}) for n in range(5)])
        expected = [(event.position, event.type, list(event.tags), event.json()) for event in store.read()]
    frame = events(spark, str(kept.url), **kept.options)
    rows = frame.select("position", "type", "tags", "data").collect()

    assert sorted((row[0], row[1], row[2], json.loads(row[3])) for row in rows) == expected
