"""Typed ids and events: what they write is what untyped code would have written."""

from __future__ import annotations

from random import Random
from uuid import UUID

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


def test_ids_of_two_kinds_are_two_things_even_in_a_set() -> None:
    assert Isbn("1") != Id("1")
    assert not Isbn("1") == Id("1")  # noqa: SIM201
    assert len({Isbn("1"), Id("1"), Isbn("1")}) == 2
    assert Isbn("1") == Isbn("1") == "1"
    assert Isbn("1") != "2"
    assert Isbn("1") != 1


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
        Grouped(students=["s1"]).to_event()  # type: ignore[list-item]
    assert caught.value.hint == "write StudentId('s1')"


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
        with pytest.raises(InvalidEvent, match="a value of the type Random has no JSON form"):
            store.append(Loose(what=Random()))
        with pytest.raises(InvalidEvent, match="no NaN"):
            store.append(Loose(what=[float("nan")]))
        assert Loose(what={"a": [None]}).to_event().json() == {"what": {"a": [None]}}
        assert store.head() == 0


def test_data_that_does_not_fit_the_class_says_what_to_do() -> None:
    with pytest.raises(InvalidEvent, match="capacity") as caught:
        CourseDefined.from_event(Event("CourseDefined", {"course": "c1"}))
    assert "default" in caught.value.hint
