"""Writers of every kind, what they were told, and the judge who compares that with the log.

The suites of this folder differ in what they do to the log meanwhile. They share what is at stake: appends in batches,
under conditions and with `unless_exists`, commands, retags, and the transactions of followers.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from places import Place
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    AppendResult,
    AsyncEventStore,
    DomainEvent,
    Event,
    EventStore,
    Projection,
    Query,
    StrandlineError,
    TagId,
    command,
    on,
)
from strandline.engine.maintenance import check_log
from strandline.testing import violations

KEYS = 4
SEATS = 12
SIZES = (1, 1, 2, 5, 40)
PADDING = "x" * 400
# Retags are of events that no follower delivers.
DELIVERED, RETAGGED = "Written", "Marked"


class SeatId(TagId): ...


class SeatSold(DomainEvent):
    seat: SeatId
    sale: str


class Seat(Projection, snapshot_every=1):
    id: SeatId
    is_sold: bool = False

    @on
    def sold(self, event: SeatSold) -> None:
        self.is_sold = True


@command
def sell(seat: Seat, sale: str) -> Iterable[SeatSold]:
    if not seat.is_sold:
        yield SeatSold(seat=seat.id, sale=sale)


class Told(NamedTuple):
    """What a writer was told about a group of events: `kind` is written, refused or unknown."""

    kind: str
    group: str
    first: int = 0
    last: int = 0


class Followed(NamedTuple):
    """What a follower was told: everything up to here was delivered."""

    name: str
    position: int


Tell = Callable[[Any], None]


class Writer:
    """Writes groups of events, of which all or none must survive, and tells what became of each."""

    def __init__(self, seed: str, tell: Tell) -> None:
        self.rng = random.Random(seed)
        self._tell = tell

    def write(self, store: EventStore) -> None:
        """Do one thing."""
        kinds = [self._append, self._append, self._append_many, self._append_once, self._sell, self._retag]
        with contextlib.suppress(AppendConditionFailed):
            self.rng.choice(kinds)(store)

    async def write_awaited(self, store: AsyncEventStore) -> None:
        """Append, awaited."""
        group, events = self._group()
        read = await store.read(self._query(), limit=1)
        try:
            result = await store.append(events, read.condition)
        except AppendConditionFailed:
            self._tell(Told("refused", group))
        except StrandlineError as error:
            self._tell(Told(outcome_of(error), group))
        else:
            self._tell(Told("written", group, result.first, result.last))

    def _group(self, type_: str | None = None) -> tuple[str, list[Event]]:
        group, size = f"{self.rng.getrandbits(64):x}", self.rng.choice(SIZES)
        type_ = type_ or self.rng.choice([DELIVERED, RETAGGED])
        return group, [
            Event(
                type_,
                {"group": group, "size": size, "n": n, "padding": PADDING},
                tags=[f"k:{self.rng.randrange(KEYS)}", f"group:{group}"],
            )
            for n in range(size)
        ]

    def _query(self) -> Query:
        return Query.tag(f"k:{self.rng.randrange(KEYS)}")

    def _append(self, store: EventStore) -> None:
        group, events = self._group()
        conditions = [store.read(self._query(), limit=1).condition for _ in range(self.rng.randrange(3))]
        self._send(store, group, events, AppendCondition.all_of(*conditions) if conditions else None)

    def _append_once(self, store: EventStore) -> None:
        group, (event, *_) = self._group()
        once = f"once:{self.rng.randrange(SEATS)}"
        events = [Event(event.type, event.json() | {"size": 1}, tags=[*event.tags, once])]
        self._send(store, group, events, None, unless_exists=Query.tag(once))

    def _send(
        self,
        store: EventStore,
        group: str,
        events: Sequence[Event],
        condition: AppendCondition | None,
        **options: Any,
    ) -> None:
        """Append, and if the outcome is unknown, ask again or leave it so."""
        for _ in range(self.rng.choice([1, 3])):
            try:
                result = store.append(events, condition, **options)
            except AppendConditionFailed:
                # The second of two tries says so only if the first one wrote nothing.
                told = Told("refused", group)
                break
            except StrandlineError as error:
                told = Told(outcome_of(error), group)
            else:
                told = Told("written", group, result.first, result.last)
                if result.duplicate and "unless_exists" in options:
                    told = Told("unknown", group)  # written by an earlier try, or by somebody else
                break
        self._tell(told)

    def _append_many(self, store: EventStore) -> None:
        query = self._query()
        condition = store.read(query, limit=1).condition
        groups = [self._group() for _ in range(self.rng.randrange(2, 5))]
        try:
            outcomes = store.append_many([AppendRequest(events, condition) for _, events in groups])
        except StrandlineError as error:
            for group, _ in groups:
                self._tell(Told(outcome_of(error), group))
            return
        for (group, _), outcome in zip(groups, outcomes, strict=True):
            if isinstance(outcome, AppendResult):
                self._tell(Told("written", group, outcome.first, outcome.last))
            else:
                self._tell(Told("refused", group))

    def _sell(self, store: EventStore) -> None:
        sale = f"{self.rng.getrandbits(64):x}"
        done = store.execute(sell, Seat(f"s{self.rng.randrange(SEATS)}"), sale)
        if done.count:
            self._tell(Told("written", sale, done.first, done.last))

    def _retag(self, store: EventStore) -> None:
        store.retag(self._query() & Query.types(RETAGGED), replace={"k": [str(self.rng.randrange(KEYS))]})


def outcome_of(error: StrandlineError) -> str:
    """What an error says about the append that raised it."""
    is_refused = isinstance(error, AppendConditionFailed) or getattr(error, "written", None) is False
    return "refused" if is_refused else "unknown"


def follow(store: EventStore, name: str, tell: Tell, batch: int = 7) -> None:
    """Deliver what is there; the handler writes down the positions in a table of its own."""

    def handle(events: Sequence[Any], tx: Any) -> None:
        tx.execute(f"create table if not exists {table_of(store, name)} (position bigint primary key)")
        for event in events:
            tx.execute(f"insert into {table_of(store, name)} values ({event.position})")

    follower = store.follower(name, Query.types(DELIVERED), lease=2)
    position = follower.catch_up(handle, batch, attempts=1, on_failure="stop")
    tell(Followed(name, position))


def table_of(store: EventStore, name: str) -> str:
    """The table of a follower. Logs in one database have different ones."""
    log = "" if store.engine.log == "default" else f"_{store.engine.log}"
    return f"delivered_{name}{log}"


async def write_tasks(place: Place, writers: Sequence[Writer], rounds: int) -> None:
    """Several tasks of one event loop, each of which appends several times."""

    async def write(writer: Writer) -> None:
        for _ in range(rounds):
            await writer.write_awaited(store)

    async with place.connect_async() as store:
        await asyncio.gather(*map(write, writers))


def judge(place: Place, told: Iterable[Any]) -> int:
    """What must hold of a log whose writers were told these things; returns its head. Nobody may write meanwhile."""
    with place.connect() as store:
        told = list(told)
        _judge_groups(store, [each for each in told if isinstance(each, Told)])
        _judge_followers(store, [each for each in told if isinstance(each, Followed)])
        wrong = violations(store)
        assert wrong == [], f"the oracle finds {wrong}"
    problems = check_log(place.url, **place.options).problems
    assert problems == [], f"check finds {problems}"
    with place.connect() as store:
        head = store.head()
        condition = store.read(Query.tag("k:0"), limit=1).condition
        appended = store.append([Event("Later", {}, tags=["k:0"]), Event("Later", {})], condition)
        assert appended == AppendResult(head + 1, head + 2, 2), "the log does not go on"
        try:
            store.append(Event("Never", {}), condition)
        except AppendConditionFailed:
            return store.head()
        raise AssertionError("a stale condition was accepted")


def _judge_groups(store: EventStore, told: Sequence[Told]) -> None:
    events = list(store.read())
    places: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    once: list[str] = []
    seats: list[str] = []
    for event in events:
        if event.type in (DELIVERED, RETAGGED):
            data = event.json()
            places.setdefault(data["group"], []).append(event.position)
            sizes[data["group"]] = data["size"]
            assert data["n"] == len(places[data["group"]]) - 1, "events of an append are not in order"
            assert data["padding"] == PADDING, "data is not what was appended"
            once += [tag for tag in event.tags if tag.startswith("once:")]
        elif event.type == SeatSold.__name__:
            places[event.json()["sale"]] = [event.position]
            sizes[event.json()["sale"]] = 1
            seats.append(event.json()["seat"])
    for each in told:
        there = places.get(each.group, [])
        if each.kind == "written":
            assert there == list(range(each.first, each.last + 1)), "an acknowledged append is lost"
        elif each.kind == "refused":
            assert there == [], "an append that was refused is there"
    for group, there in places.items():
        assert len(there) == sizes[group], "an append is half there"
        assert there[-1] - there[0] == sizes[group] - 1, "an append is not in one piece"
    assert len(once) == len({*once}), "what should be there once is there twice"
    assert len(seats) == len({*seats}), "a seat is sold twice"


def _judge_followers(store: EventStore, told: Sequence[Followed]) -> None:
    for status in store.followers():
        checkpoint = status.position
        for each in told:
            assert each.name != status.name or each.position <= checkpoint, "a checkpoint went back"
        expected = [found.position for found in store.read(Query.types(DELIVERED), until=checkpoint)]
        try:
            rows = store.engine.rows(f"select position from {table_of(store, status.name)} order by position")
        except StrandlineError:  # its handler made no table yet
            rows = []
        assert [position for (position,) in rows] == expected, "events were not delivered exactly once"
    assert {each.name for each in told if each.position} <= {status.name for status in store.followers()}
