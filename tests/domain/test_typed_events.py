"""Typed ids and events: what they write is what untyped code would have written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest
from enrolment import CourseDefined, CourseId, StudentId, StudentSubscribed

import strandline
from strandline import DomainEvent, Event, InvalidEvent, InvalidInput, Query, QueryItem, TagId, upcast


class HTTPRequestId(TagId): ...


class Isbn(TagId, prefix="book"): ...


class Id(TagId): ...


class Grouped(DomainEvent, type="grouped-v"):
    students: list[StudentId]
    course: CourseId | None = None
    note: str = ""


class Renamed(DomainEvent, type="Named", version=3):
    course: CourseId
    title: str
    seats: int

    @staticmethod
    @upcast(1)
    def _title(data: dict[str, object]) -> dict[str, object]:
        return {"course": data["course"], "title": data["name"]}

    @staticmethod
    @upcast(2)
    def _seats(data: dict[str, object]) -> dict[str, object]:
        return {**data, "seats": 10}


@pytest.mark.parametrize(
    ("tag_id", "tag"),
    [
        (CourseId("c1"), "course:c1"),
        (CourseId(7), "course:7"),
        (CourseId(UUID(int=1)), "course:00000000-0000-0000-0000-000000000001"),
        (HTTPRequestId("r"), "http_request:r"),
        (Isbn("1"), "book:1"),
        (Id("x"), "id:x"),
    ],
)
def test_a_tag_id_is_the_text_and_knows_its_tag(tag_id: TagId, tag: str) -> None:
    assert tag_id.tag == tag
    assert tag_id == tag.partition(":")[2]


def test_an_id_is_equal_to_its_text_and_so_to_any_id_with_that_text() -> None:
    texts: list[object] = ["1", Isbn("1"), Id("1")]
    assert all(one == other and hash(one) == hash(other) for one in texts for other in texts)
    assert {"1": "found"}[Isbn("1")] == "found"
    assert Isbn("1") != "2"
    assert Isbn("1") != 1


@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_set_of_ids_is_no_list_of_tags_for_it_may_have_lost_one(kind: Any) -> None:
    tags = kind([StudentId("1"), CourseId("1")])
    for take in (
        lambda: Event("A", {}, tags=tags),
        lambda: QueryItem(tags=tags),
        lambda: StudentSubscribed(student="s1", course="c1").to_event(tags=tags),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput, match="tags cannot be a set with ids in it") as refused:
            take()
        assert refused.value.hint == "write a list: tags=[CourseId(…), StudentId(…)]"
    assert Event("A", {}, tags=kind(["b", "a"])).tags == ("a", "b")
    assert Event("A", {}, tags=[StudentId("1"), CourseId("1")]).tags == ("course:1", "student:1")


def test_whatever_takes_a_tag_takes_a_tag_id_and_means_its_tag() -> None:
    assert Event("A", {}, tags=[CourseId("c1")]).tags == ("course:c1",)
    assert Query.tag(CourseId("c1")) == Query.tag("course:c1")
    assert QueryItem(types=[CourseDefined], tags=[CourseId("c1")]) == QueryItem(
        ["CourseDefined"], ["course:c1"]
    )


@pytest.mark.parametrize("value", ["", True, 1.5, None, StudentId("s1")])
def test_what_is_no_id_of_the_kind_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        CourseId(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("prefix", ["", "a:b", "$x"])
def test_a_prefix_that_cannot_begin_a_tag_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidInput):
        type("Odd", (TagId,), {}, prefix=prefix)
    with pytest.raises(InvalidInput):
        TagId("x")


def test_an_event_is_tagged_by_its_typed_fields() -> None:
    event = StudentSubscribed(student=StudentId("s1"), course=CourseId("c1")).to_event(tags=["term:1"])
    assert (event.type, event.tags) == ("StudentSubscribed", ("course:c1", "student:s1", "term:1"))
    assert event.json() == {"student": "s1", "course": "c1"}
    grouped = Grouped(students=[StudentId("s2"), StudentId("s1")], note="n")
    assert grouped.to_event().tags == ("student:s1", "student:s2")
    assert grouped.to_event().type == "grouped-v"
    with pytest.raises(InvalidEvent, match="in the place of a StudentId") as caught:
        Grouped(students=[CourseId("s1")]).to_event()  # type: ignore[list-item]
    assert caught.value.hint == "write StudentId(…)"


@pytest.mark.parametrize("value", ["7", 7, UUID(int=7)])
def test_what_an_id_is_made_of_becomes_the_id_in_an_event(value: Any) -> None:
    event = StudentSubscribed(student=value, course="c1")  # type: ignore[arg-type]
    assert type(event.student) is StudentId
    assert event == StudentSubscribed(student=StudentId(value), course=CourseId("c1"))
    assert event.to_event().tags == ("course:c1", f"student:{value}")
    assert event.to_event().json() == {"student": str(value), "course": "c1"}


def test_what_ids_are_made_of_become_ids_inside_lists_and_where_they_are_optional() -> None:
    event = Grouped(students=["s1", 2, StudentId("s3")], course="c1")  # type: ignore[list-item, arg-type]
    assert [type(student) for student in event.students] == [StudentId] * 3
    assert type(event.course) is CourseId
    assert event.to_event().tags == ("course:c1", "student:2", "student:s1", "student:s3")
    students = [StudentId("s1")]
    assert Grouped(students=students).students is students
    assert Grouped(students=[], course=None).course is None


@pytest.mark.parametrize("value", ["", True, 1.5, CourseId("s1")])
def test_what_is_no_id_is_refused_where_the_event_is_written(value: Any) -> None:
    with strandline.connect("memory:") as store:
        with pytest.raises(InvalidEvent):
            store.append(StudentSubscribed(student=value, course=CourseId("c1")))
        assert store.head() == 0


def test_a_decision_may_say_plain_values_for_ids() -> None:
    with strandline.connect("memory:") as store:
        store.append(CourseDefined(course="c1", capacity=1))  # type: ignore[arg-type]
        assert store.read(Query.tag("course:c1")).head == 1


def test_an_event_comes_back_as_it_was_written() -> None:
    written = Grouped(students=[StudentId("s1")], course=CourseId("c1"))
    with strandline.connect("memory:") as store:
        store.append([written, CourseDefined(course=CourseId("c1"), capacity=3)])
        grouped, defined = store.read()
        assert grouped.decode(Grouped) == written
        assert type(grouped.decode(Grouped).course) is CourseId
        assert defined.decode(CourseDefined).capacity == 3
        with pytest.raises(InvalidEvent, match="is not a Grouped"):
            defined.decode(Grouped)
        with pytest.raises(InvalidInput, match="DomainEvent"):
            defined.decode(int)


def test_older_versions_are_upcast_step_by_step() -> None:
    expected = Renamed(course=CourseId("c1"), title="Go", seats=10)
    assert Renamed.from_event(Event("Named", {"course": "c1", "name": "Go"})) == expected
    second = Event("Named", {"course": "c1", "title": "Go"}, metadata={"version": "2"})
    assert Renamed.from_event(second) == expected
    assert Renamed.from_event(expected.to_event()) == expected
    assert expected.to_event().metadata == {"version": "3"}
    with pytest.raises(InvalidEvent, match="knows up to 3"):
        Renamed.from_event(Event("Named", {}, metadata={"version": "4"}))
    with pytest.raises(InvalidEvent, match="version 1"):
        type("Torn", (DomainEvent,), {"__annotations__": {}}, version=2)


class Loose(DomainEvent):
    what: object = None


def test_a_field_without_a_json_form_is_refused_before_anything_is_written() -> None:
    with strandline.connect("memory:") as store:
        with pytest.raises(InvalidEvent, match=r"Loose\.what: a value of the type Random has no JSON form"):
            store.append(Loose(what=Random()))
        with pytest.raises(InvalidEvent, match="no NaN"):
            store.append(Loose(what=[float("nan")]))
        assert Loose(what={"a": [None]}).to_event().json() == {"what": {"a": [None]}}
        assert store.head() == 0


def test_data_that_does_not_fit_the_class_says_what_to_do() -> None:
    with pytest.raises(InvalidEvent, match="capacity") as caught:
        CourseDefined.from_event(Event("CourseDefined", {"course": "c1"}))
    assert "default" in caught.value.hint


class Slot(msgspec.Struct):
    at: datetime


@dataclass
class Break:
    begins: list[datetime]


class Planned(DomainEvent):
    course: CourseId
    starts_at: datetime | None = None
    ends_at: Annotated[datetime | None, "may be open"] = None
    slots: list[Slot] = []
    breaks: dict[str, Break] = {}
    notes: Any = None
    more: dict[str, object] = {}


NAIVE = datetime(2026, 12, 1, 20)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"starts_at": NAIVE}, "starts_at"),
        ({"ends_at": NAIVE}, "ends_at"),
        ({"slots": [Slot(NAIVE.replace(tzinfo=UTC)), Slot(NAIVE)]}, "slots[1].at"),
        ({"breaks": {"first": Break([NAIVE])}}, "breaks.first.begins[0]"),
        ({"notes": NAIVE}, "notes"),
        ({"more": {"since": [NAIVE]}}, "more.since[0]"),
    ],
)
def test_a_time_without_a_zone_is_refused_wherever_it_is_in_an_event(
    fields: dict[str, Any], path: str
) -> None:
    with strandline.connect("memory:") as store:
        with pytest.raises(InvalidEvent) as refused:
            store.append(Planned(course=CourseId("c1"), **fields))
        assert str(refused.value) == f"Planned.{path} is a time without a zone: 2026-12-01 20:00:00"
        assert "when.replace(tzinfo=UTC)" in refused.value.hint
        assert store.head() == 0


def test_a_time_with_a_zone_comes_back_as_the_same_instant() -> None:
    at = datetime(2026, 12, 1, 20, tzinfo=timezone(timedelta(hours=1)))
    event = Planned(
        course=CourseId("c1"),
        starts_at=at,
        slots=[Slot(at)],
        breaks={"a": Break([at])},
        more={"price": Decimal("1.5"), "at": at},
    )
    read = event.to_event().decode(Planned)
    assert (read.starts_at, read.slots, read.breaks) == (at, [Slot(at)], {"a": Break([at])})
    assert read.more == {"price": "1.5", "at": "2026-12-01T20:00:00+01:00"}


def test_an_event_with_a_time_without_a_zone_is_still_read() -> None:
    written = Event("Planned", {"course": "c1", "starts_at": "2026-12-01T20:00:00"}, tags=["course:c1"])
    assert written.decode(Planned).starts_at == NAIVE


def test_a_field_for_anything_has_json_values() -> None:
    for value in ({1: "a"}, {"a": {1, 2}}, b"x", object()):
        with pytest.raises(InvalidEvent, match=r"^Planned\.notes"):
            Planned(course=CourseId("c1"), notes=value).to_event()
