"""A history with everything that a check looks at."""

from __future__ import annotations

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
