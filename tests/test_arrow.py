"""Reads as Arrow record batches."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pyarrow as pa

from places import Place
from strandline import AsyncEventStore, Event, Query
from strandline.arrow import SCHEMA

NAMES = ["position", "id", "type", "tags", "stream", "subject", "data", "metadata", "recorded_at"]


def test_batches_have_the_columns_of_events(place: Place) -> None:
    with place.connect() as store:
        events = [
            Event("A", {"n": 1}, tags=["y", "x"], stream="s", subject="u", metadata={"by": "me"}),
            Event("B", b"\xff"),
        ]
        store.append(events)
        store.retag(1, add=["z"])
        (batch,) = store.read().arrow()
        assert batch.schema.names == NAMES
        for row, event in zip(batch.to_pylist(), store.read(), strict=True):
            expected = {name: getattr(event, name) for name in NAMES}
            expected |= {"id": str(event.id), "tags": [*event.tags], "metadata": [*event.metadata.items()]}
            assert row == expected


def test_batches_of_nothing_have_the_columns_too(place: Place) -> None:
    with place.connect() as store:
        (empty,) = store.read().arrow()
        assert (empty.num_rows, empty.schema) == (0, SCHEMA)
        store.append([Event("A", {}) for _ in range(1_200)])
        table = pa.Table.from_batches(list(store.read().arrow()))
        assert table["position"].to_pylist() == [*range(1, 1_201)]


def test_async_reads_give_the_same_batches(place: Place) -> None:
    async def use() -> None:
        async with AsyncEventStore(place.connect()) as store:
            await store.append([Event("A", {}, tags=["x"]) for _ in range(1_200)])
            expected = list(store.store.read().arrow())
            assert [batch async for batch in store.read().arrow()] == expected
            assert [batch.num_rows async for batch in store.read(Query.tag("no")).arrow()] == [0]

    asyncio.run(use())


def test_without_pyarrow_the_error_names_the_extra() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
import strandline
store = strandline.connect("memory:")
try:
    store.read().arrow()
except strandline.MissingDependency as error:
    print(error.hint)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "pip install 'strandline[arrow]'\n"


def test_only_arrow_needs_pyarrow() -> None:
    program = "import sys, strandline; list(strandline.connect('memory:').read().pages()); print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
