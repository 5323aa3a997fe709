"""Names that come later or again: notebooks, reloads, functions, and modules whose order is as it is."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from enrolment import CourseId, StudentId

import strandline
from strandline import DomainEvent, EventStore, InvalidInput, Projection, TagId, command, on
from strandline.domain.shape import shape_of

if TYPE_CHECKING:
    from decimal import Decimal

IDS = """
from strandline import DomainEvent, Projection, TagId, command, on
class CourseId(TagId): ...
"""
EVENTS = """
class Defined(DomainEvent):
    course: CourseId
    seats: int
class Taken(DomainEvent):
    course: CourseId
"""
PROJECTION = """
class Course(Projection):
    id: CourseId
    seats: int = 0
    @on
    def defined(self, event: Defined) -> None:
        self.seats = event.seats
    @on
    def taken(self, event: Taken) -> None:
        self.seats -= 1
"""
COMMANDS = """
@command
def take(course: Course):
    if course.seats:
        yield Taken(course=course.id)
@command(commutative=True, guard=[Defined])
def take_all(courses: list[Course]):
    for course in courses:
        yield Taken(course=course.id)
"""
CELLS = {"ids": IDS, "events": EVENTS, "projection": PROJECTION, "commands": COMMANDS}
FUTURE = "from __future__ import annotations\n"


@pytest.fixture
def store() -> Iterator[EventStore]:
    with strandline.connect("memory:") as store:
        yield store


class Notebook:
    """Cells that are run in one namespace, as often as one likes."""

    def __init__(self, cells: dict[str, str], head: str) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self._cells = {name: head + text for name, text in cells.items()}
        self.run(*cells)

    def run(self, *cells: str) -> None:
        for name in cells:
            exec(compile(self._cells[name], f"<{name}>", "exec", dont_inherit=True), self.names)

    def __getattr__(self, name: str) -> Any:
        return self.names[name]


@pytest.mark.parametrize("head", ["", FUTURE], ids=["plain", "future"])
@pytest.mark.parametrize("again", [*CELLS, "all"])
def test_a_cell_may_be_run_again(again: str, head: str, store: EventStore) -> None:
    notebook = Notebook(CELLS, head)
    before = dict(notebook.names)
    store.append(notebook.Defined(course=notebook.CourseId("c1"), seats=9))
    assert store.execute(notebook.take, notebook.Course("c1")).count == 1
    notebook.run(*(CELLS if again == "all" else [again]))
    for take in (before["take"], notebook.take):
        for course in (before["Course"]("c1"), notebook.Course(before["CourseId"]("c1"))):
            assert store.execute(take, course).count == 1
    mixed = [before["Course"]("c1"), notebook.Course("c1")]
    assert store.execute(notebook.take_all, mixed).count == 2
    with store.boundary(*mixed) as boundary:
        boundary.append(before["Taken"](course=notebook.CourseId("c1")))
    assert store.project(notebook.Course("c1")).seats == 9 - 1 - 4 - 2 - 1
    assert before["CourseId"](notebook.CourseId("c1")) == "c1"


@pytest.mark.parametrize("head", ["", FUTURE], ids=["plain", "future"])
def test_a_changed_cell_is_what_counts(head: str, store: EventStore) -> None:
    notebook = Notebook(CELLS, head)
    store.append(notebook.Defined(course=notebook.CourseId("c1"), seats=9))
    exec(compile(head + PROJECTION.replace("-= 1", "-= 2"), "<edited>", "exec"), notebook.names)
    store.execute(notebook.take, notebook.Course("c1"))
    assert store.project(notebook.Course("c1")).seats == 7


def test_a_cell_may_name_what_a_later_cell_defines(store: EventStore) -> None:
    cells = {name: CELLS[name] for name in ("commands", "projection", "events", "ids")}
    imports = "from strandline import DomainEvent, Projection, TagId, command, on\n"
    cells["commands"] = COMMANDS.replace(", guard=[Defined]", "")
    notebook = Notebook(cells, FUTURE + imports)
    store.append(notebook.Defined(course=notebook.CourseId("c1"), seats=1))
    assert store.execute(notebook.take, notebook.Course("c1")).count == 1
    assert store.project(notebook.Course("c1")).seats == 0


def test_a_state_may_be_of_a_type_that_is_defined_later() -> None:
    early = IDS + "import msgspec\n" + EVENTS + PROJECTION.replace("seats: int = 0", "seats: list[Seat] = []")
    notebook = Notebook({"early": early, "late": "class Seat(msgspec.Struct):\n    row: int\n"}, FUTURE)
    assert shape_of(notebook.Course).fields == {"id": notebook.CourseId, "seats": list[notebook.Seat]}
    wrong = early.replace("def defined(self, event: Defined)", "def defined(self, event)")
    with pytest.raises(InvalidInput, match="does not say which events it takes"):
        Notebook({"wrong": wrong}, FUTURE)


@pytest.fixture
def school(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "reloaded_school.py").write_text(FUTURE + IDS + EVENTS + PROJECTION)
    (tmp_path / "reloaded_commands.py").write_text(
        FUTURE + "from strandline import command\nfrom reloaded_school import *\n" + COMMANDS
    )
    yield importlib.import_module("reloaded_school")
    for name in ("reloaded_school", "reloaded_commands"):
        sys.modules.pop(name, None)


def test_a_module_may_be_reloaded_while_others_keep_its_old_classes(
    school: ModuleType, store: EventStore
) -> None:
    commands = importlib.import_module("reloaded_commands")
    old = school.Course
    store.append(school.Defined(course=school.CourseId("c1"), seats=3))
    importlib.reload(school)
    assert school.Course is not old
    assert commands.Course is old
    assert store.execute(commands.take, school.Course("c1")).count == 1
    assert store.execute(commands.take, commands.Course(school.CourseId("c1"))).count == 1
    assert store.execute(commands.take_all, [school.Course("c1"), old("c1")]).count == 2
    importlib.reload(commands)
    assert store.execute(commands.take_all, [school.Course("c1"), old("c1")]).count == 2
    with store.boundary(school.Course("c1"), old("c1")) as boundary:
        assert [state.seats for state in boundary.states] == [-3, -3]


def test_classes_inside_a_function_know_each_other(store: EventStore) -> None:
    class RoomId(TagId): ...

    class Opened(DomainEvent):
        room: RoomId
        rooms: list[RoomId] = []

    class Room(Projection):
        id: RoomId
        opened: int = 0

        @on
        def on_opened(self, event: Opened) -> None:
            self.opened += 1

    @command
    def open_room(room: Room, others: list[Room]) -> Iterator[Opened]:
        yield Opened(room=room.id, rooms=[other.id for other in others])

    @command(commutative=True, guard=[Opened])
    def open_again(room: Room) -> Iterator[Opened]:
        yield Opened(room=room.id)

    assert store.execute(open_room.with_options(attempts=2), Room("r1"), [Room("r2")]).count == 1
    assert store.execute(open_again, room="r1").count == 1  # type: ignore[arg-type]
    assert (store.project(Room("r1")).opened, store.project(Room("r2")).opened) == (2, 1)

    def elsewhere() -> Projection:
        class Suite(Room):
            stars: int = 0

        return store.project(Suite("r1"))

    assert vars(elsewhere()) == {"id": "r1", "opened": 2, "stars": 0}


def test_what_only_type_checkers_see_does_not_matter_where_it_is_not_needed(store: EventStore) -> None:
    class Opened(DomainEvent):
        course: CourseId

    class Account(Projection):
        id: CourseId
        balance: Decimal | None = None
        limit: ClassVar[Decimal | None] = None

        @on
        def opened(self, event: Opened, recorded: Decimal) -> Decimal:  # type: ignore[type-var]
            return recorded

    @command
    def open_account(account: Account) -> Iterator[Decimal]:
        yield Opened(course=account.id)  # type: ignore[misc]

    assert store.execute(open_account, Account("a1")).count == 1
    assert vars(store.project(Account("a1"))) == {"id": "a1", "balance": None}


def test_a_name_that_never_comes_is_told_at_the_first_use(store: EventStore) -> None:
    class Lost(DomainEvent):
        course: CourseId
        price: Decimal

    class Seats(Projection):
        id: CourseId

        @on
        def lost(self, event: Lost) -> None: ...

    @command
    def lose(seats: Seats, price: Decimal) -> Iterator[Lost]:
        yield Lost(course=seats.id, price=price)

    for use in (
        lambda: Lost(course=CourseId("c1"), price=None).to_event(),  # type: ignore[arg-type]
        lambda: Seats("c1"),
        lambda: store.execute(lose, "c1", 3),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput, match="name 'Decimal' is not defined") as caught:
            use()
        assert "not only for type checkers" in caught.value.hint
    assert store.head() == 0


def test_a_mistake_that_a_later_name_hid_is_told_at_the_first_use() -> None:
    seats = "class Seats(Projection):\n    id: CourseId\n    later: Later\n"
    notebook = Notebook({"ids": IDS, "seats": seats}, FUTURE)
    with pytest.raises(InvalidInput, match="name 'Later' is not defined"):
        notebook.Seats("c1")
    notebook.names["Later"] = int
    with pytest.raises(InvalidInput, match=r"Seats\.later has no default"):
        notebook.Seats("c1")


def test_another_class_of_the_same_name_elsewhere_is_another_class() -> None:
    names: dict[str, Any] = {"__name__": "elsewhere"}
    exec(compile(IDS, "<elsewhere>", "exec"), names)
    with pytest.raises(InvalidInput, match="is not a CourseId"):
        CourseId(names["CourseId"]("c1"))
    with pytest.raises(InvalidInput, match="is not a CourseId"):
        CourseId(StudentId("c1"))
