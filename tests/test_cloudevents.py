"""CloudEvents in and out: exact for our own, with nothing lost for those from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as CoreEvent
from cloudevents.v1 import http as first_http
from cloudevents.v1 import pydantic as first_pydantic
from hypothesis import given
from hypothesis import strategies as st

from places import Place
from strandline import (
    Event,
    InvalidEvent,
    Query,
    SequencedEvent,
    from_cloudevent,
    to_cloudevent,
)
from strandline.testing import ManualClock
from strandline.testing.strategies import events

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
FOREIGN = {
    "specversion": "1.0",
    "id": "A234-1234",
    "source": "/sensors/tn-1234567",
    "type": "com.example.someevent",
    "subject": "the subject",
    "time": "2018-04-05T17:31:00.123456789Z",
    "datacontenttype": "application/json",
    "dataschema": "https://example.org/schema",
    "comexampleextension": "value",
    "comexamplenumber": 5,
    "comexampleflag": True,
    "data": {"appinfoA": "abc", "appinfoB": 1.5},
}


def in_core(fields: dict[str, Any]) -> Any:
    return JSONFormat().read(None, json.dumps(fields))


def in_first_http(fields: dict[str, Any]) -> Any:
    return first_http.from_json(json.dumps(fields))


def in_first_pydantic(fields: dict[str, Any]) -> Any:
    return first_pydantic.from_json(json.dumps(fields))


WAYS: list[Callable[[dict[str, Any]], Any]] = [
    dict,
    json.dumps,
    lambda fields: json.dumps(fields, indent=2).encode(),
    in_core,
    in_first_http,
    in_first_pydantic,
]


@pytest.fixture(params=WAYS, ids=["dict", "text", "bytes", "core", "first http", "first pydantic"])
def way(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    """A form in which a CloudEvent comes."""
    found: Callable[[dict[str, Any]], Any] = request.param
    return found


def own_events(**options: Any) -> st.SearchStrategy[Event]:
    return events(keys=st.nothing(), **options)


def test_an_event_of_a_log_tells_its_place(place: Place) -> None:
    with place.connect(clock=ManualClock(datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC))) as store:
        store.append(Event("Other", {}))
        store.append(Event("Joined", {"n": 1}, tags=["user:1", "é"], id=ID, subject="u"), stream="course:1")
        store.append([Event("Other", {}), Event("Joined", {}, stream="course:1")])
        (event, last) = store.read(Query.stream("course:1"))
        assert to_cloudevent(event, source="/school") == {
            "specversion": "1.0",
            "id": ID,
            "source": "/school",
            "type": "Joined",
            "subject": "u",
            "time": "2026-01-02T03:04:05.000678Z",
            "datacontenttype": "application/json",
            "data": {"n": 1},
            "streamid": "course:1",
            "streamversion": 2,
            "position": 2,
            "tags": '["user:1", "\\u00e9"]',
            "strandline": f'{{"id": "{ID}", "metadata": {{}}}}',
        }
        assert to_cloudevent(last)["streamversion"] == last.position == 4
        assert store.count(Query.stream("course:1")) == 2


def test_what_an_event_does_not_have_is_left_out() -> None:
    fields = to_cloudevent(Event("Joined", b"", id=ID))
    assert set(fields) == {"specversion", "id", "source", "type", "strandline"}
    sequenced = SequencedEvent.of(Event("Joined", b""), 7, 0)
    assert to_cloudevent(sequenced).keys() - fields.keys() == {"position", "time"}


def test_a_position_that_is_no_integer_of_cloudevents_goes_as_text() -> None:
    for position, told in ((2**31 - 1, 2**31 - 1), (2**31, "2147483648")):
        fields = to_cloudevent(SequencedEvent.of(Event("Joined", {}, stream="s"), position, 0))
        assert (fields["position"], fields["streamversion"]) == (told, told)


@given(event=own_events(), source=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_our_own_events_come_back_as_they_were(event: Event, source: str) -> None:
    for sent in (event, SequencedEvent.of(event, 3, 4)):
        fields = to_cloudevent(sent, source=source)
        assert from_cloudevent(fields) == event
        assert from_cloudevent(json.dumps(fields)) == event
        assert from_cloudevent(json.dumps(fields, ensure_ascii=False).encode()) == event
        assert from_cloudevent(in_core(fields)) == event


def is_no_json(data: bytes) -> bool:
    """Bytes that happen to be JSON, that package reads as such: they do not come back as they were."""
    try:
        json.loads(data)
    except ValueError:
        return True
    return False


@given(
    event=own_events(
        data=st.dictionaries(st.text("ab"), st.integers(-9, 9)) | st.binary(min_size=1).filter(is_no_json)
    )
)
def test_our_own_events_come_back_through_the_package_as_it_first_was(event: Event) -> None:
    fields = to_cloudevent(SequencedEvent.of(event, 3, 4))
    assert from_cloudevent(in_first_http(fields)) == event
    assert from_cloudevent(in_first_pydantic(fields)) == event


@pytest.mark.parametrize(
    ("data", "member"),
    [
        (b'{"a":1}', {"datacontenttype": "application/json", "data": {"a": 1}}),
        (b'"text"', {"datacontenttype": "application/json", "data": "text"}),
        (b'{"a": 1}', {"datacontenttype": "application/json", "data_base64": "eyJhIjogMX0="}),
        (b"null", {"datacontenttype": "application/json", "data_base64": "bnVsbA=="}),
        (b"1.00", {"datacontenttype": "application/json", "data_base64": "MS4wMA=="}),
        (b"\xff", {"datacontenttype": "application/octet-stream", "data_base64": "/w=="}),
        (b"", {}),
    ],
)
def test_data_is_a_value_if_that_keeps_every_byte(data: bytes, member: dict[str, Any]) -> None:
    fields = to_cloudevent(Event("A", data))
    assert {name: value for name, value in fields.items() if name.startswith("data")} == member
    assert from_cloudevent(json.dumps(fields)).data == data


def test_an_event_from_elsewhere_keeps_what_it_said(way: Callable[[dict[str, Any]], Any]) -> None:
    event = from_cloudevent(way(FOREIGN))
    assert (event.type, event.subject, event.stream) == ("com.example.someevent", "the subject", None)
    assert event.json() == {"appinfoA": "abc", "appinfoB": 1.5}
    assert event.id == UUID("043ac877-e07b-547c-9aea-1537f119ee3e")
    time = event.metadata["time"]
    assert datetime.fromisoformat(time) == datetime(2018, 4, 5, 17, 31, 0, 123456, tzinfo=UTC)
    assert event.metadata == {
        "id": "A234-1234",
        "source": "/sensors/tn-1234567",
        "time": time,
        "datacontenttype": "application/json",
        "dataschema": "https://example.org/schema",
        "comexampleextension": "value",
        "comexamplenumber": "5",
        "comexampleflag": "true",
    }


def test_an_event_from_elsewhere_goes_on_under_its_own_name() -> None:
    event = from_cloudevent(FOREIGN).with_tags("sensor:1").with_metadata({"subject": "not it", "by": "me"})
    for sent in (event, SequencedEvent.of(event, 3, 4)):
        fields = to_cloudevent(sent, source="/ours")
        numbers = {"comexamplenumber": "5", "comexampleflag": "true"}  # text is all that metadata has
        assert {name: fields[name] for name in FOREIGN} == FOREIGN | numbers
        assert (fields["tags"], fields["by"]) == ('["sensor:1"]', "me")
        assert from_cloudevent(fields) == event


def test_an_event_that_others_made_of_one_of_ours_is_theirs() -> None:
    ours = to_cloudevent(Event("Joined", {}, id=ID, metadata={"a": "b"}), source="/ours")
    theirs = from_cloudevent(ours | {"id": "1", "source": "/theirs", "type": "Counted"})
    assert (str(theirs.id) != ID, theirs.metadata) == (
        True,
        {"id": "1", "source": "/theirs", "datacontenttype": "application/json"},
    )


def test_source_and_id_together_are_the_id() -> None:
    def id_of(**changes: str) -> UUID:
        return from_cloudevent(FOREIGN | changes).id

    assert id_of() == id_of(type="other", subject="other")
    assert len({id_of(), id_of(id="2"), id_of(source="/b"), id_of(source="/b", id="2"), id_of(id=ID)}) == 5
    assert str(id_of(id=ID)) != ID


def test_an_event_from_elsewhere_is_written_once(place: Place) -> None:
    with place.connect() as store:
        first = store.append(from_cloudevent(FOREIGN))
        again = store.append(from_cloudevent(json.dumps(FOREIGN)))
        assert (again.duplicate, again.position, store.head()) == (True, first.position, 1)
        (event,) = store.read()
        assert from_cloudevent(to_cloudevent(event)) == from_cloudevent(FOREIGN)


def test_events_of_occurrent_bring_their_stream_and_tags() -> None:
    theirs = {"streamid": "course:432", "streamversion": 42, "tags": '["user:123", "course:432"]'}
    event = from_cloudevent(FOREIGN | theirs)
    assert (event.stream, event.tags) == ("course:432", ("course:432", "user:123"))
    assert event.metadata["streamversion"] == "42"
    assert to_cloudevent(SequencedEvent.of(event, 7, 0))["streamversion"] == 7


@pytest.mark.parametrize("theirs", ["red,blue", "", "7", '{"a": 1}', "[1]", '["a", null]', "[" * 100_000, 7])
def test_tags_from_elsewhere_that_are_not_ours_are_kept_as_they_are(theirs: str | int) -> None:
    event = from_cloudevent(FOREIGN | {"tags": theirs})
    assert (event.tags, event.metadata["tags"]) == ((), str(theirs))
    for tags in ([], ["sensor:1"]):
        tagged = event.with_tags(*tags)
        fields = to_cloudevent(tagged)
        assert fields["tags"] == (json.dumps(tags) if tags else str(theirs))
        assert from_cloudevent(fields) == tagged


def test_tags_of_an_event_of_ours_are_our_json() -> None:
    ours = to_cloudevent(Event("Joined", {}, tags=["a"], metadata={"tags": "b"}))
    for tags in ("red,blue", "[1]", "{}"):
        with pytest.raises(InvalidEvent, match="tags of the CloudEvent is no JSON list of texts") as caught:
            from_cloudevent(ours | {"tags": tags})
        assert "JSON list as text" in caught.value.hint
    theirs = from_cloudevent(ours | {"tags": "red,blue", "id": "1"})
    assert (theirs.tags, theirs.metadata["tags"]) == ((), "red,blue")


@pytest.mark.parametrize(
    ("data", "media_type", "expected"),
    [
        ({"data": "<much wow='xml'/>"}, "text/xml", b"<much wow='xml'/>"),
        ({"data": "text"}, None, b'"text"'),
        ({"data": "text"}, "application/json; charset=utf-8", b'"text"'),
        ({"data": "text"}, "application/vnd.apache.thrift+json", b'"text"'),
        ({"data": [1, 2]}, "text/plain", b"[1,2]"),
        ({"data_base64": "/wA="}, None, b"\xff\x00"),
        ({"data": None}, None, b""),
        ({}, None, b""),
        ({"data": b"\x00"}, None, b"\x00"),
    ],
)
def test_data_is_read_as_its_type_says(data: Any, media_type: str | None, expected: bytes) -> None:
    required = {name: FOREIGN[name] for name in ("specversion", "id", "source", "type")}
    assert from_cloudevent({**required, **data, "datacontenttype": media_type}).data == expected


def test_objects_of_the_package_are_taken_as_users_make_them() -> None:
    made: dict[str, Any] = {"type": "T", "source": "/s", "id": "1"}
    when = datetime(2026, 1, 2, tzinfo=UTC)
    core = from_cloudevent(CoreEvent(made | {"time": when}, {"a": 1}))
    first = from_cloudevent(first_http.CloudEvent(made | {"time": "2026-01-02T00:00:00Z"}, {"a": 1}))
    assert core == first
    assert (core.json(), core.metadata["time"]) == ({"a": 1}, "2026-01-02T00:00:00Z")
    assert from_cloudevent(CoreEvent(dict(made), b"\xff")).data == b"\xff"
    assert from_cloudevent(first_http.CloudEvent(made)).data == b""
    image = CoreEvent(made | {"binary": b"\xff", "count": 3}, "text")
    assert (from_cloudevent(image).metadata["binary"], from_cloudevent(image).json()) == ("/w==", "text")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        *(({name: None}, f"needs {name}") for name in ("specversion", "id", "source", "type")),
        *(({name: ""}, f"needs {name}") for name in ("specversion", "id", "source", "type")),
        ({"id": 7}, "needs id"),
        ({"source": "\ud800"}, "not valid text"),
        ({"specversion": "0.3"}, "CloudEvents '0.3'"),
        ({"specversion": "1.1"}, "CloudEvents '1.1'"),
        ({"type": "$retagged"}, "reserved"),
        ({"type": "x" * 257}, "256"),
        ({"subject": ""}, "subject"),
        ({"streamid": "a\nb"}, "stream"),
        ({"time": "yesterday"}, "RFC 3339"),
        ({"time": "2018-04-05T17:31:00"}, "RFC 3339"),
        ({"time": 3}, "RFC 3339"),
        ({"comExample": "x"}, "no name"),
        ({"com_example": "x"}, "no name"),
        ({"": "x"}, "no name"),
        ({7: "x"}, "no name"),
        ({"comexample": 1.5}, "comexample of the CloudEvent is a float"),
        ({"comexample": ["x"]}, "comexample of the CloudEvent is a list"),
        ({"comexample": {"x": 1}}, "comexample of the CloudEvent is a dict"),
        ({"tags": ["a"]}, "tags of the CloudEvent is a list"),
        ({"tags": "\ud800"}, "not valid text"),
        ({"tags": '["$a"]'}, "reserved"),
        ({"strandline": "x"}, "strandline of the CloudEvent is not JSON"),
        ({"strandline": "{}"}, "strandline of the CloudEvent is not what"),
        ({"strandline": '{"id": "A234-1234", "metadata": {}}'}, "UUID"),
        ({"strandline": f'{{"id": "{ID}", "metadata": {{"a": 1}}}}', "id": ID}, "metadata"),
        ({"data_base64": "eyJhIjogMX0="}, "not both"),
        ({"data": None, "data_base64": "§"}, "not Base64"),
        ({"data": None, "data_base64": 7}, "not Base64"),
        ({"data": object()}, "has no JSON form"),
        ({"data": float("nan")}, "NaN"),
        ({"data": "\ud800", "datacontenttype": "text/plain"}, "not valid text"),
    ],
)
def test_what_is_no_cloudevent_is_an_invalid_event_with_a_hint(changes: Any, told: str) -> None:
    with pytest.raises(InvalidEvent, match=told) as caught:
        from_cloudevent(FOREIGN | changes)
    assert caught.value.hint


@pytest.mark.parametrize("value", ["", "{", "[]", "7", b"\xff", "[" * 100_000, None, 7, [FOREIGN], object()])
def test_what_has_no_attributes_is_an_invalid_event_with_a_hint(value: Any) -> None:
    with pytest.raises(InvalidEvent) as caught:
        from_cloudevent(value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("event", "source"),
    [(Event("A", {}), ""), (Event("A", {}), None), (Event("A", {}), "\ud800"), ({"type": "A"}, "/s")],
)
def test_what_cannot_be_sent_is_an_invalid_event_with_a_hint(event: Any, source: Any) -> None:
    with pytest.raises(InvalidEvent) as caught:
        to_cloudevent(event, source=source)
    assert caught.value.hint
