"""What executors make of lines: the event, bit for bit, or what is wrong and where."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from staging import split, stage_lines, staged

from places import Place
from strandline import Event, EventIdConflict, InvalidEvent, to_cloudevent
from strandline.spark.importing.appending import first_of_each
from strandline.spark.importing.origin import origins
from strandline.spark.importing.refusing import refuse_bad
from strandline.spark.staging.piece import Piece

RICH = [
    Event("A", {"ä": "€", "n": 1.50}, tags=["t:1", "ü:2"], stream="s", subject="x", metadata={"user": "ada"}),
    Event("A", b'{"n":  1.50}', tags=["t:1"]).with_key("module.enroll:k1"),
    Event("B", b"\xff\x00 not JSON"),
    Event("B", b""),
    Event("C", None),
    Event("C", "text\nwith\nlines"),
]


def test_lines_of_a_log_come_back_as_they_were(tmp_path: Path, place: Place) -> None:
    with place.connect() as store:
        store.append(RICH)
        lines = [line.rstrip(b"\n") for line in store.read().ndjson()]

    found = [one.event for one in staged(stage_lines(split(lines), tmp_path))]

    assert found == RICH
    assert [event.to_json() for event in found] == [event.to_json() for event in RICH]


def test_retags_in_the_lines_of_a_log_are_skipped_because_the_events_show_what_they_did(
    tmp_path: Path,
) -> None:
    with Place("memory:").connect() as store:
        store.append(Event("A", 1, tags=["a"]))
        store.retag([1], add=["b"])
        lines = list(store.read().ndjson())
    (piece,) = stage_lines(split(lines), tmp_path)

    assert (piece.rows, piece.staged, piece.skipped, piece.refused) == (2, 1, 1, 0)
    assert [one.event.tags for one in staged([piece])] == [("a", "b")]


def test_cloudevents_come_in_under_an_id_of_their_source_and_id(tmp_path: Path) -> None:
    own = [json.dumps(to_cloudevent(event)).encode() for event in RICH[:3]]
    foreign = {
        "specversion": "1.0",
        "id": "7",
        "source": "/shop",
        "type": "Paid",
        "time": "2026-01-31T12:00:00Z",
    }
    pieces = stage_lines(split([*own, json.dumps(foreign).encode()]), tmp_path, "cloudevents")
    *same, other = [one.event for one in staged(pieces)]

    assert [event.id for event in same] == [event.id for event in RICH[:3]]
    assert other.metadata == {"id": "7", "source": "/shop", "time": "2026-01-31T12:00:00Z"}
    again = stage_lines(split([json.dumps(foreign).encode()]), tmp_path, "cloudevents")
    assert staged(again)[0].event.id == other.id


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"no JSON", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b"\xff", "not a JSON object"),
        (b'{"type": "A"}', "an event lacks its data"),
        (b'{"type": "A", "data": 1, "tag": ["x"]}', "unknown fields: ['tag']"),
        (b'{"type": "$A", "data": 1}', "reserved"),
        (b'{"type": "A", "data": 1, "tags": "x"}', "tags are a list"),
        (b'{"type": "A", "data": 1, "id": "x"}', "UUID"),
        (b'{"type": "A", "data": 1, "key": 5}', "a key is text"),
        (b'{"type": "A", "data": "%s"}' % (b"x" * 2_000_000), "limit is 1,048,576"),
    ],
)
def test_a_line_that_is_no_event_is_named_by_its_number(tmp_path: Path, line: bytes, why: str) -> None:
    good = b'{"type": "A", "data": 1}'
    pieces = stage_lines([*split([good, b"", line]), *split([good, line], block=90)], tmp_path)
    with pytest.raises(InvalidEvent) as refused:
        refuse_bad(origins(pieces, None))

    assert str(refused.value).startswith(
        "2 of 5 are no events, so nothing was written. /data/a.ndjson line 3: "
    )
    assert "; /data/a.ndjson line 5: " in str(refused.value)
    assert why in str(refused.value)


def test_only_the_first_wrong_lines_are_told(tmp_path: Path) -> None:
    pieces = [stage_lines(split([b"?"] * 900, block=block), tmp_path)[0] for block in (0, 7)]
    with pytest.raises(InvalidEvent, match=r"^1,800 of 1,800 .* line 5: ") as refused:
        refuse_bad(origins(pieces, None))

    assert str(refused.value).count("line ") == 5
    assert sum(len(piece.refusals) for piece in pieces) == 10


def test_a_line_without_id_gets_one_of_its_file_and_line_however_the_file_is_split(tmp_path: Path) -> None:
    lines = [b'{"type": "A", "data": %d}' % n for n in range(100)]
    whole = staged(stage_lines(split(lines), tmp_path))
    parts = [*split(lines[60:], block=60), *split(lines[:20]), *split(lines[20:60], block=20)]
    split_up = staged(stage_lines(parts, tmp_path))
    elsewhere = staged(stage_lines(split(lines, "file:///other.ndjson"), tmp_path))

    assert [one.event for one in split_up] == [one.event for one in whole]
    assert len({one.event.id for one in whole}) == 100
    assert {one.event.id for one in whole}.isdisjoint(one.event.id for one in elsewhere)


def test_under_a_name_files_may_be_anywhere(tmp_path: Path) -> None:
    lines = [b'{"type": "A", "data": %d}' % n for n in range(10)]
    one = staged(stage_lines(split(lines), tmp_path), "orders")
    moved = staged(stage_lines(split(lines, "file:///other.ndjson"), tmp_path), "orders")
    other = staged(stage_lines(split(lines), tmp_path), "invoices")

    assert [each.event for each in one] == [each.event for each in moved]
    assert {each.event.id for each in one}.isdisjoint(each.event.id for each in other)


def test_when_an_event_was_recorded_first_can_be_kept(tmp_path: Path) -> None:
    with Place("memory:").connect() as store:
        store.append([Event("A", 1), Event("A", 2, metadata={"since": "earlier"})])
        lines = list(store.read().ndjson())
        when = [json.loads(line)["recorded_at"] for line in lines]
    kept = staged(stage_lines(split(lines), tmp_path, original_time="since"))
    plain = staged(stage_lines(split(lines), tmp_path))

    assert [one.event.metadata["since"] for one in kept] == [when[0], "earlier"]
    assert plain[0].event.metadata == {}


def test_the_same_event_twice_counts_once_and_another_with_its_id_is_refused(tmp_path: Path) -> None:
    one, other = Event("A", 1), Event("B", 1)
    line = one.to_json().encode()
    twice = staged(stage_lines(split([line, b"", line]), tmp_path))
    assert [each.event for each in first_of_each(twice)] == [one]

    rival = msgspec.json.encode({"id": str(one.id), "type": other.type, "data": 1})
    with pytest.raises(EventIdConflict, match=r"a.ndjson line 2 has the id .* line 1 has this id, too"):
        first_of_each(staged(stage_lines(split([line, rival]), tmp_path)))


def test_what_a_task_tells_the_driver_survives_the_way(tmp_path: Path) -> None:
    pieces = stage_lines(split([b'{"type": "A", "data": 1}', b"?"]), tmp_path)
    assert msgspec.json.decode(msgspec.json.encode(pieces), type=list[Piece]) == pieces
