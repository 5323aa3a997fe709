"""The hazards of Marten (`m`) and of node-event-storage (`n`), like `test_hazards.py`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import apsw
import psycopg
import pytest

import strandline
from places import Place
from racing import judge_race, race
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    AppendResult,
    Event,
    EventIdConflict,
    EventStore,
    InvalidInput,
    InvalidQuery,
    Query,
    QueryItem,
    StrandlineError,
)
from strandline.engine.sqlite import SqliteEngine
from strandline.testing import violations
from test_hazards import at_once, event, is_refused


@pytest.fixture
def store(reached: Place) -> Iterator[EventStore]:
    with reached.connect() as store:
        yield store


@pytest.fixture
def embedded(place: Place) -> Iterator[EventStore]:
    """A store that can call Python functions."""
    with place.connect() as store:
        yield store


def test_the_last_seat_is_sold_once_by_one_store(store: EventStore) -> None:
    """A: EXISTS is false; B: EXISTS is false; A inserts; B inserts: two subscriptions for one seat."""
    for seat in range(5):
        sell_to_all([store] * 16, f"seat:{seat}")


def test_the_last_seat_is_sold_once_by_stores_that_share_nothing(kept: Place) -> None:
    """The same where no lock of a process helps: each seller has a store, and in a database a connection."""
    with ExitStack() as open_stores:
        stores = [open_stores.enter_context(kept.connect()) for _ in range(6)]
        for seat in range(20):
            sell_to_all(stores, f"seat:{seat}")
        assert violations(stores[0]) == []


def sell_to_all(stores: Sequence[EventStore], seat: str) -> None:
    """Every store reads that the seat is free. Then all of them take it at the same time."""
    conditions = [store.read(Query.tag(seat)).condition for store in stores]
    results = at_once(
        *(
            lambda store=store, condition=condition: store.append(event("Taken", seat), condition)
            for store, condition in zip(stores, conditions, strict=True)
        )
    )
    assert results.count(None) == len(stores) - 1
    assert {store.count(Query.tag(seat)) for store in stores} == {1}


EITHER = {
    "two items": (QueryItem(tags=["student:1"]), QueryItem(tags=["course:1"])),
    "with types": (
        QueryItem(types=["Registered", "Joined"], tags=["student:1"]),
        QueryItem(types=["Defined", "Joined"], tags=["course:1"]),
    ),
    "one more that never matches": (
        QueryItem(tags=["never"]),
        QueryItem(tags=["course:1"]),
        QueryItem(tags=["student:1"]),
    ),
    "one with a matcher": (QueryItem(tags=["student:1"], where={"n": 1}), QueryItem(tags=["course:1"])),
    "one with both tags besides": (
        QueryItem(tags=["student:1", "course:1"]),
        QueryItem(tags=["student:1"]),
        QueryItem(tags=["course:1"]),
    ),
}


@pytest.mark.parametrize("items", EITHER.values(), ids=EITHER)
@pytest.mark.parametrize("is_turned", [False, True])
def test_an_event_with_one_of_two_tags_is_found_and_refuses(
    store: EventStore, items: tuple[QueryItem, ...], is_turned: bool
) -> None:
    """Two tag tables are inner joined: an event with only one of the tags does not exist."""
    either = Query.of(*(reversed(items) if is_turned else items))
    expected: list[int] = []
    for type_, *tags in (
        ("Registered", "student:2"),
        ("Registered", "student:1"),
        ("Defined", "course:1"),
        ("Joined", "student:1", "course:1"),
    ):
        stale = store.read(either).condition
        position = store.append(event(type_, *tags, n=1)).position
        matches = not {"student:1", "course:1"}.isdisjoint(tags)
        expected += [position] * matches
        assert [found.position for found in store.read(either)] == expected
        assert [found.position for found in store.read(either, backwards=True)] == expected[::-1]
        assert store.count(either) == len(expected)
        assert store.exists(either, after=position - 1) is matches
        assert is_refused(store, stale) is matches


def test_m3_the_head_is_taken_no_later_than_the_events(store: EventStore) -> None:
    """A reads events; B commits; A reads the version, which hides what it never saw."""
    store.append(event("E", "a"))
    read = store.read(Query.tag("a"))
    store.append(event("E", "a"))
    assert len(list(read)) == read.head == 1
    assert is_refused(store, read.condition)


def test_m4_an_event_with_two_values_of_a_tag_comes_once(store: EventStore) -> None:
    """A join over both values returns the event twice, and the fold counts it twice."""
    store.append(event("Transferred", "wallet:1", "wallet:2"))
    query = Query.of(QueryItem(tags=["wallet:1"]), QueryItem(tags=["wallet:2"]))
    for backwards in (False, True):
        assert [found.position for found in store.read(query, backwards=backwards)] == [1]
    assert store.count(query) == 1
    assert store.count(Query.tag("wallet:1", "wallet:2")) == 1


def test_m5_logs_do_not_leak_into_each_other(tmp_path: Path) -> None:
    """alpha's untagged event 1 is returned because beta's event 1 carries the tag."""
    with (
        strandline.connect(tmp_path / "alpha.db") as alpha,
        strandline.connect(tmp_path / "beta.db") as beta,
        strandline.connect("memory:") as gamma,
    ):
        alpha.append(event("E"))
        beta.append([event("E", "a"), event("E", "a")])
        gamma.append(event("E"))
        assert not alpha.exists(Query.tag("a"))
        assert not gamma.exists(Query.tag("a"))
        assert not is_refused(alpha, AppendCondition(Query.tag("a"), after=1))
        with pytest.raises(InvalidInput, match="head of this log"):
            gamma.append(event("E"), beta.read().condition)
        assert len({store.stats().log for store in (alpha, beta, gamma)}) == 3


def test_m6_boundaries_that_cross_do_not_deadlock(store: EventStore) -> None:
    """S1 asserts course and bumps student, S2 asserts student and bumps course: deadlock detected."""

    def cross(asks: str, writes: str) -> int:
        written = 0
        for _ in range(40):
            condition = store.read(Query.tag(asks)).condition
            try:
                written += store.append([event("E", writes), event("E", writes, asks)], condition).count
            except AppendConditionFailed:
                continue
        return written

    pairs = [("course:1", "student:1"), ("student:1", "course:1")] * 3
    results = at_once(*(lambda pair=pair: cross(*pair) for pair in pairs))
    assert sum(results) == store.head()
    assert violations(store) == []


def test_m7_one_boundary_read_twice_does_not_refuse_itself(store: EventStore) -> None:
    """The same boundary is fetched twice in a session: the second assertion sees the first one's bump."""
    store.append(event("E", "a"))
    first = store.read(Query.tag("a")).condition
    store.append(event("E", "b"))
    twice = AppendCondition.all_of(first, store.read(Query.tag("a")).condition)
    wider = store.read(Query.tag("a") | Query.tag("c")).condition
    assert len(twice.parts) == 2
    store.append(event("E", "a"), AppendCondition.all_of(twice, wider))
    assert is_refused(store, twice)
    assert not is_refused(store, store.read(Query.tag("a")).condition)


def test_m8_a_condition_on_types_is_not_spoiled_by_other_types(store: EventStore) -> None:
    """The version covers all events of the tag, the read only some types: false conflicts."""
    query = Query.of(QueryItem(types=["Defined", "Closed"], tags=["course:1"]))
    condition = store.read(query).condition
    store.append([event("Renamed", "course:1"), event("Defined", "course:2")])
    assert not is_refused(store, condition)


def test_m9_a_tag_given_later_refuses_the_decision_that_did_not_see_it(store: EventStore) -> None:
    """A boundary is read; an old event gets its tag; the decision commits on a history that just grew."""
    store.append(event("E", "other"))
    condition = store.read(Query.tag("a")).condition
    store.retag([1], add=["a"])
    assert is_refused(store, condition)
    assert not is_refused(store, store.read(Query.tag("a")).condition)


def test_m10_bulk_appends_keep_every_tag(store: EventStore) -> None:
    """The bulk function keeps the first tag of a type, the bulk import none: an absent tag is no error."""
    store.append([event("E", f"n:{n}", "kind:a", "kind:b", "kind:c") for n in range(3_000)])
    store.append_many([AppendRequest(event("E", f"n:{n}", "kind:a", "kind:b")) for n in range(300)])
    assert store.count(Query.tag("kind:a", "kind:b")) == 3_300
    assert store.count(Query.tag("kind:c")) == 3_000
    assert store.count(Query.tag("n:7", "kind:b")) == 2


def test_m11_all_of_two_tags_can_be_asked(store: EventStore) -> None:
    """A tag query knows only OR: the intersection cannot be guarded."""
    condition = store.read(Query.tag("student:1", "course:1")).condition
    store.append(event("E", "student:1"))
    store.append(event("E", "course:1"))
    assert not is_refused(store, condition)
    store.append(event("E", "student:1", "course:1"))
    assert is_refused(store, condition)


def test_n2_a_lock_file_that_is_removed_lets_nobody_write_past_another(tmp_path: Path) -> None:
    """The lock of a live writer is reclaimed: two writers, same condition, both accepted."""
    path = tmp_path / "log.db"
    with strandline.connect(path) as one:
        path.with_name("log.db.lock").unlink()
        with strandline.connect(path) as other:
            told = at_once(*(lambda s=s, n=n: race(s, n, 40) for n, s in enumerate((one, other, one, other))))
            judge_race(one, told)
            assert violations(other) == []


SAME_NAME = {
    "type": (Query.types("x"), {"type": "x"}),
    "tag": (Query.tag("x"), {"tags": ["x"]}),
    "stream": (Query.stream("x"), {"stream": "x"}),
    "subject": (Query.subject("x"), {"subject": "x"}),
    "tag that begins like a stream": (Query.tag("stream:x"), {"tags": ["stream:x"]}),
}


@pytest.mark.parametrize("place_of_name", SAME_NAME)
def test_a_name_in_another_place_is_neither_found_nor_in_the_way(kept: Place, place_of_name: str) -> None:
    """A stream called OrderPlaced makes the query for the type return the stream's events."""
    query, fields = SAME_NAME[place_of_name]

    def others() -> list[Event]:
        return [
            Event(**{"type": "E", "data": {}} | other)
            for name, (_, other) in SAME_NAME.items()
            if name != place_of_name
        ]

    with kept.connect() as store:
        condition = store.read(query).condition
        store.append(others())
        assert not store.exists(query)
        assert not is_refused(store, condition)
        store.append_many([AppendRequest(each) for each in others()])
        mine = store.append(Event(**{"type": "E", "data": {}} | fields)).position
        assert is_refused(store, condition)
    with kept.connect() as store:  # which learns its index from the log
        assert [found.position for found in store.read(query)] == [mine]
        assert store.count(query) == 1
        assert is_refused(store, AppendCondition(query, after=mine - 1))
        assert not is_refused(store, AppendCondition(query, after=mine))


REJECTED = "Rejected"
HOOK_IN_FILE = f"""
create trigger hook before insert on event when new.type = '{REJECTED}'
begin select raise(abort, 'rejected by a hook'); end"""
HOOK_IN_DATABASE = f"""
create function hook() returns trigger language plpgsql as $$
begin raise exception 'rejected by a hook'; end $$;
create trigger hook before insert on event for each row when (new.type = '{REJECTED}') execute function hook()"""


@pytest.fixture
def hooked(kept: Place) -> Place:
    """A log whose database refuses to write events of one type, wherever in an append they are."""
    with kept.connect() as store:
        store.append(event("Opened", "first"))
    if kept.is_in_database:
        with psycopg.connect(str(kept.url), options=f"-csearch_path=strandline_{kept.log}") as connection:
            connection.execute(HOOK_IN_DATABASE)
    else:
        with closing(apsw.Connection(str(kept.url))) as connection:
            connection.execute(HOOK_IN_FILE)
    return kept


@pytest.mark.parametrize("rejected", [0, 1, 2])
@pytest.mark.parametrize("is_one_of_a_batch", [False, True])
def test_an_append_that_fails_while_it_is_written_leaves_nothing_behind(
    hooked: Place, rejected: int, is_one_of_a_batch: bool
) -> None:
    """A hook rejects the second of three events: the first stays, also after a reopen."""
    with hooked.connect() as store:
        stale = store.read(Query.tag("half")).condition
        events = [event("E", "half", "new-name", n=number) for number in range(3)]
        events[rejected] = event(REJECTED, "half", "new-name")
        requests = [AppendRequest(event("E", "first")), AppendRequest(events, stale)][not is_one_of_a_batch :]
        with pytest.raises((StrandlineError, apsw.Error), match="rejected by a hook"):
            store.append_many(requests)
        for query in (Query.tag("half"), Query.tag("new-name"), Query.types("E", REJECTED)):
            assert not store.exists(query)
        # Names and positions that the failed transaction gave away are free again.
        assert store.append([event("E", "another-name"), event("E", "half")], stale) == AppendResult(2, 3, 2)
        assert [found.position for found in store.read(Query.tag("another-name"))] == [2]
        assert [found.position for found in store.read(Query.tag("half"))] == [3]
        assert not store.exists(Query.tag("new-name"))
    with hooked.connect() as store:
        assert [found.tags for found in store.read()] == [("first",), ("another-name",), ("half",)]
        assert not store.exists(Query.tag("new-name"))
        assert violations(store) == []


def test_an_append_that_is_refused_leaves_nothing_behind(kept: Place) -> None:
    """An id that is taken, or a matcher that raises, is noticed while the append is judged."""
    with kept.connect() as store:
        taken = event("E", "taken")
        store.append(taken)
        with pytest.raises(EventIdConflict):
            store.append([event("E", "half"), taken, event("E", "half")])
        raising = AppendCondition(Query.of(QueryItem(tags=["taken"], where=lambda found: 1 / 0)))  # type: ignore[arg-type,return-value]
        with pytest.raises(InvalidQuery):
            store.append([event("E", "half"), event("E", "half")], raising)
        assert store.append(event("E")).position == 2
    with kept.connect() as store:
        assert (store.head(), store.exists(Query.tag("half"))) == (2, False)
        assert violations(store) == []


def test_n5_every_index_knows_every_event_of_a_log_that_is_opened_again(kept: Place) -> None:
    """An index is switched on later and begins empty: what is older is not found, uniqueness breaks."""
    with kept.connect() as store:
        store.append(event("Registered", "email:a@x", n=1), stream="s")
        store.retag([1], add=["late"])
    with kept.connect() as store:
        for query in (
            Query.types("Registered"),
            Query.tag("email:a@x"),
            Query.tag("late"),
            Query.stream("s"),
            Query.of(QueryItem(where={"n": 1})),
        ):
            assert [found.position for found in store.read(query)] == [1]
            assert is_refused(store, AppendCondition(query))


def test_n6_a_matcher_that_reaches_for_what_is_not_there_is_refused_or_reaches_it(store: EventStore) -> None:
    """The manual's own matcher looks at meta.stream, which does not exist: the conflict is missed."""
    store.append(strandline.Event("E", {}, metadata={"by": "me"}, stream="s"))
    assert is_refused(store, AppendCondition(Query.of(QueryItem(where={"$metadata": {"by": "me"}}))))
    assert is_refused(store, AppendCondition(Query.of(QueryItem(stream="s", where={}))))
    for unknown in ({"$meta": {"stream": "s"}}, {"$stream": "s"}, {"by": {"$equals": "me"}}):
        with pytest.raises(InvalidQuery):
            QueryItem(where=unknown)


def test_n7_a_matcher_that_is_a_function_is_never_written_down(embedded: EventStore) -> None:
    """A closure cannot cross a process, and holds something else when it is asked again."""
    limit = [0]
    query = Query.of(QueryItem(where=lambda found: found.position > limit[0]))
    embedded.append(event("E"))
    assert is_refused(embedded, AppendCondition(query))
    limit[0] = 9
    assert not is_refused(embedded, AppendCondition(query))
    with pytest.raises(InvalidQuery):
        query.to_json()
    assert [append.status for append in embedded.appends()] == ["unconditional", "not_auditable"]


def test_n8_what_is_acknowledged_is_on_the_disk(kept: Place) -> None:
    """Commit returns before the flush: the process dies, and what it acknowledged with it."""
    program = """
import json, os, sys, strandline
store = strandline.connect(sys.argv[1], **json.loads(sys.argv[2]))
print(store.append([strandline.Event("E", {}), strandline.Event("E", {})]).position, flush=True)
os.kill(os.getpid(), 9)
"""
    for expected in (2, 4, 6):
        done = subprocess.run(
            [sys.executable, "-c", program, *kept.arguments], capture_output=True, check=False
        )
        assert int(done.stdout) == expected
        with kept.connect() as store:
            assert store.head() == expected
            # A process that dies leaves what it wrote to the system; a machine that does, only what was flushed.
            if isinstance(store.engine, SqliteEngine):
                writing = (store.engine._connection, store.engine._pens.take().connection)
                assert [
                    (each.execute("pragma synchronous"), each.execute("pragma journal_mode"))
                    for each in writing
                ] == [([(2,)], [("wal",)])] * 2


def test_n9_several_keys_joined_by_or_are_safe_with_one_counter(store: EventStore) -> None:
    """Right in the seed: the head is captured before the events, and either key refuses."""
    either = Query.of(QueryItem(types=["A"], tags=["x"]), QueryItem(types=["B"], tags=["y"]))
    for late in (event("A", "x"), event("B", "y")):
        condition = store.read(either).condition
        store.append(event("A", "y"))
        store.append(late)
        assert is_refused(store, condition)
        assert not is_refused(store, store.read(either).condition)
