"""Each row of the table of differences in docs/umadb.md: what UmaDB does, and what we do instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from faces import PATIENCE_SECONDS, grpc_serving, umadb_process
from wire import Failure, QueryItem, Wire, condition, event, wired

import strandline
from strandline import EventStore

DOCS = Path(__file__).parents[2] / "docs/umadb.md"
Check = Callable[[Wire, Wire], None]
CHECKS: dict[str, Check] = {}
REFUSED = ("FAILED_PRECONDITION", "INTEGRITY")
INVALID = ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
NIL = str(UUID(int=0))


def row(name: str) -> Callable[[Check], Check]:
    """Name the row of the table that a check is about. It gets UmaDB and ours."""

    def add(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return add


def status(answer: Any) -> Any:
    assert isinstance(answer, Failure), answer
    return answer[:2]


@row("no uuid")
def _(theirs: Wire, ours: Wire) -> None:
    for wire in (theirs, ours):
        wire.append(event())
    assert [each.event.uuid for each in theirs.events()] == [""]
    assert [UUID(each.event.uuid).version for each in ours.events()] == [7]


@row("nil uuid")
def _(theirs: Wire, ours: Wire) -> None:
    mine, others = condition(QueryItem(tags=["mine"])), condition(QueryItem(tags=["mine"]))
    for wire in (theirs, ours):
        assert wire.append(event(tags=["mine"], uuid=NIL, data=b"a"), condition=mine) == 1
    taken = event(tags=["mine"], uuid=NIL, data=b"b")
    assert theirs.append(taken, condition=others) == 1
    assert status(ours.append(taken, condition=others)) == REFUSED
    for wire in (theirs, ours):
        assert wire.append(event(uuid=NIL), event(uuid=NIL)) == 3
        assert {each.event.uuid for each in wire.events()} == {NIL}


@row("same uuid, no condition")
def _(theirs: Wire, ours: Wire) -> None:
    same = event(uuid=str(uuid4()))
    assert [theirs.append(same), theirs.append(same)] == [1, 2]
    assert ours.append(same) == 1
    assert status(ours.append(same)) == REFUSED
    assert ours.head() == 1


@row("same uuids, other data")
def _(theirs: Wire, ours: Wire) -> None:
    first, second = (event(uuid=NIL[:-1] + "1", data=data) for data in (b"one", b"two"))
    for wire in (theirs, ours):
        assert wire.append(first, condition=condition()) == 1
    assert theirs.append(second, condition=condition()) == 1
    assert status(ours.append(second, condition=condition())) == REFUSED
    for wire in (theirs, ours):
        assert [each.event.data for each in wire.events()] == [b"one"]
    never = condition(QueryItem(tags=["never"]))
    assert status(ours.append(second, condition=never)) == REFUSED


@row("part of an append again")
def _(theirs: Wire, ours: Wire) -> None:
    first, second = (event(uuid=str(uuid4())) for _ in range(2))
    for wire in (theirs, ours):
        assert wire.append(first, second, condition=condition()) == 2
    assert theirs.append(first, condition=condition()) == 1
    assert status(ours.append(first, condition=condition())) == REFUSED


@row("repeat that its condition does not match")
def _(theirs: Wire, ours: Wire) -> None:
    ordered, paid = event("Ordered", uuid=str(uuid4())), event("Paid", uuid=str(uuid4()))
    once = condition(QueryItem(types=["Paid"]))
    for wire in (theirs, ours):
        assert wire.append(ordered, paid, condition=once) == 2
    assert status(theirs.append(ordered, paid, condition=once)) == REFUSED
    assert ours.append(ordered, paid, condition=once) == 2


@row("one uuid twice in an append")
def _(theirs: Wire, ours: Wire) -> None:
    same = event(uuid=str(uuid4()))
    assert theirs.append(same, same) == 2
    assert status(ours.append(same, same)) == REFUSED
    assert status(ours.append(same, same, condition=condition())) == REFUSED
    assert ours.head() is None


@row("repeated tags")
def _(theirs: Wire, ours: Wire) -> None:
    for wire in (theirs, ours):
        wire.append(event(tags=["b", "a", "b"]))
    assert list(theirs.events()[0].event.tags) == ["b", "a", "b"]
    assert list(ours.events()[0].event.tags) == ["b", "a"]


@row("metadata")
def _(theirs: Wire, ours: Wire) -> None:
    for wire in (theirs, ours):
        wire.append(event(metadata=[("b", "1"), ("a", "2")]))
    assert [entry.key for entry in theirs.events()[0].event.metadata] == ["b", "a"]
    assert [entry.key for entry in ours.events()[0].event.metadata] == ["a", "b"]


@row("names")
def _(theirs: Wire, ours: Wire) -> None:
    strange = ("", "a\nb", "$own", "x" * 257)
    events = [each for name in strange for each in (event(name), event(tags=[name]))]
    for each in [*events, event(metadata=[("$own", "1")])]:
        assert isinstance(theirs.append(each), int)
        assert status(ours.append(each)) == INVALID
    for name in strange:
        assert status(ours.read(query={"items": [{"tags": [name]}]})) == INVALID
        assert status(ours.read(query={"items": [{"types": [name]}]})) == INVALID
    for name in ("", "a\nb"):
        assert theirs.append(tracking=(name, 1)) == 0
        assert status(ours.append(tracking=(name, 1))) == INVALID
        assert status(ours.tracked(name)) == INVALID
    assert ours.head() is None


@row("many tags, many events")
def _(theirs: Wire, ours: Wire) -> None:
    for tags in ([str(number) for number in range(65)], ["t"]):
        events = [event(tags=tags)] * (1 if len(tags) > 1 else 10_001)
        assert theirs.append(*events) == (theirs.head() or 0)
        assert status(ours.append(*events)) == INVALID
    assert ours.append(event(tags=[str(number) for number in range(64)])) == 1
    assert ours.append(*[event()] * 10_000) == 10_001
    assert status(theirs.append(event(tags=["x" * 200 + str(number) for number in range(30)]))) == INVALID


@row("large data")
def _(theirs: Wire, ours: Wire) -> None:
    assert theirs.append(event(data=b"x" * (1024 * 1024 + 1))) == 1
    assert status(ours.append(event(data=b"x" * (1024 * 1024 + 1)))) == INVALID
    assert ours.append(event(data=b"x" * 1024 * 1024)) == 1
    assert len(ours.events()[0].event.data) == 1024 * 1024


@row("`after` of 2⁶⁴−1 in a condition")
def _(theirs: Wire, ours: Wire) -> None:
    for wire in (theirs, ours):
        wire.append(event())
        assert wire.append(event(), condition=condition(after=17)) == 2
    last = condition(after=2**64 - 1)
    assert status(theirs.append(event(), condition=last)) == REFUSED
    assert ours.append(event(), condition=last) == 3
    assert ours.append(condition=last) == 0


@row("tracked positions")
def _(theirs: Wire, ours: Wire) -> None:
    for wire in (theirs, ours):
        assert wire.append(event(), tracking=("kafka", 2**63 - 1)) == 1
    assert theirs.append(tracking=("mail", 2**64 - 1)) == 0
    assert status(ours.append(tracking=("mail", 2**64 - 1))) == INVALID
    assert (theirs.tracked("mail"), ours.tracked("mail")) == (2**64 - 1, None)


@row("request over 4 MiB")
def _(theirs: Wire, ours: Wire) -> None:
    large = [event(data=b"x" * 1024 * 1024)] * 5
    assert status(theirs.append(*large)) == ("OUT_OF_RANGE", None)
    assert status(ours.append(*large)) == ("RESOURCE_EXHAUSTED", None)
    assert ours.append(event()) == 1


@row("events of the store")
def test_retags_are_not_seen_but_refuse_decisions(ours: Wire, store: EventStore) -> None:
    first = ours.append(event(tags=["a", "b"]))
    seen = condition(QueryItem(tags=["a"]), after=first)
    store.retag(1, add=["vip"])
    assert [(each.position, list(each.event.tags)) for each in ours.events()] == [(1, ["a", "b", "vip"])]
    assert [each.position for each in ours.events(limit=5, backwards=True)] == [1]
    assert ours.head() == 2
    assert status(ours.append(event(), condition=seen)) == REFUSED
    assert status(ours.read(query={"items": [{"types": ["$retagged"]}]})) == INVALID
    assert ours.append(event()) == 3
    assert [each.position for each in ours.next_events(2, after=0)] == [1, 3]


@row("no events, failing condition")
def test_no_events_under_a_failing_condition_are_refused(ours: Wire, tmp_path: Path) -> None:
    assert ours.append(event()) == 1
    assert status(ours.append(condition=condition())) == REFUSED
    assert ours.append(condition=condition(after=1)) == 0
    with umadb_process(tmp_path) as (url, process), wired(url) as theirs:
        assert theirs.append(event()) == 1
        assert isinstance(theirs.append(condition=condition()), Failure)
        assert process.wait(PATIENCE_SECONDS) < 0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    with strandline.connect(tmp_path / "log.db") as store:
        yield store


@pytest.fixture
def ours(store: EventStore) -> Iterator[Wire]:
    with grpc_serving(store) as served, wired(served.grpc) as wire:
        yield wire


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Wire]:
    with umadb_process(tmp_path) as (url, _), wired(url) as wire:
        yield wire


@pytest.mark.parametrize("name", [name for name, check in CHECKS.items() if check.__name__ == "_"])
def test_the_difference_is_as_the_table_says(name: str, theirs: Wire, ours: Wire) -> None:
    CHECKS[name](theirs, ours)


def test_the_table_has_a_row_for_each_check_and_no_other() -> None:
    table = DOCS.read_text().partition("## Differences")[2]
    rows = re.findall(r"^\| ([^|]+?) \| [^|]+ \| [^|]+ \|$", table, re.MULTILINE)
    assert sorted(rows) == sorted(CHECKS)
