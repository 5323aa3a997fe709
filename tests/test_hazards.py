"""One test for each way in which other stores went wrong: the hazards of the correctness analysis.

`test_o…` Occurrent, `test_c…` Crablet; `test_hazards_others.py` has Marten (`m`) and node (`n`). A test without
such a code is named after what goes wrong. Each docstring is the interleaving that once broke something.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from places import Place
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    AppendResult,
    Event,
    EventStore,
    Query,
    QueryItem,
)
from strandline.testing import violations
from unrelated import unrelated_transaction


@pytest.fixture
def store(reached: Place) -> Iterator[EventStore]:
    with reached.connect() as store:
        yield store


@pytest.fixture
def embedded(place: Place) -> Iterator[EventStore]:
    """A store that can call Python functions."""
    with place.connect() as store:
        yield store


def event(type_: str, *tags: str, **fields: Any) -> Event:
    return Event(type_, fields, tags=tags)


def is_refused(store: EventStore, condition: AppendCondition) -> bool:
    try:
        store.append(event("Decided"), condition)
    except AppendConditionFailed:
        return True
    return False


def appended(
    store: EventStore, event: Event, condition: AppendCondition
) -> AppendResult | AppendConditionFailed:
    try:
        return store.append(event, condition)
    except AppendConditionFailed as refusal:
        return refusal


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """The results of calls that start together; an append that is refused gives None."""
    barrier = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def run(index: int) -> None:
        barrier.wait()
        try:
            results[index] = calls[index]()
        except AppendConditionFailed:
            results[index] = None

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return results


def test_o1_every_append_counts_not_only_those_with_the_same_condition(store: EventStore) -> None:
    """R reads user:123; W appends user:123+course:1 under course:1, without condition, as a stream; R appends."""
    for write in (
        lambda: store.append(event("E", "user:123", "course:1"), store.read(Query.tag("course:1")).condition),
        lambda: store.append(event("E", "user:123")),
        lambda: store.append(event("E", "user:123"), stream="s"),
        lambda: store.retag(Query.types("Other"), add=["user:123"]),
    ):
        store.append(event("Other"))
        condition = store.read(Query.tag("user:123")).condition
        write()
        assert is_refused(store, condition)


def test_o2_a_head_never_runs_ahead_of_what_can_be_read(store: EventStore) -> None:
    """W reserves 1; R reads head 1 but sees nothing; W commits; R's append is accepted unseen."""

    def write() -> None:
        for _ in range(60):
            store.append([event("E", "x"), event("E", "x")])

    def read() -> None:
        while store.head() < 240:
            read = store.read(Query.tag("x"))
            assert len(list(read)) == read.head

    at_once(write, write, read, read)


def test_o3_position_order_is_commit_order(store: EventStore) -> None:
    """W1 reserves 1, W2 reserves 2 and commits; R reads {2}; W1 commits 1, behind R's back."""

    def write() -> None:
        for _ in range(60):
            store.append(event("E"))

    def read() -> None:
        seen: list[Any] = []
        while len(seen) < 120:
            now = [found.id for found in store.read()]
            assert now[: len(seen)] == seen
            seen = now

    at_once(write, write, read)


def test_o4_a_condition_does_not_touch_the_keys_that_its_events_do_not_have(store: EventStore) -> None:
    """An append under {user, course} writes only course; whoever reads user is refused for ever."""
    store.append(event("E", "user:1"))
    both = Query.of(QueryItem(tags=["user:1"]), QueryItem(tags=["course:1"]))
    user = store.read(Query.tag("user:1"))
    store.append(event("E", "course:1"), store.read(both).condition)
    assert not is_refused(store, user.condition)
    assert not is_refused(store, AppendCondition(Query.tag("user:1"), after=max(e.position for e in user)))


def test_o5_all_of_several_tags_is_judged_by_their_intersection(store: EventStore) -> None:
    """{user:1, course:1} is read at 1; user:1 moves on with course:2; the decision is refused for ever."""
    store.append(event("E", "user:1", "course:1"))
    store.append(event("E", "user:1", "course:2"))
    store.append(event("E", "user:2", "course:1"))
    assert not is_refused(store, AppendCondition(Query.tag("user:1", "course:1"), after=1))


def test_o6_a_type_and_a_tag_meet_the_tag_alone(store: EventStore) -> None:
    """W1 decides under type X and tag t, W2 under tag t: disjoint keys, both commit."""
    narrow = store.read(Query.of(QueryItem(types=["X"], tags=["t"]))).condition
    wide = store.read(Query.tag("t")).condition
    store.append(event("X", "t"), narrow)
    assert is_refused(store, wide)
    wide, narrow = (
        store.read(Query.tag("t")).condition,
        AppendCondition(narrow.fail_if_events_match, store.head()),
    )
    store.append(event("X", "t"), wide)
    assert is_refused(store, narrow)


def test_o7_each_part_of_a_condition_keeps_its_own_after(store: EventStore) -> None:
    """{tag a after 1, stream b after 3} is checked with 3: what moved a at 2 is missed."""
    store.append(event("E", "a"))
    store.append(event("E", "a"))
    store.append(event("E"), stream="b")
    a, b = AppendCondition(Query.tag("a"), after=1), AppendCondition(Query.stream("b"), after=3)
    for joined in (AppendCondition.all_of(a, b), AppendCondition.all_of(b, a)):
        with pytest.raises(AppendConditionFailed) as caught:
            store.append(event("E"), joined)
        assert (caught.value.conflict.position, caught.value.after) == (2, 1)


def test_o8_the_first_write_to_a_boundary_succeeds_and_a_conflict_is_a_conflict(store: EventStore) -> None:
    """An upsert with the version in its filter fails on the first write, and inserts twice on a conflict."""
    first = store.read(Query.tag("new")).condition
    assert store.append(event("E", "new"), first) == AppendResult(1, 1, 1)
    with pytest.raises(AppendConditionFailed):
        store.append(event("E", "new"), first)


def test_o9_two_cold_starts_at_once_both_work(kept: Place) -> None:
    """Two processes create the counter at the same time: a duplicate key."""

    def start() -> int:
        with kept.connect() as store:
            return store.append(event("E")).position

    assert sorted(at_once(start, start, start, start)) == [1, 2, 3, 4]


def test_o10_tags_are_never_joined_to_one_text(store: EventStore) -> None:
    """{"a|b", "c"} and {"a", "b", "c"} joined with | are the same key."""
    store.append(event("E", "a|b", "c"))
    assert not store.exists(Query.tag("a", "b", "c"))
    assert not store.exists(Query.tag("a"))
    assert not is_refused(store, AppendCondition(Query.tag("a", "b", "c")))
    assert is_refused(store, AppendCondition(Query.tag("a|b", "c")))
    store.append(event("E", "n\u2028m"))
    assert not store.exists(Query.tag("n"))


def test_o11_disjoint_boundaries_in_one_stream_do_not_collide(store: EventStore) -> None:
    """Two decisions about different tags write to the same partition stream: a unique version collides."""
    one, other = store.read(Query.tag("a")).condition, store.read(Query.tag("b")).condition
    store.append(event("E", "a"), one, stream="partition:1")
    store.append(event("E", "b"), other, stream="partition:1")
    assert store.count(Query.stream("partition:1")) == 2


def test_o12_a_condition_on_everything_meets_every_append(store: EventStore) -> None:
    """A lock on the whole store shares no marker with scoped appends: both commit."""
    everything, scoped = store.read().condition, store.read(Query.tag("a")).condition
    store.append(event("E", "a"), scoped)
    assert is_refused(store, everything)
    scoped = store.read(Query.tag("a")).condition
    store.append(event("E", "a"), store.read().condition)
    assert is_refused(store, scoped)


def test_o12_a_state_kept_at_the_own_position_misses_nothing_below_it(store: EventStore) -> None:
    """W reserves 10; we commit 11 and keep our state at 11; W commits 10, which nobody folds again."""

    def write() -> None:
        for _ in range(50):
            store.append(event("E", "a", "b"), AppendCondition(Query.tag("c")))

    def keep() -> list[Any]:
        folded: list[Any] = []
        at = 0
        while len(folded) < 100:
            read = store.read(Query.tag("a"), after=at)
            folded.extend(found.id for found in read)
            try:
                at = store.append(event("Own"), AppendCondition(Query.tag("a"), after=read.head)).position
            except AppendConditionFailed:
                at = read.head
        return folded

    *_, folded = at_once(write, write, keep)
    assert folded == [found.id for found in store.read(Query.tag("a"))]


def test_o12_forgetting_what_is_kept_in_memory_accepts_nothing_stale(kept: Place) -> None:
    """A marker at 5 is pruned; five appends later it is 5 again: the stale token fits."""
    with kept.connect() as store:
        stale = store.read(Query.tag("a")).condition
        store.append(event("E", "a"))
    for _ in range(3):
        with kept.connect() as store:
            assert is_refused(store, stale)
            store.append(event("E", "b"))


def test_c1_an_unrelated_open_transaction_hides_nothing(kept: Place) -> None:
    """C opens any transaction; A commits; B, with the same decision, no longer sees A's event."""
    with kept.connect() as a, kept.connect() as b:
        a.append(event("Opened", "wallet:1"))
        with unrelated_transaction(kept):
            decided = [a.read(Query.tag("wallet:1")).condition, b.read(Query.tag("wallet:1")).condition]
            a.append(event("Withdrawn", "wallet:1"), decided[0])
            assert is_refused(b, decided[1])
            subscription = b.subscribe(Query.tag("wallet:1"))
            assert [next(subscription).type for _ in range(2)] == ["Opened", "Withdrawn"]
            assert violations(b) == []


@pytest.mark.parametrize("wins", ["wide", "narrow"])
@pytest.mark.parametrize("is_one_transaction", [False, True])
def test_unequal_queries_that_overlap_exclude_each_other_whichever_is_first(
    store: EventStore, wins: str, is_one_transaction: bool
) -> None:
    """A asks for three types, B for two of them, same tag: two lock keys, both commit."""
    wide = store.read(Query.of(QueryItem(types=["Opened", "Paid", "Taken"], tags=["w"]))).condition
    narrow = store.read(Query.of(QueryItem(types=["Opened", "Taken"], tags=["w"]))).condition
    store.append([event("Paid", "other"), event("Renamed", "w")])  # which neither of them asked for
    conditions = [wide, narrow] if wins == "wide" else [narrow, wide]
    if is_one_transaction:
        first, second = store.append_many([AppendRequest(event("Taken", "w"), c) for c in conditions])
    else:
        first, second = (appended(store, event("Taken", "w"), c) for c in conditions)
    assert isinstance(first, AppendResult)
    assert isinstance(second, AppendConditionFailed)
    assert (second.conflict.position, store.count(Query.types("Taken"))) == (3, 1)


def test_a_narrow_query_is_not_refused_by_what_only_the_wide_one_asks_for(store: EventStore) -> None:
    """One lock for the wallet: a payment refuses a decision that does not depend on payments."""
    wide = store.read(Query.of(QueryItem(types=["Opened", "Paid", "Taken"], tags=["w"]))).condition
    narrow = store.read(Query.of(QueryItem(types=["Opened", "Taken"], tags=["w"]))).condition
    store.append(event("Paid", "w"), wide)
    assert not is_refused(store, narrow)
    assert is_refused(store, wide)


def test_c3_the_items_of_a_query_are_not_flattened(store: EventStore) -> None:
    """Three items with three tags become "an event with all three tags", which there never is."""
    wallet = Query.of(
        QueryItem(types=["Opened"], tags=["wallet:1"]),
        QueryItem(types=["Moved"], tags=["from:1"]),
        QueryItem(types=["Moved"], tags=["to:1"]),
    )
    stale = store.read(wallet).condition
    store.append(event("Moved", "from:1", "to:2"))
    assert is_refused(store, stale)
    mixed = store.read(wallet).condition
    store.append(event("Opened", "from:1"))
    store.append(event("Moved", "wallet:1"))
    assert not is_refused(store, mixed)


def test_c4_no_types_means_any_type_and_no_condition_means_none(store: EventStore) -> None:
    """An empty array of types is sent for a tag-only query: it never conflicts."""
    tag_only, type_only = store.read(Query.tag("a")).condition, store.read(Query.types("E")).condition
    store.append(event("E", "a"))
    assert is_refused(store, tag_only)
    assert is_refused(store, type_only)
    assert store.append(event("E", "b")).count == 1


def test_c5_the_head_of_a_read_is_never_less_than_what_it_returned(store: EventStore) -> None:
    """The last row's position is taken as the token, but it is not the greatest: refused for ever."""
    store.append([event("E", "a"), event("E", "a"), event("F", "a")])
    for options in ({"backwards": True}, {"limit": 1}, {"backwards": True, "limit": 1}, {}):
        read = store.read(Query.tag("a"), **options)  # type: ignore[arg-type]
        assert read.head >= max(found.position for found in read)
        assert not is_refused(store, read.condition)


def test_c6_a_reader_that_follows_loses_no_event(store: EventStore) -> None:
    """A inserts 2 and commits; the poller moves to 2; B commits 1: never delivered."""

    def write() -> None:
        for _ in range(50):
            store.append(event("E"))

    def follow() -> list[int]:
        subscription = store.subscribe()
        return [next(subscription).position for _ in range(150)]

    *_, first, second = at_once(write, write, write, follow, follow)
    assert first == second == list(range(1, 151))


def test_c7_a_repeat_is_known_before_the_condition_is_judged(store: EventStore) -> None:
    """A withdrawal is sent again after a timeout: its own first write is reported as a conflict."""
    condition = store.read(Query.tag("wallet:1")).condition
    withdrawal = event("Withdrawn", "wallet:1")
    first = store.append(withdrawal, condition)
    again = store.append(withdrawal, condition)
    assert (again.duplicate, again.position, store.count(Query.tag("wallet:1"))) == (True, first.position, 1)


def test_c8_an_append_without_condition_can_still_be_guarded_and_idempotent(store: EventStore) -> None:
    """A deposit needs no order, but it must not be doubled, nor reach a closed wallet."""
    store.append(event("Opened", "wallet:1"))
    closed = Query.of(QueryItem(types=["Closed"], tags=["wallet:1"]))
    deposit = event("Deposited", "wallet:1", "op:1")
    once = Query.tag("op:1")
    store.append(deposit, AppendCondition(closed, after=1), unless_exists=once)
    store.append(event("Deposited", "wallet:1", "op:2"), AppendCondition(closed, after=1))
    again = event("Deposited", "wallet:1", "op:1")
    assert store.append(again, AppendCondition(closed, after=1), unless_exists=once).duplicate
    store.append(event("Closed", "wallet:1"))
    assert is_refused(store, AppendCondition(closed, after=1))
    assert store.append(deposit, AppendCondition(closed, after=1)).duplicate


def test_c9_a_check_stops_at_the_first_conflict(embedded: EventStore) -> None:
    """COUNT(*) … LIMIT 1 looks at every match before it says that there is one."""
    embedded.append([event("E", "a") for _ in range(2_000)])
    asked: list[int] = []

    def where(found: Any) -> bool:
        asked.append(found.position)
        return True

    assert is_refused(embedded, AppendCondition(Query.of(QueryItem(tags=["a"], where=where))))
    assert asked == [1]


def test_c10_a_tag_cannot_smuggle_in_another(store: EventStore) -> None:
    """The value `a,wallet:bob` becomes two tags: an event in somebody else's boundary."""
    bob = store.read(Query.tag("wallet:bob")).condition
    for text in ("wallet:a,wallet:bob", "{wallet:bob}", 'x","wallet:bob', "x'),('wallet:bob", "WALLET:BOB"):
        store.append(event("E", text))
        assert store.exists(Query.tag(text))
    assert not store.exists(Query.tag("wallet:bob"))
    assert not is_refused(store, bob)


def test_c11_a_check_sees_what_was_committed_while_it_waited(kept: Place) -> None:
    """B's snapshot is older than its wait for the lock: it cannot see the winner."""
    with kept.connect() as a, kept.connect() as b:
        a.append([event("E", "x") for _ in range(1_000)])
        half_read = iter(b.read(Query.tag("x")))
        next(half_read)
        stale = b.read(Query.tag("y")).condition
        a.append(event("E", "y"))
        assert is_refused(b, stale)
        assert sum(1 for _ in half_read) == 999
