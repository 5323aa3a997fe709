"""Live streams over HTTP: real sockets, a real server."""

from __future__ import annotations

import gc
import http.client
import itertools
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

import pytest
from serving import Client, serving

import strandline
from places import Place
from strandline import Event, EventStore, Query, QueryItem
from strandline.server import app
from strandline.server.exchange import Limits
from strandline.server.tokens import create_token, revoke_token

PATIENCE = 30


class Message(NamedTuple):
    kind: str
    id: int | None
    data: Any


class Live:
    """A client of a live stream, which sees each message."""

    def __init__(
        self, client: Client, path: str = "events", body: Any = None, method: str = "", **headers: str
    ) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE)
        sent = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if sent is not None:
            named["content-type"] = "application/json"
        named.setdefault("accept", "text/event-stream")
        method = method or ("GET" if body is None else "POST")
        self._connection.request(method, f"{client.base}/{path}", sent, client.headers | named)
        self.answer = self._connection.getresponse()
        self.socket: socket.socket = self._connection.sock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.answer.close()
        self._connection.close()

    def __iter__(self) -> Iterator[Message]:
        fields: dict[str, str] = {}
        while line := self.answer.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            else:
                number = fields.get("id")
                yield Message(
                    fields["event"], None if number is None else int(number), json.loads(fields["data"])
                )
                fields = {}

    def until(self, kind: str, position: int = 0) -> list[Message]:
        """The messages up to the first of a kind with at least this position."""
        seen = []
        for message in self:
            seen.append(message)
            if message.kind == kind and (message.id is None or message.id >= position):
                return seen
        raise AssertionError(f"it ended: {seen[-3:]}")

    def until_looked(self, position: int) -> list[int]:
        """The positions of the events up to a checkpoint."""
        return positions(self.until("checkpoint", position))


def positions(messages: list[Message]) -> list[int]:
    return [message.data["position"] for message in messages if message.kind == "event"]


def happened(*tags: str, **data: Any) -> Event:
    return Event("Happened", data, tags=tags)


def until(is_so: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def test_a_stream_catches_up_and_goes_on(store: EventStore, client: Client) -> None:
    written = store.append([happened("x", n=n) for n in range(3)])
    with Live(client) as live:
        assert live.answer.status == 200
        assert live.answer.headers["content-type"] == "text/event-stream"
        assert live.answer.headers["cache-control"] == "no-store"
        first, *_ = seen = live.until("checkpoint")
        assert first == Message("event", 1, json.loads(store.event(1).to_json()))
        assert positions(seen) == [1, 2, 3]
        assert seen[-1] == Message("checkpoint", 3, {"position": 3})
        store.append(happened("y"))
        (message, *_) = live.until("event")[-1:]
        assert (message.id, message.data) == (4, json.loads(store.event(4).to_json()))
    assert written.count == 3


@pytest.mark.parametrize(
    ("parameters", "query"),
    [
        ({"tag": "x"}, Query.tag("x")),
        ({"type": "Other", "exclude_type": ()}, Query.types("Other")),
        ({"stream": "s"}, Query.stream("s")),
        ({"where": '{"n": {"$gte": 2}}'}, Query.of(QueryItem(where={"n": {"$gte": 2}}))),
        ({"query": '{"items": [{"tags": ["x"]}, {"types": ["$retagged"]}]}'}, None),
    ],
)
def test_a_stream_has_the_events_of_its_query_and_says_how_far_it_looked(
    store: EventStore, client: Client, parameters: dict[str, Any], query: Query | None
) -> None:
    query = query or Query.tag("x") | Query.types("$retagged")

    def append() -> int:
        store.append([happened("x", n=1), happened("y", n=2)])
        store.append(Event("Other", {"n": 3}, stream="s"))
        return store.retag([1], add=["z"]).position

    append()
    path = f"events?{urlencode({**parameters, 'after': 1}, doseq=True)}&format=sse"
    with Live(client, path, accept="*/*") as live, Live(client, "read", body_of(query)) as by_body:
        head = append()
        expected = [event.position for event in store.read(query, after=1)]
        assert live.until_looked(head) == expected
        assert by_body.until_looked(head) == expected


def body_of(query: Query) -> dict[str, Any]:
    return {"query": json.loads(query.to_json()), "after": 1}


def test_query_as_a_method_streams_too(store: EventStore, client: Client) -> None:
    store.append(happened("x"))
    with Live(client, "events?format=sse", {"query": {"items": [{"tags": ["x"]}]}}, method="QUERY") as live:
        assert positions(live.until("event")) == [1]


def test_a_checkpoint_comes_each_second_also_while_nothing_matches(store: EventStore, client: Client) -> None:
    with Live(client, "events?tag=none") as live:
        assert next(iter(live)) == Message("checkpoint", 0, {"position": 0})
        began = time.monotonic()
        store.append([happened("other") for _ in range(5)])
        seen = live.until("checkpoint", 5)
        assert {message.kind for message in seen} == {"checkpoint"}
        assert seen[-1].data == {"position": 5}
        live.until("checkpoint")
        assert time.monotonic() - began < PATIENCE


def test_checkpoints_come_between_events_that_never_cease(store: EventStore, client: Client) -> None:
    is_over = threading.Event()

    def write() -> None:
        while not is_over.wait(0.01):
            store.append(happened("x"))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with Live(client, "events?tag=x") as live:
            messages = iter(live)
            seen = []
            while sum(message.kind == "checkpoint" for message in seen) < 3:
                seen.append(next(messages))
    finally:
        is_over.set()
        writer.join()
    found = positions(seen)
    assert found == list(range(1, len(found) + 1))
    for before, message in itertools.pairwise(seen):
        assert (before.id or 0) <= (message.id or 0)


def test_last_event_id_resumes_and_wins_over_after(store: EventStore, client: Client) -> None:
    store.append([happened() for _ in range(5)])
    with Live(client, "events?after=1", last_event_id="3") as live:
        assert live.until_looked(5) == [4, 5]
    with Live(client, "events?after=2", last_event_id="") as live:
        assert live.until_looked(5) == [3, 4, 5]
    with Live(client, "read", {"after": 2}, last_event_id="4") as live:
        assert live.until_looked(5) == [5]


@pytest.mark.parametrize("wrong", ["x", "-1", "1.5", "9" * 30, "½", str(2**63)])
def test_a_last_event_id_that_is_no_position_is_422(client: Client, wrong: str) -> None:
    answer = client.get("events", accept="text/event-stream", last_event_id=wrong)
    assert (answer.status, answer.json["path"]) == (422, "Last-Event-ID")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"until": 5}, "until"),
        ({"until": 0}, "until"),
        ({"limit": 1}, "limit"),
        ({"backwards": True}, "backwards"),
        ({"at": "2026-01-01T00:00:00Z"}, "at"),
    ],
)
def test_a_stream_has_no_end_and_one_direction(client: Client, given: dict[str, Any], name: str) -> None:
    parameters = {key: str(value).lower() if value is True else value for key, value in given.items()}
    answer = client.get(f"events?{urlencode(parameters)}&format=sse")
    assert (answer.status, answer.json["path"]) == (422, f"?{name}")
    if name != "at":
        answer = client.post("read", given, accept="text/event-stream")
        assert (answer.status, answer.json["path"]) == (422, f"$.{name}")


def test_a_client_that_reconnects_again_and_again_misses_and_repeats_nothing(everywhere: Client) -> None:
    rounds, seen = 80, []
    reached = 0

    def write() -> None:
        for number in range(rounds):
            events = [{"type": "A", "data": number, "tags": [f"k:{n}"]} for n in range(3)]
            assert everywhere.post("events", {"events": events}).status == 201

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    while reached < rounds * 6:
        with Live(everywhere, "events?tag=k:1", last_event_id=str(reached)) as live:
            for number, message in enumerate(live):
                assert message.id is not None
                assert message.id >= reached
                reached = message.id
                if message.kind == "event":
                    seen.append(reached)
                if number == len(seen) % 17 or reached == rounds * 6:
                    break
    for writer in writers:
        writer.join()
    expected = [line["event"]["position"] for line in lines(everywhere, "events?tag=k:1")]
    assert seen == expected


def lines(client: Client, path: str) -> list[Any]:
    return client.get(path, accept="application/x-ndjson").lines[:-1]


def test_a_stream_sees_what_another_store_of_the_log_appends(kept: Place) -> None:
    with (
        kept.connect() as store,
        kept.connect() as other,
        serving(app(store)) as client,
        Live(client, "events?tag=x") as live,
    ):
        live.until("checkpoint")
        for number in range(1, 4):
            other.append(happened("x"))
            assert live.until("event")[-1].id == number


def test_a_drain_ends_streams_with_an_end(store: EventStore) -> None:
    store.append([happened("x"), happened("y")])
    with serving(app(store)) as client:
        waiting = [Live(client, "events?tag=x") for _ in range(5)]
        for live in waiting:
            assert live.until_looked(2) == [1]
    for live in waiting:  # the server has ended
        seen = list(live)
        assert seen[-1] == Message("end", 2, {"position": 2})
        assert {message.kind for message in seen[:-1]} <= {"checkpoint"}
        live.close()
    assert not store.is_closed


def test_a_store_that_is_closed_ends_streams_with_an_end() -> None:
    store = strandline.connect("memory:")
    with serving(app(store)) as client, Live(client) as live:
        live.until("checkpoint")
        store.close()
        assert [message.kind for message in live][-1] == "end"


def test_an_error_on_the_way_is_the_last_message(store: EventStore, client: Client) -> None:
    def fail(*_: object) -> None:
        raise strandline.CorruptLog("damaged")

    with Live(client) as live:
        live.until("checkpoint")
        store.engine.read_page = fail  # type: ignore[method-assign]
        store.engine.read_page_awaited = fail  # type: ignore[method-assign]
        store.append(happened())
        *_, last = list(live)
        assert (last.kind, last.id, last.data["code"]) == ("error", None, "corrupt_log")


def test_a_client_that_leaves_is_forgotten_at_once(store: EventStore) -> None:
    application = app(store)
    live_subscriptions = application._service.live
    with serving(application) as client:
        leaving = [Live(client, "events?tag=x") for _ in range(10)]
        for live in leaving:
            live.until("checkpoint")
        assert len(live_subscriptions) == 10
        for live in leaving:
            live.close()
        until(lambda: not live_subscriptions)
        until(lambda: not store.tail._interests)
        assert application._metrics.live_streams == 0


def test_there_are_only_so_many_streams_at_a_time(store: EventStore) -> None:
    with serving(app(store, limits=Limits(live_streams=3))) as client:
        open_streams = [Live(client) for _ in range(3)]
        for live in open_streams:
            live.until("checkpoint")
        refused = client.get("events", accept="text/event-stream")
        assert (refused.status, refused.json["code"]) == (429, "too_many_streams")
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("events").status == 200
        open_streams.pop().close()

        def is_open() -> bool:
            with Live(client) as live:
                return live.answer.status == 200

        until(is_open)
        for live in open_streams:
            live.close()


def test_the_head_of_a_stream_can_be_asked_for(store: EventStore, client: Client) -> None:
    answer = client.send("HEAD", "events", accept="text/event-stream")
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, "text/event-stream", b"")
    store.append(happened())
    assert client.get("head").json == {"head": 1}


def test_a_revoked_token_ends_its_stream_with_the_reason(store: EventStore, tmp_path: Any) -> None:
    path = str(tmp_path / "tokens")
    token, secret = create_token(path, ["read"])
    with serving(app(store, tokens=path)) as client:
        assert client.get("events", accept="text/event-stream").status == 401
        with Live(client, authorization=f"Bearer {secret}") as live:
            live.until("checkpoint")
            revoke_token(path, token.id)
            *_, last = list(live)
            assert (last.kind, last.data["status"]) == ("error", 401)


def test_a_slow_reader_holds_no_memory_and_gets_everything(store: EventStore) -> None:
    data = "x" * 10_000
    with serving(app(store)) as client, Live(client, "events?tag=x") as slow:
        slow.until("checkpoint")
        tracemalloc.start()
        for _ in range(20):
            store.append([Event("A", data, tags=["y"]) for _ in range(100)])
        without = settled_memory()
        for _ in range(20):
            store.append([Event("A", data, tags=["x"]) for _ in range(100)])
        grown = settled_memory() - without
        tracemalloc.stop()
        log_itself = 20 * 100 * 10_000  # it is in memory, too
        assert grown < log_itself * 1.2 + 4 * 1024 * 1024
        assert positions(slow.until("event", 4_000)) == list(range(2_001, 4_001))


def settled_memory() -> int:
    """How much is in use when it changes no more."""
    before, now = -1, 0
    while abs(now - before) > 100_000:
        time.sleep(0.3)
        gc.collect()
        before, (now, _) = now, tracemalloc.get_traced_memory()
    return now
