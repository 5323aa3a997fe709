"""When a decision on types and a matcher conflicts (the table of node-event-storage), on every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from places import Place
from strandline import AppendConditionFailed, Event, EventStore, Query, QueryItem, SequencedEvent
from strandline.testing import violations

ADA = "ada@example.org"
MATCHERS: list[Any] = [
    {"email": ADA},
    {"email": [ADA, "somebody@example.org"]},
    {"email": {"$eq": ADA}, "age": {"$gte": 18}},
    {"email": ADA, "$metadata": {"by": "web"}},
    lambda event: event.json()["email"] == ADA,
    lambda event: event.json()["email"] == ADA and event.metadata["by"] == "web",
]


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        store.append([registered(ADA), registered("bob@example.org")])
        yield store
        assert violations(store) == []


def registered(email: str, type_: str = "CustomerRegistered") -> Event:
    return Event(type_, {"email": email, "age": 36}, metadata={"by": "web"})


def customers(matcher: Any = None) -> Query:
    return Query.of(QueryItem(types=["CustomerRegistered", "EmailChanged"], where=matcher))


def conflict(store: EventStore, query: Query, *newer: Event) -> SequencedEvent | None:
    """What refuses a decision if these are written between its read and its append."""
    read = store.read(query)
    for event in newer:
        store.append(event)
    try:
        store.append(Event("Decided", {}), read.condition)
    except AppendConditionFailed as refusal:
        return refusal.conflict
    return None


@pytest.mark.parametrize("matcher", [None, *MATCHERS])
def test_no_new_event_of_the_types_is_no_conflict(store: EventStore, matcher: Any) -> None:
    assert conflict(store, customers(matcher)) is None
    assert conflict(store, customers(matcher), registered(ADA, "NewsletterSent")) is None


@pytest.mark.parametrize("matcher", MATCHERS)
def test_new_events_of_the_types_that_do_not_match_are_no_conflict(store: EventStore, matcher: Any) -> None:
    newer = registered("eve@example.org"), registered("bob@example.org", "EmailChanged")
    assert conflict(store, customers(matcher), *newer) is None


@pytest.mark.parametrize("matcher", MATCHERS)
def test_one_new_event_that_matches_is_a_conflict(store: EventStore, matcher: Any) -> None:
    newer = registered("eve@example.org"), registered(ADA, "EmailChanged")
    found = conflict(store, customers(matcher), *newer)
    assert found is not None
    assert found.id == newer[1].id


def test_without_a_matcher_any_new_event_of_the_types_is_a_conflict(store: EventStore) -> None:
    assert conflict(store, customers(), registered("eve@example.org")) is not None


@pytest.mark.parametrize("matcher", MATCHERS)
def test_a_read_gives_the_lines_and_the_condition_of_its_matcher(store: EventStore, matcher: Any) -> None:
    store.append([registered("eve@example.org"), registered(ADA, "EmailChanged")])
    read = store.read(customers(matcher), after=1)
    (line,) = read.ndjson()
    assert line.endswith(b"}\n")
    event = SequencedEvent.from_json(line)
    assert (event.position, event.type, event.json()["email"]) == (4, "EmailChanged", ADA)
    assert (read.condition.fail_if_events_match, read.condition.after) == (customers(matcher), 4)


def test_an_address_is_registered_once(store: EventStore) -> None:
    """S4-13: unique across all customers, whatever their streams are."""

    def register(email: str) -> Callable[[Any], list[Event]]:
        return lambda events: [] if events else [registered(email)]

    for email, count in ((ADA, 0), ("new@example.org", 1), ("new@example.org", 0)):
        done = store.decide(customers({"email": email}), register(email), stream=f"customer-{store.head()}")
        assert done.count == count
