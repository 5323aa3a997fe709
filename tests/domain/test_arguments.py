"""What commands are called with: projections wherever they are named, and values that can be used several times."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Generic, List, Literal, NewType, TypeVar  # noqa: UP035

import pytest
from typing_extensions import TypeAliasType  # what `type Alias = …` makes from Python 3.12 on

import strandline
from strandline import DomainEvent, Event, EventStore, InvalidInput, Projection, Query, TagId, command, on


class BoxId(TagId): ...


class Filled(DomainEvent):
    box: BoxId
    number: int = 0


T = TypeVar("T")


class Box(Projection, Generic[T]):
    id: BoxId
    count: int = 0

    @on
    def filled(self, event: Filled) -> None:
        self.count += 1


class Plain(Projection):
    id: BoxId
    count: int = 0

    @on
    def filled(self, event: Filled) -> None:
        self.count += 1


AnyPlain = TypeVar("AnyPlain", bound=Plain)
AsText = TypeVar("AsText", bound="Plain")
Alias = TypeAliasType("Alias", Plain)
Aliases = TypeAliasType("Aliases", list[Alias])
Named = NewType("Named", Plain)


@command
def of_a_generic_class(box: Box[int]) -> Iterator[Filled]:
    yield Filled(box=box.id, number=box.count)


@command
def of_generic_classes(boxes: list[Box[int]]) -> Iterator[Filled]:
    yield Filled(box=boxes[0].id, number=boxes[0].count)


@command
def of_a_variable(box: AnyPlain) -> Iterator[Filled]:
    yield Filled(box=box.id, number=box.count)


@command
def of_a_variable_with_text(box: AsText) -> Iterator[Filled]:
    yield Filled(box=box.id, number=box.count)


@command
def of_an_alias(box: Alias) -> Iterator[Filled]:
    yield Filled(box=box.id, number=box.count)


@command
def of_aliases(boxes: Aliases) -> Iterator[Filled]:
    yield Filled(box=boxes[0].id, number=boxes[0].count)


@command
def of_variables(boxes: Sequence[AnyPlain]) -> Iterator[Filled]:
    yield Filled(box=boxes[0].id, number=boxes[0].count)


@command
def of_a_new_type(boxes: List[Named]) -> Iterator[Filled]:  # noqa: UP006
    yield Filled(box=boxes[0].id, number=boxes[0].count)


@pytest.fixture
def store() -> Iterator[EventStore]:
    with strandline.connect("memory:") as store:
        store.append([Filled(box=BoxId("1")), Filled(box=BoxId("1"))])
        yield store


@pytest.mark.parametrize(
    ("fill", "argument"),
    [
        (of_a_generic_class, Box("1")),
        (of_a_generic_class, "1"),
        (of_generic_classes, [Box("1")]),
        (of_generic_classes, ["1"]),
        (of_a_variable, Plain("1")),
        (of_a_variable_with_text, "1"),
        (of_an_alias, "1"),
        (of_aliases, ["1"]),
        (of_variables, ("1",)),
        (of_a_new_type, [Plain("1")]),
    ],
)
def test_a_projection_is_folded_and_guarded_however_its_class_is_named(
    store: EventStore, fill: Any, argument: Any
) -> None:
    assert store.execute(fill, argument).count == 1
    (last,) = store.read(backwards=True, limit=1)
    assert last.json()["number"] == 2
    (append,) = store.appends(after=2)
    assert append.condition is not None
    assert append.condition.fail_if_events_match == Plain("1").query()


@command
def hidden(box: Plain, others: list) -> None:  # type: ignore[type-arg]
    """Its type does not say what is in the list."""


@pytest.mark.parametrize("others", [[Plain("2")], {"a": Plain("2")}, (1, Plain("2"))])
def test_projections_that_nobody_would_fold_are_refused(store: EventStore, others: Any) -> None:
    with pytest.raises(InvalidInput, match=r"others has projections in it[\s\S]*others: list\[Course\]"):
        store.execute(hidden, Plain("1"), others)


class Alias312:
    """What `type` makes from Python 3.12 on: the value is worked out when it is asked for."""

    def __init__(self, value: Callable[[], Any]) -> None:
        self._value = value

    @property
    def __value__(self) -> Any:
        return self._value()


Alias312.__name__ = "TypeAliasType"
Json: Any = Alias312(lambda: str | list[Json] | dict[str, Json])


def test_a_type_may_be_a_part_of_itself() -> None:
    @command
    def note(box: Plain, what: Json) -> Iterator[Filled]:
        yield Filled(box=box.id, number=len(what))

    with strandline.connect("memory:") as store:
        assert store.execute(note, Plain("1"), ["a", ["b"]]).count == 1


Either = TypeVar("Either", Plain, Box[int])
Maybe = TypeAliasType("Maybe", Plain | None)


@pytest.mark.parametrize("kind", [Either, Maybe])
def test_what_may_be_one_of_several_classes_is_no_projection(kind: Any) -> None:
    def fill(box: Plain, other: kind) -> Iterator[Filled]:
        yield Filled(box=box.id)

    with pytest.raises(InvalidInput, match="neither a projection nor a value"):
        command(fill)


def school() -> Any:
    class DeskId(TagId): ...

    class Moved(DomainEvent):
        desk: DeskId

    class Desk(Projection):
        id: DeskId

        @on
        def moved(self, event: Moved) -> None: ...

    @command
    def move(desk: Desk) -> Iterator[Moved]:
        yield Moved(desk=desk.id)

    return DeskId, Desk, move


def test_classes_that_a_function_made_twice_are_told_apart(store: EventStore) -> None:
    (one_id, one, move), (other_id, other, _) = school(), school()
    mistakes = (
        lambda: store.execute(move, other("d1")),
        lambda: other_id(one_id("d1")),
        lambda: store.boundary(one("d1"), other("d1")),
    )
    for mistake in mistakes:
        with pytest.raises(InvalidInput) as refused:
            mistake()
        assert "made it twice: define it outside" in refused.value.hint
    assert store.execute(move, one("d1")).count == 1


def test_lists_of_values_are_values(store: EventStore) -> None:
    assert store.execute(hidden, Plain("1"), [1, "a", None]).count == 0


@command
def fill_all(box: Plain, numbers: Iterable[int]) -> Iterator[Filled]:
    for number in numbers:
        yield Filled(box=box.id, number=number)


def test_what_can_be_used_once_is_refused_because_a_command_may_decide_several_times(
    store: EventStore,
) -> None:
    for once in (iter([7, 8]), (number for number in [7])):
        with pytest.raises(InvalidInput, match=r"can be used once[\s\S]*list\(numbers\)"):
            store.execute(fill_all, Plain("1"), once)
    assert store.execute(fill_all, Plain("1"), range(2)).count == 2


def test_a_method_is_no_command() -> None:
    with pytest.raises(InvalidInput, match=r"is a method[\s\S]*@staticmethod above @command"):

        class Desk:
            @command
            def fill(self, box: Plain) -> Iterator[Filled]:
                yield Filled(box=box.id)

    with pytest.raises(InvalidInput, match="write @staticmethod above @command"):

        class Wrong:
            @command
            @staticmethod
            def fill(box: Plain) -> Iterator[Filled]:
                yield Filled(box=box.id)

    class Right:
        @staticmethod
        @command
        def fill(box: Plain) -> Iterator[Filled]:
            yield Filled(box=box.id)

    with strandline.connect("memory:") as store:
        assert store.execute(Right.fill, Plain("1")).count == 1


class LidId(TagId): ...


@command
def close_with(
    box: Plain, lid: LidId, more: LidId | None = None, others: Sequence[LidId] = ()
) -> Iterator[Event]:
    yield Event("Closed", {}, tags=[box.id, lid, *others, *([] if more is None else [more])])


@pytest.mark.parametrize("make", [str, LidId])
def test_raw_ids_among_the_values_become_the_ids_that_the_signature_names(
    store: EventStore, make: Any
) -> None:
    store.execute(close_with, "1", make("a"))
    store.execute(close_with, box="1", lid=make("a"), more=make("b"), others=[make("c"), make("d")])
    store.execute(close_with, Plain("1"), make("a"), None, (make("c"),))
    store.execute(close_with, "1", 7)  # type: ignore[arg-type]
    assert [event.tags for event in store.read(Query.types("Closed"))] == [
        ("box:1", "lid:a"),
        ("box:1", "lid:a", "lid:b", "lid:c", "lid:d"),
        ("box:1", "lid:a", "lid:c"),
        ("box:1", "lid:7"),
    ]
    with pytest.raises(InvalidInput, match="is not a LidId"):
        store.execute(close_with, "1", BoxId("a"))  # type: ignore[arg-type]


class DeepLidId(LidId): ...


@command
def close_by(
    box: Plain,
    lid: LidId | Literal["none"] = "none",
    default: LidId | None = "",  # type: ignore[assignment]
    kinds: Sequence[LidId] | str = "",
) -> Generator[Event, None, list[Any]]:
    yield Event("Closed", {}, tags=[box.id])
    return [lid, default, kinds]


def test_what_may_be_something_else_than_an_id_is_left_as_it_is(store: EventStore) -> None:
    assert store.execute(close_by, "1").value == ["none", "", ""]
    assert [type(each) for each in store.execute(close_by, "1", "all", None, "ab").value or ()] == [
        str,
        type(None),
        str,
    ]
    value = store.execute(close_with, "1", DeepLidId("a"))
    assert store.project(Plain("1")).count == 2
    assert value.count == 1
    with pytest.raises(InvalidInput, match="takes several ids, not one: 's1'"):
        store.execute(close_with, "1", "a", None, "s1")  # type: ignore[arg-type]


class BoxKey(TagId, prefix="box"): ...


def test_kinds_of_id_with_one_prefix_are_refused_among_values_too() -> None:
    with pytest.raises(InvalidInput, match="both have the tag prefix 'box'"):

        @command
        def fill(box: Plain, key: BoxKey | None) -> Iterator[Filled]:
            yield Filled(box=box.id)
