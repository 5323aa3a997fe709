"""Events that a handler does not look at are not read for it; whatever could look at them, gets them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import strandline
from places import Place
from strandline import DomainEvent, Event, InvalidEvent, Projection, SequencedEvent, TagId, on
from strandline.domain.folding import Fold
from strandline.domain.shape import shape_of


class SeatId(TagId): ...


class Taken(DomainEvent):
    seat: SeatId
    row: int


class Counted(Projection):
    id: SeatId
    times: int = 0

    @on
    def taken(self, event: Taken) -> None:
        self.times += 1


class Summed(Projection):
    id: SeatId
    rows: int = 0

    @on
    def taken(self, event: Taken) -> None:
        self.rows += event.row


FITS = Taken(seat=SeatId("1"), row=7)
DOES_NOT_FIT = Event("Taken", {"seat": "1", "row": "seven"}, tags=["seat:1"])
DOES_NOT_FIT_EITHER = Event("Taken", {"row": 8}, tags=["seat:1"], metadata={"user": "ada"})


def test_who_only_counts_events_does_not_depend_on_their_data(place: Place) -> None:
    with place.connect() as store:
        store.append([FITS, DOES_NOT_FIT, DOES_NOT_FIT_EITHER])
        assert store.project(Counted("1")).times == 3
        with pytest.raises(InvalidEvent, match="does not fit Taken"):
            store.project(Summed("1"))


def test_in_one_boundary_who_looks_has_the_event_and_who_does_not_counts_it() -> None:
    with strandline.connect("memory:") as store:
        store.append([FITS, FITS])
        for both in ((Counted("1"), Summed("1")), (Summed("1"), Counted("1"))):
            with store.boundary(*both) as boundary:
                assert {type(state): list(vars(state).values())[1] for state in boundary.states} == {
                    Counted: 2,
                    Summed: 14,
                }


def test_folds_of_many_keys_do_not_read_them_either() -> None:
    fold = Fold(Counted)
    state = fold.state(("1",))
    fold.apply(state, SequencedEvent.of(DOES_NOT_FIT, 1, 0))
    assert vars(state) == {"id": "1", "times": 1}
    assert fold.looks_at == set()
    assert Fold(Summed).looks_at == {"Taken"}


def test_a_version_of_a_newer_program_is_refused_whoever_looks() -> None:
    with strandline.connect("memory:") as store:
        store.append(FITS.to_event().with_metadata({"version": "2"}))
        with pytest.raises(InvalidEvent, match="written by a newer program"):
            store.project(Counted("1"))


def seen_by_attribute(self: Any, event: Taken) -> None:
    self.seen = event.row


def seen_whole(self: Any, event: Taken) -> None:
    self.seen = event


def seen_inside(self: Any, event: Taken) -> None:
    self.seen = [event.row for _ in range(1)]


def seen_later(self: Any, event: Taken) -> None:
    self.seen = lambda: event


def seen_by_locals(self: Any, event: Taken) -> None:
    self.seen = locals()


def seen_by_text(self: Any, event: Taken) -> None:
    self.seen = eval("event")


def taken_away(self: Any, event: Taken) -> None:
    del event


def passed_on(self: Any, event: Taken) -> None:
    seen_whole(self, event)


@functools.wraps(seen_whole)
def wrapped(*arguments: Any) -> None:
    seen_whole(*arguments)


def not_seen(self: Any, event: Taken) -> None:
    self.seen = "nothing"


def not_seen_but_as_recorded(self: Any, event: Taken, recorded: SequencedEvent) -> None:
    self.seen = recorded.position


def named_in_a_text(self: Any, event: Taken) -> None:
    """The event is not looked at."""
    self.seen = "an event"


LOOK: list[Callable[..., None]] = [
    *(seen_by_attribute, seen_whole, seen_inside, seen_later),
    *(seen_by_locals, seen_by_text, taken_away, passed_on, wrapped),
]
DO_NOT: list[Callable[..., None]] = [not_seen, not_seen_but_as_recorded, named_in_a_text]


@pytest.mark.parametrize("method", LOOK + DO_NOT, ids=lambda method: method.__name__)
def test_what_may_look_is_known_by_its_code(method: Callable[..., None]) -> None:
    namespace = {"__annotations__": {"id": SeatId}, "taken": on(Taken)(method)}
    (handler, _) = shape_of(type("Seat", (Projection,), namespace)).handlers["Taken"]
    assert (handler.blind_code is None) == (method in LOOK)


def test_what_takes_the_place_of_a_handler_has_the_event() -> None:
    seen: list[int] = []

    def logged(cls: type[Projection]) -> type[Projection]:
        inner = cls.__dict__["taken"]

        def taken(self: Any, event: Taken) -> None:
            seen.append(event.row)
            inner(self, event)

        cls.taken = taken  # type: ignore[attr-defined]
        return cls

    class Decorated(Projection):
        id: SeatId
        times: int = 0

        @on
        def taken(self, event: Taken) -> None:
            self.times += 1

    with strandline.connect("memory:", decision_cache=0) as store:
        store.append([FITS, FITS])
        assert store.project(Decorated("1")).times == 2  # what is worked out once must not outlive it
        logged(Decorated)
        assert store.project(Decorated("1")).times == 2
    assert seen == [7, 7]
    Fold(Decorated).apply(Decorated("1"), SequencedEvent.of(FITS.to_event(), 1, 0))
    assert seen == [7, 7, 7]


class Traced:
    """A method that is no function."""

    def __init__(self, function: Callable[..., None]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __get__(self, state: Any, kind: Any = None) -> Any:
        return self if state is None else functools.partial(self.function, state)

    def __call__(self, *arguments: Any) -> None:
        self.function(*arguments)


def test_a_handler_that_is_no_function_has_the_event() -> None:
    class Through(Projection):
        id: SeatId
        rows: int = 0

        @on(Taken)
        @Traced
        def taken(self, event: Taken) -> None:
            self.rows += 1

    with strandline.connect("memory:") as store:
        store.append(DOES_NOT_FIT)
        with pytest.raises(InvalidEvent):
            store.project(Through("1"))


class Numbered(Projection):
    id: SeatId
    row: int = 0

    @on
    def taken(self, event: Taken) -> None: ...


class Fixed(Numbered):
    @property
    def row(self) -> int:  # type: ignore[override]
        return 5


def test_a_field_may_become_a_property() -> None:
    with strandline.connect("memory:") as store:
        store.append(FITS)
        assert store.project(Fixed("1")).row == Fold(Fixed).state(("1",)).row == 5  # type: ignore[attr-defined]
