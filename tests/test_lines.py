"""Lines of many events are those of each event, and those are plain JSON with sorted keys."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strandline
from strandline import CorruptLog, Event, SequencedEvent
from strandline.lines import encode_event_lines, encode_lines, join_ids
from strandline.testing.strategies import events as any_events

ODD_DATA = st.sampled_from(
    [
        b"",
        b" 1",
        b"1 ",
        b"[1,\n2]",
        b"\r1",
        b"\xff",
        b'"\\ud800"',
        b"nul",
        b"-0",
        b"1e400",
        b"[" * 950 + b"]" * 950,
    ]
)


def as_fields(event: SequencedEvent) -> dict[str, Any]:
    """The JSON form, from what an event says about itself."""
    fields: dict[str, Any] = {
        "id": str(event.id),
        "metadata": dict(event.metadata),
        "position": event.position,
        "recorded_at": event.recorded_at.isoformat().replace("+00:00", "Z"),
        "stream": event.stream,
        "subject": event.subject,
        "tags": list(event.tags),
        "type": event.type,
    }
    if event.key is not None:
        fields["key"] = event.key
    if event.tracking is not None:
        fields["tracking"] = list(event.tracking)
    return fields


@given(
    st.lists(any_events() | st.builds(Event, st.just("T"), ODD_DATA), min_size=1, max_size=20), st.booleans()
)
def test_lines_have_the_fields_of_their_events(events: list[Event], is_tracked: bool) -> None:
    with strandline.connect("memory:") as store:
        store.append(
            [event.with_key("k") if index == 1 else event for index, event in enumerate(events)],
            tracking=("orders", 1) if is_tracked else None,
        )
        read = list(store.read())
    lines = encode_lines(read).splitlines()
    assert lines == [event.to_line() for event in read]
    assert [b'{"event":%b}' % line for line in lines] == encode_event_lines(read).splitlines()
    for line, event in zip(lines, read, strict=True):
        fields = json.loads(line)
        assert [*fields] == sorted(fields)
        encoded = fields.pop("data_base64", None)
        data = fields.pop("data", None)
        assert fields == as_fields(event)
        if encoded is None:
            assert event.data in line
            assert msgspec.json.decode(event.data) == data
        else:
            assert base64.b64decode(encoded) == event.data
        assert SequencedEvent.from_json(line) == event


@given(st.lists(st.uuids(), max_size=40))
def test_ids_are_joined_as_text(ids: list[UUID]) -> None:
    assert join_ids([each.bytes for each in ids]).decode() == "".join(map(str, ids))


@pytest.mark.parametrize(
    ("field", "value"), [("raw_id", b"short"), ("raw_recorded_at", 1 << 62), ("raw_id", None)]
)
def test_lines_of_a_damaged_event_say_which_it_is(field: str, value: Any) -> None:
    with strandline.connect("memory:") as store:
        store.append([Event("T", number) for number in range(20)])
        events = list(store.read())
    events[7] = msgspec.structs.replace(events[7], **{field: value})
    with pytest.raises(CorruptLog, match="event 8"):
        encode_lines(events)
