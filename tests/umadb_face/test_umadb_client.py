"""UmaDB's Python package, unchanged, against every engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
import umadb
from faces import PATIENCE_SECONDS, Served, grpc_serving

from places import Place
from strandline import Event, EventStore

Query, Item, Condition = umadb.Query, umadb.QueryItem, umadb.AppendCondition


@pytest.fixture
def everywhere(place: Place) -> Iterator[tuple[EventStore, Served]]:
    """A server for an empty log of each engine."""
    with place.connect() as store, grpc_serving(store) as served:
        yield store, served


@pytest.fixture
def client(everywhere: tuple[EventStore, Served]) -> Iterator[umadb.Client]:
    with everywhere[1].client(batch_size=2) as client:
        yield client


def ordered(number: int, **fields: object) -> umadb.Event:
    given = {"tags": [f"order:{number}"], "uuid": uuid4(), "metadata": {"user": "ada"}} | fields
    return umadb.Event("Ordered", b"%d" % number, **given)


def positions(events: object) -> list[int]:
    return [event.position for event in events]


def test_it_appends_and_reads(client: umadb.Client) -> None:
    assert client.head() is None
    events = [ordered(number) for number in (1, 2, 3)]
    assert client.append(events) == 3
    assert client.head() == 3
    answer = client.read()
    for sequenced, event in zip(answer, events, strict=True):
        read = sequenced.event
        assert (read.event_type, bytes(read.data), read.tags) == ("Ordered", event.data, event.tags)
        assert (read.uuid, read.metadata) == (event.uuid, {"user": "ada"})
        assert sequenced.tracking_info is None
    assert answer.head() == 3


def test_it_reads_what_is_asked_for(client: umadb.Client) -> None:
    client.append([ordered(number) for number in (1, 2, 3, 4, 5)])
    client.append([umadb.Event("Paid", b"", ["order:2", "late"])])
    assert positions(client.read(start=4)) == [4, 5, 6]
    assert positions(client.read(start=4, backwards=True)) == [4, 3, 2, 1]
    assert positions(client.read(limit=3)) == [1, 2, 3]
    assert positions(client.read(backwards=True, limit=3)) == [6, 5, 4]
    assert positions(client.read(Query([Item(tags=["order:2"])]))) == [2, 6]
    assert positions(client.read(Query([Item(types=["Paid"]), Item(tags=["order:1"])]))) == [1, 6]
    assert positions(client.read(Query([Item(types=["Paid"], tags=["late", "order:2"])]))) == [6]
    assert positions(client.read(Query([Item(types=["Never"])]))) == []
    assert client.read(limit=3).collect_with_head()[1] == 3
    answer = client.read()
    assert [len(answer.next_batch()) for _ in range(4)] == [2, 2, 2, 0]


def test_a_condition_refuses_what_came_meanwhile(client: umadb.Client) -> None:
    boundary = Query([Item(tags=["order:1"])])
    client.append([ordered(1)], Condition(boundary))
    with pytest.raises(umadb.IntegrityError, match="event 1 \\(Ordered\\) matches the append condition"):
        client.append([ordered(1)], Condition(boundary))
    assert client.append([ordered(1)], Condition(boundary, 1)) == 2


def test_a_repeat_is_answered_like_the_first_time(client: umadb.Client) -> None:
    boundary, events = Condition(Query([Item(tags=["order:1"])])), [ordered(1), ordered(1)]
    assert client.append(events, boundary) == 2
    client.append([ordered(1)])
    assert client.append(events, boundary) == 2
    assert client.head() == 3


def test_tracking_goes_with_the_append(client: umadb.Client) -> None:
    assert client.get_tracking_info("kafka") is None
    assert client.append([ordered(1)], None, umadb.TrackingInfo("kafka", 7)) == 1
    assert client.append([], None, umadb.TrackingInfo("kafka", 9)) == 0
    assert client.get_tracking_info("kafka") == 9
    for position in (8, 9):
        with pytest.raises(umadb.IntegrityError, match="is not newer than position 9"):
            client.append([ordered(2)], None, umadb.TrackingInfo("kafka", position))
    assert [event.tracking_info for event in client.read()] == [umadb.TrackingInfo("kafka", 7)]
    assert client.head() == 1


def test_a_subscription_catches_up_and_then_waits(
    everywhere: tuple[EventStore, Served], client: umadb.Client
) -> None:
    store, _ = everywhere
    client.append([ordered(1), ordered(2), ordered(3)])
    subscription = client.subscribe(Query([Item(types=["Ordered"])]), after=1)
    assert [next(subscription).position for _ in range(2)] == [2, 3]
    store.append(Event("Other", 1))
    store.append(Event("Ordered", 1))
    assert next(subscription).position == 5
    subscription.cancel()
    with pytest.raises(umadb.CancelledByUserError):
        next(subscription)


def test_a_subscription_that_waits_can_be_cancelled(client: umadb.Client) -> None:
    subscription, ended = client.subscribe(), threading.Event()

    def wait() -> None:
        with pytest.raises(umadb.CancelledByUserError):
            next(subscription)
        ended.set()

    threading.Thread(target=wait).start()
    time.sleep(0.05)
    subscription.cancel()
    assert ended.wait(PATIENCE_SECONDS)


def test_it_says_that_the_server_is_well(client: umadb.Client) -> None:
    assert client.check_health() == client.check_health("umadb.v1.DCB") == umadb.ServingStatus.SERVING
    watch = client.watch_health()
    assert next(watch) == umadb.ServingStatus.SERVING
    watch.cancel()


def test_errors_become_the_exceptions_of_the_package(client: umadb.Client) -> None:
    with pytest.raises(ValueError, match=r"a type has 1 to 256 characters, this one has 0\. Hint: "):
        client.append([umadb.Event("", b"")])
    with pytest.raises(ValueError, match=r"starts with '\$' is reserved"):
        client.read(Query([Item(tags=["$key:x"])])).next_batch()
    assert client.head() is None


def test_many_threads_decide_and_none_overlooks_another(client: umadb.Client) -> None:
    seats, sold = Query([Item(tags=["show:1"])]), []

    def sell(number: int) -> None:
        while True:
            answer = client.read(seats)
            taken = len(list(answer))
            if taken == 10:
                return
            try:
                client.append(
                    [umadb.Event("SeatSold", b"%d" % number, ["show:1"], uuid4())],
                    Condition(seats, answer.head()),
                )
            except umadb.IntegrityError:
                continue
            sold.append(number)

    threads = [threading.Thread(target=sell, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert client.head() == len(sold) == 10


def test_what_does_not_fit_into_one_message_comes_in_several(everywhere: tuple[EventStore, Served]) -> None:
    store, served = everywhere
    for _ in range(12):
        store.append(Event("Large", b"x" * 1_000_000))
    client = served.client()
    assert positions(client.read()) == list(range(1, 13))
    subscription = client.subscribe()
    assert [next(subscription).position for _ in range(12)] == list(range(1, 13))
    subscription.cancel()
