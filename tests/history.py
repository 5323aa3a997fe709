"""A history with everything that a check looks at, and one that never stands still."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from strandline import AppendCondition, Event, EventStore, Query, QueryItem


def write_history(store: EventStore) -> None:
    """24 events with conditions, streams, a payload filter and retags."""
    for number in range(20):
        query = Query.of(
            QueryItem(types=["Taken"], tags=[f"seat:{number}"]), QueryItem(stream=f"student-{number}")
        )
        event = Event("Taken", {"n": number}, tags=[f"seat:{number}", "hall:1"])
        store.append(event, AppendCondition(query), stream=f"student-{number}")
    store.retag([3], replace={"seat": ["99"]})
    filtered = Query.of(QueryItem(where={"n": 77}))
    store.append([Event("Taken", {"n": 20}), Event("Taken", {"n": 21})], AppendCondition(filtered))
    store.retag(Query.tag("seat:5"), add=["vip"])


@contextlib.contextmanager
def retagging(store: EventStore) -> Iterator[None]:
    """Retags event 3 of that history again and again, and decides by its new tag, as long as the block runs."""
    is_done = threading.Event()

    def retag() -> None:
        number = 0
        while not is_done.is_set():
            number += 1
            store.retag([3], replace={"seat": [str(number)]})
            store.append(Event("Other", {}), store.read(Query.tag(f"seat:{number}")).condition)

    writer = threading.Thread(target=retag)
    writer.start()
    try:
        yield
    finally:
        is_done.set()
        writer.join()
