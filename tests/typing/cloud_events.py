"""CloudEvents as users send and receive them; `make check` holds it against mypy and pyright. Not run, only read."""

from __future__ import annotations

from typing import Any, assert_type

from cloudevents.core.v1.event import CloudEvent
from cloudevents.v1.http import CloudEvent as FirstCloudEvent

from strandline import Event, EventStore, from_cloudevent, to_cloudevent


def send(store: EventStore) -> None:
    for event in store.read():
        assert_type(to_cloudevent(event, source="/school"), dict[str, Any])
    to_cloudevent(Event("Joined", {}))
    to_cloudevent({"type": "Joined"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    to_cloudevent(Event("Joined", {}), "/school")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def receive(core: CloudEvent, first: FirstCloudEvent, body: bytes, fields: dict[str, Any]) -> None:
    assert_type(from_cloudevent(core), Event)
    assert_type(from_cloudevent(first), Event)
    assert_type(from_cloudevent(body), Event)
    assert_type(from_cloudevent(fields), Event)
    from_cloudevent(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    from_cloudevent([fields])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
