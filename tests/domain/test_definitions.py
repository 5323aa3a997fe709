"""Mistakes in classes and commands are told where they are made, with the line to write instead."""

from __future__ import annotations

import dataclasses
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import msgspec
import pytest
from enrolment import (
    CapacityChanged,
    Course,
    CourseDefined,
    CourseId,
    InvoiceWritten,
    Student,
    StudentId,
    StudentSubscribed,
)

import strandline
from strandline import DomainEvent, Event, InvalidInput, Projection, Query, TagId, command, on, upcast

Define = Callable[[], Any]
MISTAKES: list[Any] = []


def mistake(told: str, hint: str) -> Callable[[Define], Define]:
    """A definition that is refused with these words."""

    def keep(define: Define) -> Define:
        MISTAKES.append(pytest.param(define, told, hint, id=define.__name__))
        return define

    return keep


class OtherCourseId(TagId, prefix="course"): ...


class OtherDefined(DomainEvent, type="CourseDefined"):
    number: int


class OtherRenamed(DomainEvent):
    course: OtherCourseId


class Line(msgspec.Struct):
    course: CourseId


@dataclasses.dataclass
class Seat:
    course: CourseId


class Pair(NamedTuple):
    course: CourseId
    seats: int


class Tree(msgspec.Struct):
    label: str
    branches: list[Tree] = []


# Projections.


@mistake("Seats.capacity has no default, and is not a TagId", r"capacity: int = ….*class SeatsId\(TagId\)")
def a_field_without_a_default() -> None:
    class Seats(Projection):
        id: CourseId
        capacity: int


@mistake("Seats.ids has no default", "ids: list")
def a_key_that_is_a_list() -> None:
    class Seats(Projection):
        ids: list[CourseId]


@mistake("Seats.id has no default", "before the first event")
def a_key_of_no_kind() -> None:
    class Seats(Projection):
        id: TagId


@mistake(
    r"Seats.changed \(.*test_definitions.py:\d+\) takes an event, but is not marked", "write @on above it"
)
def a_handler_that_is_not_marked() -> None:
    class Seats(Projection):
        id: CourseId
        taken: bool = False

        @on
        def defined(self, event: CourseDefined) -> None: ...

        def changed(self, event: CapacityChanged) -> None: ...


@mistake("Seats.query hides what every projection has", "query_id")
def a_field_with_the_name_of_a_method() -> None:
    class Seats(Projection):
        query: CourseId


@mistake(r"Seats.taken \(.*test_definitions.py:\d+\) has the name of a field", "on_taken")
def a_handler_with_the_name_of_a_field() -> None:
    class Seats(Projection):
        taken: bool = False

        @on
        def taken(self, event: CapacityChanged) -> None: ...  # noqa: F811


@mistake("has a field", r"students: list\[str\] = \[\]")
def a_default_that_is_a_dataclass_field() -> None:
    class Seats(Projection):
        students: list[str] = dataclasses.field(default_factory=list)


@mistake(r"changed \(.*test_definitions.py:\d+\) does not say which events it takes", "event: CourseDefined")
def a_handler_without_annotation() -> None:
    class Seats(Projection):
        @on
        def changed(self, event) -> None: ...


@mistake("does not say which events it takes: it is annotated with int", "event: CourseDefined")
def a_handler_of_something_else() -> None:
    class Seats(Projection):
        @on
        def changed(self, event: CapacityChanged | int) -> None: ...


@mistake("does not say which events it takes: it is annotated with DomainEvent", "event: CourseDefined")
def a_handler_of_any_event() -> None:
    class Seats(Projection):
        @on
        def changed(self, event: DomainEvent) -> None: ...


@mistake("is not annotated with a type: unsupported operand", r"correct event: CapacityChanged \| 3")
def a_handler_annotated_with_nonsense() -> None:
    class Seats(Projection):
        @on
        def changed(self, event: CapacityChanged | 3) -> None: ...  # type: ignore[valid-type]


@mistake("takes 3 parameters", "event, recorded")
def a_handler_with_too_many_parameters() -> None:
    class Seats(Projection):
        @on
        def changed(self, event: CapacityChanged, recorded: Any, more: Any) -> None: ...


@mistake("takes 2 parameters", "event, recorded")
def a_handler_that_cannot_be_called_with_the_recorded_event() -> None:
    class Seats(Projection):
        @on
        def changed(self, event: CapacityChanged, *, recorded: Any) -> None: ...


@mistake("is no plain method", "without staticmethod, async or yield")
def a_handler_that_yields() -> None:
    class Seats(Projection):
        @on
        def changed(self, event: CapacityChanged) -> Any:
            yield event


@mistake("is no plain method", "without staticmethod")
def a_handler_that_is_static() -> None:
    class Seats(Projection):
        @staticmethod
        @on
        def changed(self, event: CapacityChanged) -> None: ...  # noqa: PLW0211


@mistake("@on takes event classes, not int", r"@on\(CourseDefined\)")
def a_handler_of_a_class_that_is_no_event() -> None:
    on(int)  # type: ignore[call-overload]


@mistake("handles CapacityChanged twice: in one and two", "in one method")
def an_event_that_is_handled_twice() -> None:
    class Seats(Projection):
        @on
        def one(self, event: CapacityChanged) -> None: ...
        @on
        def two(self, event: CapacityChanged) -> None: ...


@mistake("Sub.changed hides the handler Base.changed", "@on above it")
def a_method_that_hides_a_handler() -> None:
    class Base(Projection):
        @on
        def changed(self, event: CapacityChanged) -> None: ...

    class Sub(Base):
        def changed(self, event: CapacityChanged) -> None: ...


@mistake(
    "enrolment.CourseDefined and test_definitions.OtherDefined both have the event type 'CourseDefined'",
    r"class OtherDefined\(…, type=",
)
def two_events_with_one_type_name_in_a_projection() -> None:
    class Seats(Projection):
        @on
        def changed(self, event: CourseDefined | OtherDefined) -> None: ...


@mistake("both have the tag prefix 'course'", "prefix=")
def two_kinds_of_id_with_one_prefix_in_a_projection() -> None:
    class Seats(Projection):
        id: OtherCourseId

        @on
        def changed(self, event: CapacityChanged) -> None: ...


# Ids and events.


@mistake("'a:b' cannot be the prefix", "without a colon")
def a_prefix_with_a_colon() -> None:
    class Odd(TagId, prefix="a:b"): ...


@mistake("starts with '\\$' is reserved", "another character")
def a_reserved_prefix() -> None:
    class Odd(TagId, prefix="$course"): ...


@mistake("cannot be the prefix", "short")
def a_prefix_that_leaves_no_room() -> None:
    class Odd(TagId, prefix="x" * 255): ...


@mistake("no control characters", "remove")
def a_prefix_with_a_control_character() -> None:
    class Odd(TagId, prefix="a\n"): ...


@mistake("a type that starts with '\\$' is reserved", "another character")
def a_reserved_type() -> None:
    class Odd(DomainEvent, type="$retagged"): ...


@mistake("no control characters", "remove")
def a_type_with_a_control_character() -> None:
    class Odd(DomainEvent, type="a\x00"): ...


@mistake("1 to 256 characters", "shorten")
def a_type_that_is_too_long() -> None:
    class Odd(DomainEvent, type="x" * 257): ...


@mistake("unknown option: tag", "type=, version= and stream=")
def an_option_that_is_none() -> None:
    class Odd(DomainEvent, tag="x"):  # type: ignore[call-arg]
        number: int


@mistake("hides what every event has", "to_event_")
def a_field_that_hides_a_method() -> None:
    class Odd(DomainEvent):
        to_event: str  # type: ignore[assignment]


@mistake("both have the tag prefix 'course'", "prefix=")
def two_kinds_of_id_with_one_prefix_in_an_event() -> None:
    class Odd(DomainEvent):
        course: CourseId
        other: OtherCourseId


@mistake("Odd.source: a Random cannot be read from JSON", "a type that has a JSON form")
def a_field_without_a_json_form() -> None:
    class Odd(DomainEvent):
        source: random.Random


@mistake("Odd.place: a Path cannot be read from JSON", "a type that has a JSON form")
def a_field_without_a_json_form_deep_inside() -> None:
    class Odd(DomainEvent):
        place: dict[str, list[Path]]


@mistake("Odd cannot be read from JSON", "a type that has a JSON form")
def a_union_that_json_cannot_tell_apart() -> None:
    class Odd(DomainEvent):
        who: StudentId | CourseId


@mistake("Odd.id: a TagId cannot be read", "give it a kind")
def an_id_of_no_kind() -> None:
    class Odd(DomainEvent):
        id: TagId


@pytest.mark.parametrize(
    ("kind", "inside"),
    [
        (list[Line], "Line"),
        (Seat, "Seat"),
        (Pair | None, "Pair"),
        (dict[str, CourseId], "a dict"),
        (dict[CourseId, int], "a dict"),
        (list[CourseId] | str, "a union"),
        (tuple[CourseId, int], "a tuple of several types"),
    ],
)
def test_an_id_where_it_would_be_no_tag_is_refused(kind: Any, inside: str) -> None:
    with pytest.raises(InvalidInput, match=f"Odd.what: a CourseId in {inside} would be no tag") as caught:
        type("Odd", (DomainEvent,), {"__annotations__": {"what": kind}})
    assert "courses: list[CourseId]" in caught.value.hint


@mistake("the version of Odd is a whole number from 1, not 0", "version=2")
def a_version_that_is_none() -> None:
    class Odd(DomainEvent, version=0): ...


@mistake("nothing turns version 2 into the next", r"@upcast\(2\)")
def an_upcast_that_is_missing() -> None:
    class Odd(DomainEvent, version=3):
        @staticmethod
        @upcast(1)
        def _(data: Any) -> Any: ...


@mistake(r"has version 1 and upcasts from \[1\]", "raise version= to 2")
def an_upcast_to_a_version_that_does_not_exist() -> None:
    class Odd(DomainEvent):
        @staticmethod
        @upcast(1)
        def _(data: Any) -> Any: ...


@mistake(r"has version 2 and upcasts from \[1, 1\]", "one for each version")
def two_upcasts_of_one_version() -> None:
    class Odd(DomainEvent, version=2):
        @staticmethod
        @upcast(1)
        def one(data: Any) -> Any: ...
        @staticmethod
        @upcast(1)
        def two(data: Any) -> Any: ...


@mistake("the stream of Odd cannot be 'curse'", r"no list \(course\)")
def a_stream_by_no_field() -> None:
    class Odd(DomainEvent, stream="curse"):
        course: CourseId
        students: list[StudentId]


@mistake("the stream of Odd cannot be 'students'", r"\(course\)")
def a_stream_by_a_list() -> None:
    class Odd(DomainEvent, stream="students"):
        course: CourseId
        students: list[StudentId]


@mistake("the stream of Odd cannot be 'course'", r"\(none\)")
def a_stream_by_an_optional_field() -> None:
    class Odd(DomainEvent, stream="course"):
        course: CourseId | None


@mistake("the stream of Odd cannot be 'name'", r"\(none\)")
def a_stream_by_a_text() -> None:
    class Odd(DomainEvent, stream="name"):
        name: str


# Commands.


@mistake(r"the parameter course of .*\(.*test_definitions.py:\d+\) has no type", "course: Course")
def a_parameter_without_a_type() -> None:
    @command
    def odd(course) -> Any: ...


@mistake("is an event: neither a projection nor a value", "folded from such events")
def a_parameter_that_is_an_event() -> None:
    @command
    def odd(course: Course, event: CapacityChanged) -> Any: ...


@mistake("is an event: neither a projection nor a value", "folded from such events")
def a_parameter_of_untyped_events() -> None:
    @command
    def odd(course: Course, events: list[Event] | None) -> Any: ...


@mistake(r"the parameter \*courses of odd", r"courses: list\[Course\]")
def a_parameter_for_any_number_of_arguments() -> None:
    @command
    def odd(*courses: Course) -> Any: ...


@mistake(r"the parameter \*\*more of odd", r"without \* and /")
def a_parameter_for_any_names() -> None:
    @command
    def odd(course: Course, **more: int) -> Any: ...


@mistake("is not one named argument", "course: Course")
def a_parameter_without_a_name() -> None:
    @command
    def odd(course: Course, /) -> Any: ...


@mistake("neither a projection nor a value: ", "course: Course, or course: list")
def an_optional_projection() -> None:
    @command
    def odd(course: Course | None) -> Any: ...


@mistake("neither a projection nor a value", r"list\[Course\] for any number")
def a_dict_of_projections() -> None:
    @command
    def odd(courses: dict[str, Course]) -> Any: ...


@mistake("neither a projection nor a value", "course: Course")
def a_choice_of_projections() -> None:
    @command
    def odd(course: Course | Student) -> Any: ...


@mistake("neither a projection nor a value", "course: Course")
def a_list_of_lists_of_projections() -> None:
    @command
    def odd(course: list[list[Course]]) -> Any: ...


@mistake("is async: a decision waits for nothing", "def odd")
def a_command_that_waits() -> None:
    @command
    async def odd(course: Course) -> Any: ...


@mistake("the default of Locked.lock cannot be copied", "write None")
def a_default_that_cannot_be_copied() -> None:
    class Locked(Projection):
        id: CourseId
        lock: Any = threading.Lock()


@mistake("a command is a function", "@command def")
def a_command_that_is_a_class() -> None:
    command(Course)  # type: ignore[call-overload]


@mistake("guard takes event classes, not Course", r"guard=\[CourseClosed\]")
def a_guard_that_is_no_event() -> None:
    @command(commutative=True, guard=[Course])  # type: ignore[list-item]
    def odd(course: Course) -> Any: ...


@mistake("guards are a list", "write")
def a_guard_that_is_no_list() -> None:
    @command(commutative=True, guard=CapacityChanged)  # type: ignore[arg-type]
    def odd(course: Course) -> Any: ...


@mistake("guard is for commutative commands", "commutative=True")
def a_guard_of_a_command_that_has_a_condition() -> None:
    @command(guard=[CapacityChanged])
    def odd(course: Course) -> Any: ...


class OtherCourse(Projection):
    @on
    def defined(self, event: OtherDefined) -> None: ...


class Renaming(Projection):
    id: OtherCourseId

    @on
    def renamed(self, event: OtherRenamed) -> None: ...


@mistake(
    r"odd \(.*test_definitions.py:\d+\): .*CourseDefined and .*OtherDefined both have the event type", "type="
)
def two_events_with_one_type_name_in_a_command() -> None:
    @command
    def odd(course: Course, others: list[OtherCourse]) -> Any: ...


@mistake("both have the tag prefix 'course'", "prefix=")
def two_kinds_of_id_with_one_prefix_in_a_command() -> None:
    @command
    def odd(course: Course, renaming: Renaming) -> Any: ...


@mistake("both have the event type 'CourseDefined'", "type=")
def a_guard_with_the_type_name_of_another_event() -> None:
    @command(commutative=True, guard=[OtherDefined])
    def odd(course: Course) -> Any: ...


@mistake("Shared.seen is one list for all states", r"seen: list\[…\] = …")
def a_list_without_a_type() -> None:
    class Shared(Projection):
        id: CourseId
        seen = []


@mistake("Below.by_day is one dict for all states", "ClassVar")
def a_dict_of_a_base_class_without_a_type() -> None:
    class Below:
        by_day = {}

    class Above(Below, Projection):
        id: CourseId


@mistake("Odd has options that a projection has not", "last_only=True, version=2")
def an_unknown_option_of_a_projection() -> None:
    class Odd(Projection, foo=1):
        id: CourseId


@mistake("Odd has options that a projection has not", "last_only=True, version=2")
def a_version_that_is_text() -> None:
    class Odd(Projection, version="2"):
        id: CourseId


@mistake("both have the event type 'CourseDefined'", "use one class for both")
def a_command_that_gives_another_class_of_a_type() -> None:
    @command
    def define(course: Course) -> Iterator[OtherDefined]:
        yield OtherDefined(number=1)


@mistake("both have the tag prefix 'course'", "use one class for both")
def a_command_that_gives_events_with_another_kind_of_id() -> None:
    @command
    def rename(course: Course) -> list[StudentSubscribed | OtherRenamed]:
        return []


@mistake("Own has an __init__ of its own", r"seen: set\[str\] = set\(\)")
def a_projection_that_begins_by_itself() -> None:
    class Own(Projection):
        id: CourseId

        def __init__(self, key: str) -> None:
            self.seen: set[str] = set()


@mistake("Own has an __init__ of its own", "no __init__, __new__ or @dataclass")
def a_projection_that_was_made_a_dataclass() -> None:
    @dataclasses.dataclass
    class Own(Projection):
        id: CourseId

        @on
        def defined(self, event: CourseDefined) -> None: ...

    @command
    def ask(own: Own) -> Any: ...


@mistake("the upcast Old.more is a class method", r"@staticmethod above @upcast\(1\)")
def an_upcast_that_is_a_class_method() -> None:
    class Old(DomainEvent, version=2):
        @classmethod
        @upcast(1)
        def more(cls, data: dict[str, Any]) -> dict[str, Any]:
            return data


@mistake("Odd has an unknown option: name", "type=, version= and stream=")
def an_event_with_a_name() -> None:
    class Odd(DomainEvent, name="odd"):
        course: CourseId


@mistake("depends on nothing: none of its parameters is a projection", "course: Course")
def a_command_without_projections() -> None:
    @command
    def note(text: str) -> Any: ...


@mistake("asks for a Projection, which handles no event", r"class Course\(Projection\)")
def a_command_that_asks_for_any_projection() -> None:
    @command
    def odd(state: Projection) -> Any: ...


@mistake("asks for an Idle, which handles no event", "add a method to Idle: @on")
def a_command_that_asks_for_what_handles_no_event() -> None:
    class Idle(Projection):
        id: CourseId

    @command
    def odd(idle: Idle) -> Any: ...


@mistake(r"Folded\.defined \(.*\) returns a new Folded, which would be lost", "write def defined")
def a_handler_that_returns_a_new_state() -> None:
    class Folded(Projection):
        id: CourseId
        capacity: int = 0

        @on
        def defined(self, event: CourseDefined) -> Folded:
            return Folded(self.id)


@mistake("returns a new Folded, which would be lost", "write def defined")
def a_handler_that_returns_itself() -> None:
    class Folded(Projection):
        id: CourseId

        @on
        def defined(self, event: CourseDefined) -> Self:
            return self


@mistake("the command name 'order:cancel' has a colon", 'name="order.cancel"')
def a_command_name_that_could_be_another_ones_key() -> None:
    @command(name="order:cancel")
    def cancel(course: Course) -> Any: ...


@pytest.mark.parametrize(("define", "told", "hint"), MISTAKES)
def test_a_mistake_is_told_where_it_is_made(define: Define, told: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        define()
    assert re.search(hint, caught.value.hint)


def test_what_is_unusual_but_right_is_no_mistake() -> None:
    class Unusual(DomainEvent, type="unusual", stream="main"):
        main: Annotated[CourseId, msgspec.Meta(description="the course")]
        more: frozenset[CourseId] | None = None
        pairs: list[tuple[CourseId, CourseId]] = []
        tree: Tree | None = None
        anything: object = None
        tags: list[str] = []  # a name like another
        type: str = ""
        known: ClassVar[int] = 3

    class Base(Projection):
        id: CourseId
        limit: ClassVar[int] = 3
        _hidden: int
        seen: list[datetime] = []

        def helps(self) -> int:
            return self.limit

    class Sub(Base):
        key_count: int = 0

        @on
        def unusual(self, event: Annotated[Unusual, "documented"]) -> None:
            self.key_count += 1

    @command
    def decide(
        course: Annotated[Course, "documented"],
        others: Sequence[Sub],
        kind: type[Course],
        accept: Callable[[StudentSubscribed], bool],
        *,
        title: str | None = None,
    ) -> Iterator[InvoiceWritten]:
        yield InvoiceWritten(number=len(others))

    event = Unusual(main=CourseId("c1"), pairs=[(CourseId("c2"), CourseId("c3"))], tags=["x"]).to_event()
    assert (event.stream, event.tags) == ("course:c1", ("course:c1", "course:c2", "course:c3"))
    assert vars(Sub("c1")) == {"id": "c1", "seen": [], "key_count": 0}
    assert [*decide(Course("c1"), [Sub("c1")], Course, lambda _: True)] == [InvoiceWritten(number=1)]


def test_events_may_share_methods_by_a_class_that_is_none() -> None:
    class Described:
        def described(self) -> str:
            return f"{type(self).__name__} happened"

    class Renamed(Described, DomainEvent):
        course: CourseId

    with strandline.connect("memory:") as store:
        store.append(Renamed(course=CourseId("c1")))
        (event,) = store.read(Query.tag("course:c1"))
        assert event.decode(Renamed).described() == "Renamed happened"


def test_private_fields_are_state_too() -> None:
    class Seats(Projection):
        KINDS: ClassVar = ["a", "b"]
        id: CourseId
        _free: set[str] = set()
        __twice: dict[str, int] = {}

        @on
        def subscribed(self, event: StudentSubscribed) -> None:
            self._free.add(event.student)
            self.__twice[event.student] = 2

    for _ in range(2):
        with strandline.connect("memory:") as store:
            store.append(StudentSubscribed(student=StudentId("s1"), course=CourseId("c1")))
            assert store.project(Seats("c1"))._free == {"s1"}
            other = store.project(Seats("c2"))
            assert vars(other) == {"id": "c2", "_free": set(), "_Seats__twice": {}}


def test_defaults_are_not_shared_whatever_they_are_in() -> None:
    class Pair(Projection):
        id: CourseId
        pair: tuple[list[str], list[str]] = ([], [])

        @on
        def defined(self, event: CourseDefined) -> None:
            self.pair[0].append("defined")

    with strandline.connect("memory:", decision_cache=0) as store:
        store.append(CourseDefined(course=CourseId("c1"), capacity=1))
        assert store.project(Pair("c1")).pair == (["defined"], [])
        assert store.project(Pair("c1")).pair == (["defined"], [])
    assert Pair("c2").pair == ([], [])


def test_a_projection_that_handles_nothing_can_be_a_base_but_not_be_used() -> None:
    class Nothing(Projection):
        id: CourseId

    with pytest.raises(InvalidInput, match="handles no event") as caught:
        Nothing("c1")
    assert "@on" in caught.value.hint
