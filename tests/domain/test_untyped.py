"""`store.decide` on every engine: a decision on the events of some tags, a stream or a query."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import pytest
from enrolment import CourseDefined, CourseId, StudentId

from elsewhere import elsewhere
from places import Place
from strandline import (
    AppendConditionFailed,
    Decision,
    Event,
    EventStore,
    InvalidEvent,
    InvalidInput,
    InvalidQuery,
    MissingTags,
    Query,
    QueryItem,
    SequencedEvent,
)
from strandline.partition import stream_for
from strandline.testing import interfering, violations

Events = Sequence[SequencedEvent]


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        yield store


def joined(*tags: str, **options: Any) -> Event:
    return Event("Joined", {}, tags=tags, **options)


def last(store: EventStore) -> SequencedEvent:
    (event,) = store.read(backwards=True, limit=1)
    return event


def asked(store: EventStore) -> Query:
    """What the last append was checked against."""
    *_, append = store.appends()
    assert append.condition is not None
    return append.condition.fail_if_events_match


def test_a_set_of_tags_reads_the_events_with_any_of_them(store: EventStore) -> None:
    store.append([joined("user:1"), joined("course:1"), joined("other"), joined("user:1", "course:1")])
    seen: list[int] = []

    def decide(events: Events) -> list[Event]:
        seen.extend(event.position for event in events)
        return [joined("user:1")]

    executed = store.decide({"user:1", "course:1"}, decide)
    assert seen == [1, 2, 4]
    assert (executed.first, executed.position, executed.count, executed.attempts) == (5, 5, 1, 1)
    assert asked(store) == Query.of(QueryItem(tags=["course:1"]), QueryItem(tags=["user:1"]))
    assert violations(store) == []


@pytest.mark.parametrize(
    "tags",
    [
        ["student:1", "course:1"],
        ("course:1", "student:1", "course:1"),
        [StudentId("1"), CourseId("1")],
        {"student:1", "course:1"},
        iter(["course:1", "student:1"]),
    ],
)
def test_the_order_and_the_kind_of_the_tags_do_not_matter(tags: Any) -> None:
    with Place("memory:").connect() as store:
        store.decide(tags, lambda _: [joined("course:1")])
        assert [item.tags for item in asked(store).items] == [("course:1",), ("student:1",)]
        assert last(store).stream == stream_for(["course:1", "student:1"])


def test_a_lone_tag_id_is_a_tag_and_no_stream(store: EventStore) -> None:
    store.decide(CourseId("1"), lambda _: [joined("course:1")])
    assert asked(store) == Query.tag("course:1")
    assert last(store).stream == stream_for(["course:1"])


def test_the_tags_of_the_boundary_are_not_copied_to_the_events(store: EventStore) -> None:
    store.decide({"user:1", "course:1"}, lambda _: [joined("course:1", "seat:1"), joined("user:1")])
    assert [event.tags for event in store.read()] == [("course:1", "seat:1"), ("user:1",)]


def test_an_event_that_the_same_decision_would_not_find_is_told(place: Place) -> None:
    with place.connect() as store:
        with pytest.warns(MissingTags, match=r"Joined carries none of the tags .*\(user:1\)"):
            assert store.decide({"user:1"}, lambda _: [joined("course:1")]).count == 1
        store.decide({"user:1"}, lambda _: [joined()], tag_with=lambda _: ["user:1"])
        store.decide("game-1", lambda _: [joined()])
        store.decide(Query.types("Joined"), lambda _: [joined()])
    with Place("memory:").connect(strict_tags=True) as strict:
        with pytest.raises(InvalidEvent, match="carries none of the tags"):
            strict.decide({"user:1"}, lambda _: [joined("course:1")])
        assert strict.head() == 0


def test_tag_with_adds_to_the_own_tags_of_each_event(store: EventStore) -> None:
    def generate(event: Event) -> list[str]:
        return [CourseId("1"), f"kind:{event.type}"] if event.type == "Joined" else []

    own = joined("own"), Event("Left", {}, tags=["course:1"]), CourseDefined(course=CourseId("1"), capacity=3)
    store.decide({"course:1"}, lambda _: own, tag_with=generate)
    assert [event.tags for event in store.read()] == [
        ("course:1", "kind:Joined", "own"),
        ("course:1",),
        ("course:1",),
    ]


def test_the_name_of_a_stream_reads_and_writes_that_stream(store: EventStore) -> None:
    store.append(joined(), stream="game-1")
    store.append(joined(), stream="game-2")
    executed = store.decide("game-1", lambda events: [Event("Guessed", len(events))])
    assert asked(store) == Query.stream("game-1")
    assert (executed.position, last(store).stream, last(store).json()) == (3, "game-1", 1)
    assert store.count(Query.stream("game-1")) == 2


def test_a_query_is_taken_as_it_is(store: EventStore) -> None:
    query = Query.of(QueryItem(types=["Joined"], tags=["user:1", "course:1"]))
    store.append([joined("user:1", "course:1"), joined("user:1")])
    counted = functools.partial(Event, "Counted", tags=["user:1"])
    store.decide(query, lambda events: [counted([event.position for event in events])])
    assert (asked(store), last(store).json(), last(store).stream) == (query, [1], None)


@pytest.mark.parametrize(
    ("boundary", "stream", "expected"),
    [
        ({"b", "a"}, None, stream_for(["a", "b"])),
        ({"b", "a"}, "mine", "mine"),
        ({"b", "a"}, "-".join, "a-b"),
        ({"b", "a"}, lambda _: None, None),
        ("game", None, "game"),
        ("game", "other", "other"),
        ("game", lambda tags: f"none{len(tags)}", "none0"),
        (Query.tag("b") | Query.tag("a", "c"), None, None),
        (Query.tag("b") | Query.tag("a", "c"), "-".join, "a-b-c"),
    ],
)
def test_events_go_to_the_stream_of_the_decision(
    store: EventStore, boundary: Any, stream: Any, expected: str | None
) -> None:
    store.decide(boundary, lambda _: [joined("a"), joined("b", stream="own")], stream=stream)
    assert [event.stream for event in store.read()] == [expected, "own"]


def returns_value(events: Events) -> Generator[Event, None, int]:
    yield joined("a")
    return len(events)


@pytest.mark.parametrize(
    ("decide", "value", "count"),
    [
        (lambda events: Decision(f"{len(events)}", [joined("a"), joined("a")]), "0", 2),
        (lambda events: Decision(len(events), iter([joined("a")])), 0, 1),
        (lambda _: Decision("nothing"), "nothing", 0),
        (returns_value, 0, 1),
        (lambda _: [joined("a")], None, 1),
        (lambda _: joined("a"), None, 1),
        (lambda _: CourseDefined(course=CourseId("a"), capacity=1), None, 1),
        (lambda _: iter(()), None, 0),
        (lambda _: [], None, 0),
        (lambda _: None, None, 0),
    ],
)
def test_a_decision_gives_events_and_may_give_a_value(
    store: EventStore, decide: Any, value: object, count: int
) -> None:
    executed = store.decide({"a", "course:a"}, decide)
    assert (executed.value, executed.count, store.head()) == (value, count, count)


def test_a_decision_for_nothing_writes_nothing_and_says_what_it_saw(store: EventStore) -> None:
    store.append([joined("a"), joined("b")])
    executed = store.decide({"a"}, lambda events: Decision(len(events)))
    assert (executed.value, executed.count, executed.first, executed.position) == (1, 0, 2, 2)
    assert len(list(store.appends())) == 1


def test_a_conflict_is_decided_again_on_what_is_new(store: EventStore) -> None:
    seen: list[int] = []

    def decide(events: Events) -> Decision[int]:
        seen.append(len(events))
        return Decision(len(events), [joined("course:1")])

    with interfering(store, joined("course:1"), joined("user:1"), joined("user:2")):
        executed = store.decide({"user:1", "course:1"}, decide)
    assert seen == [0, 1, 2]
    assert (executed.value, executed.attempts, executed.position) == (2, 3, 4)
    assert violations(store) == []


def test_attempts_are_bounded_and_the_last_error_tells(store: EventStore) -> None:
    rivals = [joined("a") for _ in range(5)]
    with interfering(store, *rivals), pytest.raises(AppendConditionFailed) as caught:
        store.decide({"a"}, lambda _: [joined("a")], attempts=3)
    assert (caught.value.attempts, caught.value.conflict.position) == (3, 3)


def test_an_error_of_the_function_writes_nothing_and_is_not_retried(store: EventStore) -> None:
    calls: list[int] = []

    def decide(_: Events) -> list[Event]:
        calls.append(1)
        elsewhere(store.append, joined("a"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.decide({"a"}, decide)
    assert (len(calls), store.head()) == (1, 1)


def test_the_condition_may_be_narrower_than_what_is_read(store: EventStore) -> None:
    leave = Query.of(QueryItem(types=["Left"], tags=["a"]))
    with interfering(store, joined("a")):
        assert store.decide({"a"}, lambda _: [joined("a")], condition=leave).attempts == 1
    assert asked(store) == leave
    with interfering(store, Event("Left", {}, tags=["a"])):
        assert store.decide({"a"}, lambda _: [joined("a")], condition=leave).attempts == 2


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (([], list), {}, InvalidQuery),
        ((set(), list), {}, InvalidQuery),
        ((3, list), {}, InvalidQuery),
        ((b"a", list), {}, InvalidQuery),
        (("", list), {}, InvalidQuery),
        (([1], list), {}, InvalidQuery),
        ((["$stream:a"], list), {}, InvalidQuery),
        ((["a"], None), {}, InvalidInput),
        ((["a"], [joined()]), {}, InvalidInput),
        ((["a"], list), {"attempts": 0}, InvalidInput),
        ((["a"], list), {"attempts": True}, InvalidInput),
        ((["a"], list), {"condition": "a"}, InvalidQuery),
        ((["a"], list), {"stream": 3}, InvalidInput),
        ((["a"], list), {"stream": ""}, InvalidInput),
        ((["a"], list), {"stream": len}, InvalidInput),
        ((["a"], lambda _: ["Joined"]), {}, InvalidEvent),
        ((["a"], lambda _: "Joined"), {}, InvalidEvent),
        ((["a"], lambda _: 7), {}, InvalidEvent),
        ((["a"], lambda _: Decision(1, 7)), {}, InvalidEvent),  # type: ignore[arg-type]
        ((["a"], lambda _: [joined()]), {"tag_with": lambda _: "ab"}, InvalidEvent),
        ((["a"], lambda _: [joined()]), {"tag_with": lambda _: ["$a"]}, InvalidEvent),
    ],
)
def test_bad_input_writes_nothing_and_says_what_to_change(
    arguments: Any, options: Any, error: type[InvalidInput]
) -> None:
    with Place("memory:").connect() as store:
        with pytest.raises(error) as caught:
            store.decide(*arguments, **options)
        assert caught.value.hint
        assert store.head() == 0


def test_async_stores_do_the_same(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:

            def take(events: Events) -> Decision[int]:
                free = 3 - len(events)
                return Decision(free, [joined("seats")] if free else [])

            outcomes = await asyncio.gather(*(store.decide({"seats"}, take, attempts=50) for _ in range(6)))
            assert sorted(outcome.value or 0 for outcome in outcomes) == [0, 0, 0, 1, 2, 3]
            assert await store.count(Query.tag("seats")) == 3
            assert (await store.decide("game", lambda _: [joined()], stream=lambda _: "other")).position == 4
            assert await store.count(Query.stream("other")) == 1
            with pytest.raises(InvalidQuery):
                await store.decide([], lambda _: [joined()])

    asyncio.run(main())


def test_many_threads_never_take_more_than_there_is(store: EventStore) -> None:
    """Each takes a course of its own for one user, who may have three: different streams, one boundary."""

    def take(course: int) -> None:
        tags = ["user:1", f"course:{course}"]

        def decide(events: Events) -> list[Event]:
            return [joined(*tags)] if sum("user:1" in event.tags for event in events) < 3 else []

        store.decide(tags, decide, attempts=100)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.count(Query.tag("user:1")) == 3
    assert violations(store) == []


def test_a_retag_from_one_tag_to_another_is_decided_again(store: EventStore) -> None:
    store.append(joined("course:1"))
    seen = []

    def decide(events: Events) -> list[Event]:
        seen.append([event.tags for event in events])
        return [joined("course:2")]

    with interfering(store, lambda: store.retag([1], replace={"course": ["2"]})):
        store.decide({"course:1", "course:2"}, decide)
    assert seen == [[("course:1",)], [("course:2",)]]
