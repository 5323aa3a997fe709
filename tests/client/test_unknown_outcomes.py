"""A request or its answer is lost. What was written is written once, and the caller is never told otherwise."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest

import strandline
from http_proxy import Fault, HttpProxy, http_proxy
from places import Place
from served import ServedLogs
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    AppendResult,
    Event,
    EventStore,
    Query,
    TrackingConflict,
    Unavailable,
)
from strandline.testing import violations

FAULTS: tuple[Fault, ...] = ("lose request", "lose answer", "cut answer", "come late")
WRITES = b"POST"


@pytest.fixture
def kept() -> Iterator[EventStore]:
    """The store of the server."""
    with strandline.connect("memory:") as kept:
        yield kept


@pytest.fixture
def place(served: ServedLogs, kept: EventStore) -> Place:
    """Where it is reached over HTTP."""
    return served.serve(kept)


@pytest.fixture
def proxy(place: Place) -> Iterator[HttpProxy]:
    """A proxy in front of the server."""
    with http_proxy(str(place.url)) as proxy:
        yield proxy


@pytest.fixture
def store(place: Place, proxy: HttpProxy) -> Iterator[EventStore]:
    """A client behind the proxy."""
    with strandline.connect(proxy.url, log=str(place.log)) as store:
        yield store


def writes(proxy: HttpProxy) -> int:
    return sum(request.startswith(WRITES) for request in proxy.requests)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_append_is_sent_again_and_written_once(
    store: EventStore, kept: EventStore, proxy: HttpProxy, fault: Fault
) -> None:
    proxy.fail_once(fault, WRITES)
    assert store.append([Event("A", {}), Event("B", {})]) == AppendResult(1, 2, 2)
    assert writes(proxy) == 2
    time.sleep(0.2)  # in which a request that comes late would be written
    assert kept.head() == 2
    assert store.append(Event("C", {})) == AppendResult(3, 3, 1)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_batch_is_sent_again_and_each_request_has_its_outcome(
    store: EventStore, kept: EventStore, proxy: HttpProxy, fault: Fault
) -> None:
    known = Event("A", {}, tags=["x"])
    kept.append(known)
    assert store.head() == 1
    proxy.fail_once(fault, WRITES)
    twice = Event("D", {})
    outcomes = store.append_many(
        [
            AppendRequest([Event("B", {}), Event("B", {})]),
            AppendRequest(Event("C", {}), AppendCondition(Query.tag("x"))),
            AppendRequest(known),
            AppendRequest(twice),
            AppendRequest(twice),
            AppendRequest(Event("E", {}), unless_exists=Query.types("D")),
            AppendRequest(Event("F", {}), tracking=("orders", 5)),
            AppendRequest(Event("G", {}), tracking=("orders", 4)),
        ]
    )
    refused, conflict = outcomes.pop(1), outcomes.pop(-1)
    assert isinstance(refused, AppendConditionFailed)
    assert isinstance(conflict, TrackingConflict)
    assert outcomes == [
        AppendResult(2, 3, 2),
        AppendResult(1, 1, 1, duplicate=True),
        AppendResult(4, 4, 1),
        AppendResult(4, 4, 1, duplicate=True),
        AppendResult(4, 4, 1, duplicate=True),
        AppendResult(5, 5, 1),
    ]
    time.sleep(0.2)
    assert kept.head() == 5


def test_a_repeat_stays_one_although_it_was_sent_twice(
    store: EventStore, kept: EventStore, proxy: HttpProxy
) -> None:
    event = Event("A", {})
    store.append(event)
    proxy.fail_once("lose answer", WRITES)
    assert store.append(event).duplicate
    proxy.fail_once("lose answer", WRITES)
    assert store.append(Event("B", {}), unless_exists=Query.types("A")) == AppendResult(
        1, 1, 1, duplicate=True
    )
    assert kept.head() == 1


def test_what_another_client_wrote_meanwhile_is_not_ours(
    store: EventStore, kept: EventStore, proxy: HttpProxy
) -> None:
    kept.append(Event("A", {}))  # the client has not seen it
    proxy.fail_once("lose answer", WRITES)
    outcome = store.append(Event("B", {}), unless_exists=Query.types("A"))
    assert outcome == AppendResult(1, 1, 1, duplicate=True)


def test_a_conflict_that_came_meanwhile_refuses_what_never_arrived(
    store: EventStore, kept: EventStore, proxy: HttpProxy
) -> None:
    read = store.read(Query.tag("x"))

    def lose(request: bytes) -> Fault | None:
        if not request.startswith(WRITES) or kept.head():
            return None
        kept.append(Event("A", {}, tags=["x"]))
        return "lose request"

    proxy.fault = lose
    with pytest.raises(AppendConditionFailed):
        store.append(Event("B", {}), read.condition)
    assert kept.head() == 1


@pytest.mark.parametrize("fault", ["lose answer", "cut answer", "lose request"])
def test_after_two_lost_tries_nobody_knows_and_the_same_again_finds_out(
    store: EventStore, kept: EventStore, proxy: HttpProxy, fault: Fault
) -> None:
    event = Event("A", {})
    proxy.fail_always(fault, WRITES)
    with pytest.raises(Unavailable) as caught:
        store.append(event)
    assert (caught.value.written, caught.value.retry) == (None, "same")
    assert writes(proxy) == 2
    proxy.heal()
    assert store.append(event).duplicate == (fault != "lose request")
    assert kept.head() == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_retag_is_never_sent_twice(
    store: EventStore, kept: EventStore, proxy: HttpProxy, fault: Fault
) -> None:
    store.append(Event("A", {}, tags=["x:1"]))
    before = writes(proxy)
    proxy.fail_always(fault, WRITES)
    with pytest.raises(Unavailable) as caught:
        store.retag(1, replace={"x": ["2"]})
    assert caught.value.written is None
    assert writes(proxy) == before + 1
    time.sleep(0.2)
    assert kept.head() == (1 if fault == "lose request" else 2)


def test_a_retag_never_takes_an_idle_connection(store: EventStore, proxy: HttpProxy) -> None:
    store.append(Event("A", {}, tags=["x:1"]))
    before = proxy.connections
    assert store.retag(1, replace={"x": ["2"]}).count == 1
    assert proxy.connections == before + 1


def test_a_position_without_events_is_known_by_nobody_after_a_lost_answer(
    store: EventStore, kept: EventStore, proxy: HttpProxy
) -> None:
    proxy.fail_once("lose answer", WRITES)
    with pytest.raises(Unavailable) as caught:
        store.append((), tracking=("orders", 7))
    assert caught.value.written is None
    assert "tracked" in caught.value.hint
    assert store.tracked("orders") == 7


def test_reads_are_asked_again(store: EventStore, kept: EventStore, proxy: HttpProxy) -> None:
    kept.append([Event("A", {"n": n}, tags=["x"]) for n in range(1_200)])
    uses = (
        store.head,
        lambda: [event.position for event in store.read()],
        lambda: store.count(Query.tag("x")),
        lambda: store.exists(Query.tag("x")),
        lambda: len(list(store.appends())),
        lambda: store.event(7).position,
        lambda: store.inspect.types()[0].count,
        lambda: len(store.engine.read_page(Query.all(), strandline.engine.Span(), 2**31 - 1).events),
    )
    for use in uses:
        expected = use()
        for fault in FAULTS:
            proxy.fail_once(fault)
            assert use() == expected
        proxy.fail_always("cut answer")
        with pytest.raises(Unavailable) as caught:
            use()
        assert caught.value.written is False
        proxy.heal()


def test_a_connection_that_was_closed_while_it_was_idle_is_not_noticed(
    store: EventStore, kept: EventStore, proxy: HttpProxy
) -> None:
    for number in range(1, 6):
        assert store.append(Event("A", {})) == AppendResult(number, number, 1)
        proxy.cut()
        assert store.head() == number
        proxy.cut()
    assert writes(proxy) == 5


def test_a_decision_under_faults_is_made_once(store: EventStore, kept: EventStore, proxy: HttpProxy) -> None:
    """Threads race for seats while one request in five is lost: no seat is sold twice, and nobody is told a lie."""
    rng = random.Random(7)
    proxy.fault = lambda request: rng.choice(FAULTS) if rng.random() < 0.2 else None
    sold: list[tuple[int, AppendResult]] = []
    lost: list[Event] = []

    def buy(buyer: int) -> None:
        for seat in range(12):
            query = Query.tag(f"seat:{seat}")
            taken = Event("Taken", {"by": buyer}, tags=[f"seat:{seat}"])
            condition = sure(lambda query=query: store.read(query)).condition  # type: ignore[misc]
            if condition.after and sure(lambda query=query: store.exists(query)):  # type: ignore[misc]
                continue
            try:
                sold.append((seat, sure(lambda: store.append(taken, condition))))  # noqa: B023
            except AppendConditionFailed:
                lost.append(taken)

    threads = [threading.Thread(target=buy, args=(buyer,)) for buyer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    time.sleep(0.2)
    by_seat = [event.tags[0] for event in kept.read()]
    assert sorted(by_seat) == sorted({f"seat:{seat}" for seat in range(12)})
    assert sorted(seat for seat, _ in sold) == list(range(12))
    assert {result.position for _, result in sold} == set(range(1, 13))
    assert not {event.id for event in lost} & {event.id for event in kept.read()}
    assert violations(kept) == []


def sure(ask):
    """The answer, however often it takes."""
    while True:
        try:
            return ask()
        except Unavailable:
            continue
