"""A rule is asked about events, on the driver and on executors: what is missing, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import academy
import pyarrow as pa
import pytest
import rules

from places import Place
from strandline import Event, InvalidInput, SequencedEvent
from strandline.spark.retagging.looking import Looking, missing_in
from strandline.spark.retagging.rule import NamedRule

KINDS = {
    "position": pa.int64(),
    "type": pa.string(),
    "tags": pa.list_(pa.string()),
    "data": pa.binary(),
    "id": pa.string(),
    "metadata": pa.map_(pa.string(), pa.string()),
    "stream": pa.string(),
    "subject": pa.string(),
    "recorded_at": pa.timestamp("us", "UTC"),
}


def log(*events: Event) -> list[SequencedEvent]:
    with Place("memory:").connect() as store:
        store.append(events)
        return list(store.read())


def batch(events: list[SequencedEvent]) -> pa.RecordBatch:
    """Events as the source hands them over."""
    columns: dict[str, list[Any]] = {name: [getattr(event, name) for event in events] for name in KINDS}
    columns |= {
        "id": [str(event.id) for event in events],
        "metadata": [list(event.metadata.items()) for event in events],
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[n], k) for n, k in KINDS.items()], list(KINDS))


def look(rule: str, events: list[SequencedEvent], folder: Path) -> Any:
    return list(Looking.stage([batch(events)], str(folder), {"rule": rule}))


def test_only_tags_that_an_event_lacks_are_missing(tmp_path: Path) -> None:
    events = log(Event("A", 1, tags=["odd"]), Event("A", 2, tags=["n:2", "even"]), Event("A", 3))
    (piece,) = look("rules:parity", events, tmp_path)

    assert list(missing_in([piece])) == [(1, ("n:1",)), (3, ("n:3", "odd"))]
    assert (piece.rows, piece.staged, piece.refused) == (3, 2, 0)
    assert [NamedRule(rules.parity).missing_tags(event) for event in events] == [("n:1",), (), ("n:3", "odd")]


def test_a_rule_sees_on_executors_what_it_sees_in_process(tmp_path: Path) -> None:
    event = Event("A", {"ä": 1}, stream="s", subject="x", metadata={"user": "ada"})
    events = log(event, Event("A", 2))
    pieces = look("rules:everything", events, tmp_path)
    rule = NamedRule("rules:everything")

    assert dict(missing_in(pieces)) == {one.position: rule.missing_tags(one) for one in events}


def test_a_rule_can_use_the_typed_events(tmp_path: Path) -> None:
    typed = academy.StudentSubscribed(student=academy.StudentId("s1"), course=academy.CourseId("c1"))
    untagged = Event("StudentSubscribed", typed.to_event().data)
    pieces = look("rules:of_course", log(untagged, Event("A", 1)), tmp_path)
    ((position, (course, month)),) = missing_in(pieces)
    assert (position, course) == (1, "course:c1")
    assert month.startswith("month:20")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("rules:fails", "raised ZeroDivisionError: division by zero"),
        ("rules:one_text", "returned no tags: tags are a list, not str"),
        ("rules:reserved", "returned no tags: a tag that starts with '$' is reserved"),
        ("rules:too_many", "would give it 65 tags, and the limit is 64"),
    ],
)
def test_what_is_wrong_with_a_rule_names_the_event(tmp_path: Path, rule: str, why: str) -> None:
    (piece,) = look(rule, log(Event("A", 1_500)), tmp_path)
    assert piece.refused == 1
    assert f"the rule {rule} {why}" in piece.refusals[0].why
    assert "(at the event A at position 1)" in piece.refusals[0].why
    assert piece.staged == 0


@pytest.mark.parametrize(
    "rule", ["rules:nothing", "rules:NO_FUNCTION", "nowhere:parity", "rules", "", lambda _: []]
)
def test_a_rule_that_cannot_be_imported_is_refused(rule: Any) -> None:
    with pytest.raises(InvalidInput):
        NamedRule(rule)


def test_the_stores_own_events_are_left_alone(tmp_path: Path) -> None:
    with Place("memory:").connect() as store:
        store.append(Event("A", 1))
        store.retag([1], add=["x"])
        events = list(store.read())
    pieces = look("rules:parity", events, tmp_path)
    assert [position for position, _ in missing_in(pieces)] == [1]
