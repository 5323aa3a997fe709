"""A subscription over HTTP is sent what it asks for, and nothing else that happens in the log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

import strandline
from served import ServedLogs
from strandline import Event, EventStore, Query
from strandline.engine import Span


@pytest.fixture
def kept() -> Iterator[EventStore]:
    with strandline.connect("memory:") as kept:
        yield kept


def test_events_that_nobody_waits_for_are_not_sent(
    served: ServedLogs, kept: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_page, sent = kept.engine.read_page, list[Any]()

    def read(query: Query, span: Span, size: int) -> Any:
        page = read_page(query, span, size)
        sent.extend(page.events)
        return page

    monkeypatch.setattr(kept.engine, "read_page", read)
    with served.serve(kept).connect() as store:
        seen: dict[str, list[int]] = {"x": [], "y": []}

        def follow(tag: str) -> None:
            for event in islice(store.subscribe(Query.tag(tag)), 5):
                seen[tag].append(event.position)

        readers = [threading.Thread(target=follow, args=(tag,)) for tag in seen]
        for reader in readers:
            reader.start()
        for number in range(5):
            kept.append([Event("Other", {"n": n}, tags=["other"]) for n in range(50)])
            kept.append([Event("A", {"n": number}, tags=["x"]), Event("A", {"n": number}, tags=["y"])])
        for reader in readers:
            reader.join(60)
            assert not reader.is_alive()
        assert seen == {
            "x": [event.position for event in store.read(Query.tag("x"))],
            "y": [event.position for event in store.read(Query.tag("y"))],
        }
    assert {event.type for event in sent} == {"A"}
