"""UmaDB's own server and ours answer the same random calls alike, apart from the differences in docs/umadb.md."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from faces import grpc_serving, umadb_serving
from wire import Failure, Query, QueryItem, Wire, condition, event, wired

import strandline

TYPES = ("Ordered", "Paid", "Shipped")
TAGS = ("order:1", "order:2", "customer:ada", "customer:bob", "vip", "Größe:中")
SOURCES = ("kafka", "mail")
NEVER = 2**64 - 1
NOWHERE = [QueryItem(tags=["nowhere"])]


class Appended(NamedTuple):
    """An append that may be repeated."""

    events: list[Any]
    query: list[Any]
    after: int | None
    tracking: tuple[str, int] | None


class Calls:
    """Random calls. A seed gives the same calls again."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._repeatable: list[Appended] = []
        self.head = 0

    def next(self) -> Callable[[Wire], Any]:
        """Return a call to make."""
        choose = self._random.choices(
            (self._append, self._repeat, self._read, self._track, self._nothing, self._look),
            (50, 6, 30, 4, 4, 6),
        )
        return choose[0]()

    def _append(self) -> Callable[[Wire], Any]:
        number = self._random.choice((1, 1, 1, 2, 3, 7))
        has_uuids = self._random.random() < 0.7
        events = [self._event(has_uuids=has_uuids) for _ in range(number)]
        tracking = self._tracking() if self._random.random() < 0.1 else None
        if self._random.random() < 0.3:
            return lambda wire: wire.append(*events, tracking=tracking)
        query = self._items() if self._random.random() < 0.9 else NOWHERE
        after = self._after()
        is_known = after in {None, NEVER - 1} or after <= self.head
        if is_known and (query == NOWHERE or all(_matches(query, each) for each in events)):
            self._repeatable.append(Appended(events, query, after, tracking))
        return lambda wire: wire.append(*events, condition=condition(*query, after=after), tracking=tracking)

    def _repeat(self) -> Callable[[Wire], Any]:
        if not self._repeatable:
            return self._append()
        told = self._random.choice(self._repeatable[-20:])
        return lambda wire: wire.append(
            *told.events, condition=condition(*told.query, after=told.after), tracking=told.tracking
        )

    def _read(self) -> Callable[[Wire], Any]:
        fields: dict[str, Any] = {}
        if self._random.random() < 0.8:
            fields["query"] = Query(items=self._items())
        if self._random.random() < 0.4:
            fields["start"] = self._random.choice((0, 1, self._position(), self._position(), NEVER))
        if self._random.random() < 0.4:
            fields["limit"] = self._random.choice((0, 1, 2, 5, 1_000))
        if self._random.random() < 0.4:
            fields["backwards"] = self._random.random() < 0.8
        if self._random.random() < 0.4:
            fields["batch_size"] = self._random.choice((0, 1, 2, 3, 10, 5_000))
        if self._random.random() < 0.1:
            fields["subscribe"] = self._random.random() < 0.5
        return lambda wire: _plain_answers(wire.read(**fields))

    def _track(self) -> Callable[[Wire], Any]:
        tracking = self._tracking()
        return lambda wire: wire.append(tracking=tracking)

    def _nothing(self) -> Callable[[Wire], Any]:
        """Append no events, with a condition that holds: UmaDB does not survive one that fails."""
        after = NEVER - 1 if self._random.random() < 0.5 else self.head + 1_000
        given = condition(*self._items(), after=after) if self._random.random() < 0.5 else None
        return lambda wire: wire.append(condition=given)

    def _look(self) -> Callable[[Wire], Any]:
        source = self._random.choice((*SOURCES, "never"))
        service = self._random.choice(("", "umadb.v1.DCB", "other"))
        return self._random.choice(
            (
                lambda wire: wire.head(),
                lambda wire: wire.tracked(source),
                lambda wire: wire.check_health(service),
            )
        )

    def _event(self, *, has_uuids: bool) -> Any:
        uuid = str(UUID(int=self._random.getrandbits(128))) if has_uuids else ""
        metadata = [("user", "ada"), ("trace", "1"), ("", "")][: self._random.choice((0, 0, 1, 2, 3))]
        return event(
            self._random.choice(TYPES),
            self._random.randbytes(self._random.choice((0, 1, 20, 200))),
            self._random.sample(TAGS, self._random.choice((0, 1, 1, 2, 3))),
            uuid if self._random.random() < 0.9 else uuid.upper(),
            self._random.sample(metadata, len(metadata)),
        )

    def _items(self) -> list[Any]:
        return [
            QueryItem(
                types=self._random.sample(TYPES, self._random.choice((0, 0, 1, 2))),
                tags=self._random.sample(TAGS, self._random.choice((0, 1, 1, 2))),
            )
            for _ in range(self._random.choice((0, 1, 1, 1, 2, 3)))
        ]

    def _after(self) -> int | None:
        return self._random.choice(
            (None, 0, self._position(), self.head, self.head, self.head + 5, NEVER - 1)
        )

    def _position(self) -> int:
        return self._random.randint(0, self.head + 3)

    def _tracking(self) -> tuple[str, int]:
        return self._random.choice(SOURCES), self._random.randint(0, 2_000)


def _matches(items: list[Any], given: Any) -> bool:
    return not items or any(
        (not item.types or given.event_type in item.types) and set(item.tags) <= set(given.tags)
        for item in items
    )


def _plain_answers(answers: list[Any] | Failure) -> Any:
    if isinstance(answers, Failure):
        return answers
    return [
        (
            [_plain(each) for each in answer.events],
            answer.head if answer.HasField("head") else None,
        )
        for answer in answers
    ]


def _plain(sequenced: Any) -> dict[str, Any]:
    """Return an event without what may differ: the order of its metadata, and a uuid that was not given."""
    given = sequenced.event
    tracking = sequenced.tracking_info if sequenced.HasField("tracking_info") else None
    return {
        "position": sequenced.position,
        "type": given.event_type,
        "tags": list(given.tags),
        "data": given.data,
        "uuid": given.uuid,
        "metadata": sorted((entry.key, entry.value) for entry in given.metadata),
        "tracking": None if tracking is None else (tracking.source, tracking.position),
    }


def _without_new_uuids(theirs: Any, ours: Any) -> Any:
    """Return our answer without the uuids of events that had none."""
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return ours
    for (their_events, _), (our_events, _) in zip(theirs, ours, strict=False):
        for one, other in zip(their_events, our_events, strict=False):
            if not one["uuid"]:
                assert UUID(other["uuid"])
                other["uuid"] = ""
    return ours


def _comparable(answer: Any) -> Any:
    return answer[:2] if isinstance(answer, Failure) else answer


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Wire, Wire]]:
    with (
        strandline.connect(tmp_path / "log.db") as store,
        grpc_serving(store) as ours,
        umadb_serving(tmp_path) as theirs,
        wired(theirs) as their_wire,
        wired(ours.grpc) as our_wire,
    ):
        yield their_wire, our_wire


def compare(both: tuple[Wire, Wire], seed: int, number: int) -> None:
    their_wire, our_wire = both
    calls = Calls(seed)
    for count in range(number):
        call = calls.next()
        theirs, ours = call(their_wire), call(our_wire)
        ours = _without_new_uuids(theirs, ours)
        assert _comparable(ours) == _comparable(theirs), f"call {count} of seed {seed}"
        calls.head = their_wire.head() or 0


def test_hundreds_of_random_calls_have_the_same_answers(both: tuple[Wire, Wire]) -> None:
    compare(both, random.randrange(2**32), 400)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_random_calls_have_the_same_answers(both: tuple[Wire, Wire], seed: int) -> None:
    compare(both, seed, 2_500)
