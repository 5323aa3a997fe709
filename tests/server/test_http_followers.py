"""Followers over HTTP: durable consumers in any language, and what operators do with followers."""

from __future__ import annotations

import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from serving import Client, Reply, serving

import strandline
from places import Place
from strandline import Event, EventStore, Query
from strandline.server import app
from strandline.server.tokens import create_token, revoke_token
from strandline.testing import ManualClock

SEATS = {"items": [{"types": ["SeatTaken"]}]}
NOTHING = {"events": [], "position": None, "token": None, "expires": None}
PATIENCE_SECONDS = 20


def seats(count: int) -> dict[str, Any]:
    return {"events": [{"type": "SeatTaken", "data": {"seat": number}} for number in range(count)]}


def lease(client: Client, name: str = "mails", **body: Any) -> Any:
    reply = client.post(f"followers/{name}/lease", {"query": SEATS} | body)
    assert reply.status == 200, reply
    return reply.json


def until(holds: Any) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


def test_a_consumer_leases_and_acknowledges(everywhere: Client) -> None:
    everywhere.post("events", seats(3))
    everywhere.post("events", {"events": [{"type": "Other", "data": 1}]})
    before = datetime.now(UTC)
    first = lease(everywhere, batch=2, seconds=20)
    assert [event["position"] for event in first["events"]] == [1, 2]
    assert first["events"][0] == everywhere.get("events/1").json
    assert first["position"] == 2
    assert (
        before
        < datetime.fromisoformat(first["expires"]) - timedelta(seconds=19)
        < datetime.now(UTC) + timedelta(seconds=2)
    )
    assert lease(everywhere) == NOTHING
    acked = everywhere.post("followers/mails/ack", {"token": first["token"], "position": 1})
    assert (acked.status, acked.json) == (200, {"position": 1})
    assert everywhere.post("followers/mails/ack", {"token": first["token"]}).json == {"position": 2}
    second = everywhere.post("followers/mails/lease", {}).json  # by name alone
    assert [event["position"] for event in second["events"]] == [3]
    assert everywhere.post("followers/mails/ack", {"token": second["token"], "position": 3}).json == {
        "position": 4
    }
    assert lease(everywhere, wait=0.1) == NOTHING


def test_an_event_is_given_up_and_its_letter_discarded(everywhere: Client) -> None:
    everywhere.post("events", seats(2))
    token = lease(everywhere)["token"]
    body = {"token": token, "position": 1, "error": "no such address"}
    assert everywhere.post("followers/mails/give-up", body).json == {"position": 1}
    (letter,) = everywhere.get("followers/mails/dead-letters").json["dead_letters"]
    assert {name: letter[name] for name in letter if name != "time"} == {
        "follower": "mails",
        "position": 1,
        "error": "no such address",
        "traceback": "",
        "attempts": 1,
    }
    assert datetime.fromisoformat(letter["time"]) <= datetime.now(UTC) + timedelta(seconds=2)
    status = everywhere.send("DELETE", "followers/mails/dead-letters/1")
    assert (status.status, status.json["dead_letters"], status.json["name"]) == (200, 0, "mails")
    assert everywhere.send("DELETE", "followers/mails/dead-letters/1").status == 404
    assert everywhere.get("followers/mails/dead-letters").json == {"dead_letters": []}


def test_followers_are_paused_resumed_and_reset(everywhere: Client) -> None:
    everywhere.post("events", seats(3))
    token = lease(everywhere)["token"]
    assert everywhere.get("followers").json["followers"][0]["state"] == "running"
    assert everywhere.post("followers/mails/pause", None).json["state"] == "paused"
    assert lease(everywhere) == NOTHING
    lost = everywhere.post("followers/mails/ack", {"token": token})
    assert (lost.status, lost.json["code"]) == (409, "follower_failed")
    assert "lease again" in lost.json["hint"]
    assert everywhere.post("followers/mails/resume", None).json["state"] == "idle"
    assert everywhere.post("followers/mails/reset", {"position": 2}).json["position"] == 2
    assert [event["position"] for event in lease(everywhere)["events"]] == [3]
    early = {"at": "2020-01-01T00:00:00Z"}
    status = everywhere.post("followers/mails/reset", early).json
    assert (status["position"], status["head"], status["lag"]) == (0, 3, 3)
    assert [event["position"] for event in lease(everywhere)["events"]] == [1, 2, 3]


def test_a_retag_of_what_was_read_is_409_until_a_reset(client: Client) -> None:
    tagged = {"items": [{"tags": ["hall:1"]}]}
    client.post("events", {"events": [{"type": "A", "data": 1, "tags": [f"hall:{n}"]} for n in (1, 2)]})
    client.post("followers/mails/ack", {"token": lease(client, query=tagged)["token"]})
    client.post("retags", {"positions": [2], "add": ["hall:1"]})
    refused = client.post("followers/mails/lease", {"query": tagged})
    assert (refused.status, refused.json["code"]) == (409, "follower_failed")
    assert "reset" in refused.json["hint"]
    assert client.get("followers").json["followers"][0]["state"] == "failed"
    client.post("followers/mails/reset", {"position": 0})
    assert [event["position"] for event in lease(client, query=tagged)["events"]] == [1, 2]


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("mails/lease", {"batch": 0}, 422, "$.batch"),
        ("mails/lease", {"batch": 1_001}, 422, "$.batch"),
        ("mails/lease", {"wait": 61}, 422, "$.wait"),
        ("mails/lease", {"wait": -1}, 422, "$.wait"),
        ("mails/lease", {"seconds": 0}, 422, "$.seconds"),
        ("mails/lease", {"odd": 1}, 422, "$.odd"),
        ("mails/lease", {"query": {"items": [{"types": [""]}]}}, 422, "$.query.items[0].types[0]"),
        ("new/lease", {"query": SEATS, "after": 3}, 422, "$.after"),
        ("mails/lease", {"query": {"items": [{"types": ["B"]}]}}, 409, None),
        ("new/lease", {}, 404, None),
        ("%0A/lease", {"query": SEATS}, 422, "/name"),
        ("mails/ack", {"token": "x"}, 422, "$.token"),
        ("mails/ack", {"token": 1}, 422, "$.token"),
        ("mails/ack", {}, 422, "$.token"),
        ("new/ack", {"token": "x"}, 404, None),
        ("mails/ack", {"token": "TOKEN", "position": 9}, 422, "$.position"),
        ("mails/give-up", {"token": "TOKEN", "position": 9, "error": "no"}, 422, "$.position"),
        ("mails/give-up", {"token": "x", "position": 1, "error": "no"}, 422, "$.token"),
        ("mails/give-up", {"token": "TOKEN", "position": 1}, 422, "$.error"),
        ("mails/reset", {"position": 9}, 422, "$.position"),
        ("mails/reset", {}, 422, "$.position"),
        ("mails/reset", {"position": 1, "at": "2026-01-01T00:00:00Z"}, 422, "$.position"),
        ("mails/reset", {"at": "soon"}, 422, "$.at"),
        ("new/reset", {"position": 0}, 404, None),
        ("new/pause", None, 404, None),
    ],
)
def test_what_is_wrong_is_named(client: Client, path: str, body: Any, status: int, field: str | None) -> None:
    client.post("events", seats(1))
    token = lease(client)["token"]
    if isinstance(body, dict) and body.get("token") == "TOKEN":
        body = body | {"token": token}
    reply = client.post(f"followers/{path}", body)
    assert (reply.status, reply.json.get("path")) == (status, field), reply.json
    assert [each["name"] for each in client.get("followers").json["followers"]] == ["mails"]
    assert client.post("followers/mails/ack", {"token": token}).status == 200


def test_a_dead_letter_is_named_by_its_position(client: Client) -> None:
    assert client.send("DELETE", "followers/mails/dead-letters/x").json["path"] == "/position"
    assert client.get("followers/mails/dead-letters").status == 404
    assert client.send("PUT", "followers/mails/dead-letters/1").headers["allow"] == "DELETE, OPTIONS"


def test_a_name_may_have_any_character(client: Client) -> None:
    client.post("events", seats(1))
    token = lease(client, "outbox:a%2Fb%20%C3%BC")["token"]
    assert client.get("followers").json["followers"][0]["name"] == "outbox:a/b ü"
    assert client.post("followers/outbox:a%2Fb%20%C3%BC/ack", {"token": token}).json == {"position": 1}


def test_a_lease_waits_for_events_and_costs_no_thread(client: Client, store: EventStore) -> None:
    lease(client)
    with ThreadPoolExecutor(20) as threads:
        before = threading.active_count()
        waiting = [threads.submit(lease, client, wait=30) for _ in range(20)]
        until(lambda: len(store.watch._waiters) == 20)
        assert threading.active_count() <= before + 20 + 8  # the senders, and what the store reads with
        store.append(Event("Other", 1))
        store.append(Event("SeatTaken", 1))
        until(lambda: any(each.done() for each in waiting))
        (first,) = [each.result() for each in waiting if each.done()]
        assert [event["position"] for event in first["events"]] == [2]
        store.find_follower("mails").forget()  # wakes them: they begin anew, and one gets all
        until(lambda: sum(each.done() for each in waiting) == 2)
        store.close()
    assert [len(each.result()["events"]) for each in waiting if each.exception() is None].count(1) == 2


def test_a_client_that_goes_away_leaves_no_lease(client: Client, store: EventStore) -> None:
    store.follower("mails", Query.types("SeatTaken")).lease()
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.request(
        "POST",
        f"{client.base}/followers/mails/lease",
        json.dumps({"wait": 60}),
        {"content-type": "application/json"},
    )
    until(lambda: store.watch._waiters)
    connection.close()
    until(lambda: not store.watch._waiters)
    store.append(Event("SeatTaken", 1))
    assert len(lease(client)["events"]) == 1


def test_a_server_that_drains_answers_those_who_wait() -> None:
    with strandline.connect("memory:") as store, ThreadPoolExecutor(1) as threads:
        with serving(app(store)) as client:
            lease(client)
            waiting = threads.submit(lease, client, wait=60)
            until(lambda: store.watch._waiters)
            began = time.monotonic()
        assert waiting.result(PATIENCE_SECONDS) == NOTHING
        assert time.monotonic() - began < 9, "it waited for the end of the drain"


def test_a_read_only_server_leases_and_steers_nothing(store: EventStore) -> None:
    store.follower("mails").lease()
    with serving(app(store, read_only=True)) as client:
        paths = ["pause", "resume", "reset", "lease", "ack", "give-up"]
        refused = [client.post(f"followers/mails/{path}", {}).status for path in paths]
        assert refused == [403] * len(paths)
        assert client.send("DELETE", "followers/mails/dead-letters/1").status == 403
        assert client.get("followers/mails/dead-letters").status == 200


def test_many_consumers_over_http_handle_each_event_once(place: Place) -> None:
    clock = ManualClock()
    total = 60

    def consume(client: Client) -> list[int]:
        taken: list[int] = []
        while (leased := lease(client, batch=7, wait=1))["token"] is not None:
            taken += [event["position"] for event in leased["events"]]
            assert client.post("followers/mails/ack", {"token": leased["token"]}).status == 200
        return taken

    with place.connect(clock=clock) as store, serving(app(store)) as client, ThreadPoolExecutor(4) as threads:
        consumers = [threads.submit(consume, client) for _ in range(4)]
        for _ in range(total):
            store.append([Event("SeatTaken", 1), Event("Other", 1)])
        taken = [consumer.result(60) for consumer in consumers]
    assert sorted(position for each in taken for position in each) == [*range(1, 2 * total, 2)]
    assert all(each == sorted(each) for each in taken)


def test_the_description_has_the_fields_of_a_lease(client: Client) -> None:
    description = client.get("/openapi.json").json
    fields = description["components"]["schemas"]["LeaseBody"]["properties"]
    assert set(fields) == {"query", "after", "batch", "wait", "seconds"}
    assert fields["wait"]["maximum"] == 60
    reply: Reply = client.get("/docs")
    assert b"Take the next events of a follower" in reply.body


def test_a_token_that_is_revoked_ends_the_wait(store: EventStore, tmp_path: Path) -> None:
    tokens = str(tmp_path / "tokens.json")
    token, secret = create_token(tokens, ["follow"])
    with serving(app(store, tokens=tokens)) as server, ThreadPoolExecutor(1) as threads:
        client = Client(server.port, headers={"authorization": f"Bearer {secret}"})
        lease(client)
        waiting = threads.submit(client.post, "followers/mails/lease", {"wait": 60})
        until(lambda: store.watch._waiters)
        revoke_token(tokens, token.id)
        reply = waiting.result(PATIENCE_SECONDS)
        assert (reply.status, reply.json["code"]) == (401, "unauthorized")
