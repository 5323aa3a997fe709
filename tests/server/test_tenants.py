"""A token limited to a tag: what it does to its own events, and what it never learns of the others."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from serving import Client, serving

from places import Place
from strandline import AppendCondition, Event, EventStore, Query
from strandline.server import app
from strandline.server.tokens import create_token

SECRET = "mallory"
OWN = {"items": [{"tags": ["tenant:7"]}]}
ALL = {"items": [{}]}
ID = "0190a8f0-0000-7000-8000-00000000000"


def event(*tags: str, **more: Any) -> dict[str, Any]:
    return {"type": "T", "data": {"n": 1}, "tags": list(tags)} | more


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        yield store


@pytest.fixture
def tenant(store: EventStore, tmp_path: Any) -> Iterator[Client]:
    """A client that is limited to `tenant:7`. Every answer is searched for what others keep secret."""
    scopes = ["read", "append", "follow", "manage"]
    _, secret = create_token(str(tmp_path / "tokens.json"), scopes, tag="tenant:7")
    store.append(
        [
            Event("T", {"who": "ada"}, tags=["tenant:7", "course:1"], id=ID + "1"),
            Event("T", {"who": SECRET}, tags=["tenant:8", "course:1", "guest:" + SECRET], id=ID + "2"),
            Event("T", {"who": SECRET}, tags=["tenant:70"], stream="s", subject="u"),
        ]
    )
    with serving(app(store, tokens=tmp_path / "tokens.json")) as client:
        yield Watched(client.port, headers={"authorization": f"Bearer {secret}"})


class Watched(Client):
    def send(self, *arguments: Any, **headers: Any) -> Any:
        reply = super().send(*arguments, **headers)
        assert SECRET.encode() not in reply.body
        return reply


def test_reads_see_own_events_only(tenant: Client) -> None:
    for body in ({}, {"query": ALL}, {"query": {"items": [{"tags": ["course:1"]}]}}):
        page = tenant.post("read", body).json
        assert [each["position"] for each in page["events"]] == [1]
        assert page["head"] == 3
    for body in ({"query": {"items": [{"stream": "s"}, {"subject": "u"}, {"types": ["$retagged"]}]}},):
        assert tenant.post("read", body).json["events"] == []
        assert tenant.post("exists", body).json == {"exists": False}
        assert tenant.post("count", body).json == {"count": 0}
    assert tenant.post("count", {}).json == {"count": 1}
    lines = tenant.get("events", accept="application/x-ndjson").lines
    assert [line["event"]["position"] for line in lines[:-1]] == [1]


def test_the_condition_of_a_read_is_one_to_append_with(tenant: Client) -> None:
    condition = tenant.get("events?tag=course:1").json["condition"]
    append = {"events": [event("tenant:7", "course:1")], "condition": condition}
    assert tenant.post("events", append).status == 201
    refused = tenant.post("events", append)
    assert refused.status == 409
    assert [each["position"] for each in refused.json["conflicts"]] == [4]
    assert tenant.post("events", append | {"condition": refused.json["condition"]}).status == 201


def test_pages_lead_to_pages_of_own_events(tenant: Client, store: EventStore) -> None:
    store.append([Event("T", 1, tags=[tag]) for tag in ("tenant:7", "tenant:8", "tenant:7")])
    page = tenant.post("read", {"limit": 2}).json
    assert [each["position"] for each in page["events"]] == [1, 4]
    assert [each["position"] for each in tenant.post("read", page["next"]).json["events"]] == [6]


@pytest.mark.parametrize(
    "append",
    [
        {"events": [event()]},
        {"events": [event("tenant:8")]},
        {"events": [event("tenant:70")]},
        {"events": [event("tenant:7"), event("course:1")]},
        {"events": [event("tenant:7", "tenant:8")]},
        {"events": [event("tenant:7")], "unless_exists": ALL},
        {"events": [event("tenant:7")], "unless_exists": {"items": [{"tags": ["tenant:7"]}, {"stream": "s"}]}},
        {"events": [event("tenant:7")], "condition": {"fail_if_events_match": ALL}},
        {"events": [event("tenant:7")], "condition": {"parts": [
            {"fail_if_events_match": OWN, "after": 1},
            {"fail_if_events_match": {"items": [{"tags": ["course:1"]}]}}]}},
        {"events": [event("tenant:7")], "tracking": ["orders", 1]},
        {"events": [], "tracking": ["orders", 1]},
    ],
)  # fmt: skip
def test_an_append_that_touches_others_is_refused(
    tenant: Client, store: EventStore, append: dict[str, Any]
) -> None:
    reply = tenant.post("events", append)
    assert (reply.status, reply.json["code"]) == (403, "forbidden")
    (line,) = tenant.post("appends", json.dumps(append).encode()).lines
    assert line["status"] == 403
    if "condition" in append:
        assert tenant.post("check", {"condition": append["condition"]}).status == 403
    assert store.head() == 3


def test_a_bulk_import_keeps_its_own_lines(tenant: Client, store: EventStore) -> None:
    bodies = [{"events": [event(tag)]} for tag in ("tenant:7", "tenant:8", "tenant:7")]
    answers = tenant.post("appends", "\n".join(map(json.dumps, bodies)).encode()).lines
    assert [answer.get("status") for answer in answers] == [None, 403, None]
    assert store.head() == 5


def test_other_events_are_not_there(tenant: Client) -> None:
    assert tenant.get("events/1").status == tenant.get(f"events/id/{ID}1").status == 200
    for foreign, missing in (("events/2", "events/9"), (f"events/id/{ID}2", f"events/id/{ID}9")):
        replies = [tenant.get(path) for path in (foreign, missing)]
        assert [reply.status for reply in replies] == [404, 404]
        names = [path.rpartition("/")[2] for path in (foreign, missing)]
        assert replies[0].json["detail"].replace(*names) == replies[1].json["detail"]


def test_an_id_that_others_took_tells_nothing_about_their_event(tenant: Client) -> None:
    for body in (event("tenant:7", id=ID + "2"), event("tenant:7", id=ID + "1")):
        reply = tenant.post("events", {"events": [body]})
        assert (reply.status, reply.json["code"]) == (409, "event_id_conflict")
        (line,) = tenant.post("appends", {"events": [body]}).lines
        for problem in (reply.json, line):
            assert "other" not in problem["detail"]
            assert ID not in problem["detail"]


def test_a_retag_stays_inside(tenant: Client, store: EventStore) -> None:
    added = tenant.post("retags", {"query": OWN, "add": ["vip"], "replace": {"course": ["2"]}})
    assert added.status == 201
    assert store.event(1).tags == ("course:2", "tenant:7", "vip")
    assert tenant.post("retags", {"positions": [1], "add": ["gold"]}).status == 201
    assert store.event(1).tags == ("course:2", "gold", "tenant:7", "vip")
    assert "tenant:8" in store.event(2).tags
    assert "vip" not in store.event(2).tags


@pytest.mark.parametrize(
    "retag",
    [
        {"query": ALL, "add": ["vip"]},
        {"query": {"items": [{"tags": ["tenant:7"]}, {"tags": ["tenant:8"]}]}, "add": ["vip"]},
        {"positions": [2], "add": ["vip"]},
        {"positions": [1, 2], "add": ["vip"]},
        {"positions": [99], "add": ["vip"]},
        {"positions": [2], "add": ["tenant:7"]},
        {"query": OWN, "replace": {"tenant": ["8"]}},
        {"query": OWN, "replace": {"tenant": ["7"]}},
        {"query": OWN, "replace": {"tenant": []}},
        {"query": OWN, "add": ["tenant:8"]},
        {"query": OWN, "replace": {"course": ["3"], "tenant:8": ["x"]}},
    ],
)
def test_a_retag_into_or_out_of_the_tenant_is_refused(
    tenant: Client, store: EventStore, retag: dict[str, Any]
) -> None:
    reply = tenant.post("retags", retag)
    assert (reply.status, reply.json["code"]) == (403, "forbidden")
    assert store.head() == 3


def test_a_conflict_with_a_retag_of_others_shows_no_tags_of_theirs(tenant: Client, store: EventStore) -> None:
    condition = tenant.get("events").json["condition"]
    store.retag([1, 2], add=["plan:" + SECRET, "vip"])
    refused = tenant.post("events", {"events": [event("tenant:7")], "condition": condition})
    assert refused.status == 409
    assert refused.json["conflict"]["type"] == "$retagged"
    assert refused.json["conflict"]["data"] == {"changes": []}
    found = tenant.post("check", {"condition": condition}).json
    assert (found["holds"], found["conflicts"][0]["data"]) == (False, {"changes": []})
    (line,) = tenant.post("appends", {"events": [event("tenant:7")], "condition": condition}).lines
    assert line["conflict"]["data"] == {"changes": []}


def test_figures_about_all_events_are_left_out(tenant: Client) -> None:
    fields = tenant.get("").json
    assert fields["head"] == 3
    assert {fields["stats"][name] for name in ("appends", "refused", "types", "tags", "size_bytes")} == {0}


def test_who_may_only_append_sees_no_data_of_a_conflict(store: EventStore, tmp_path: Any) -> None:
    _, secret = create_token(str(tmp_path / "tokens.json"), ["append"])
    store.append(
        Event("T", {"who": SECRET}, tags=["guest:" + SECRET], metadata={"who": SECRET}, subject=SECRET)
    )
    condition = json.loads(AppendCondition(Query.all()).to_json())
    append = {"events": [event()], "condition": condition}
    with serving(app(store, tokens=tmp_path / "tokens.json")) as client:
        appender = Watched(client.port, headers={"authorization": f"Bearer {secret}"})
        problem = appender.post("events", append).json
        (line,) = appender.post("appends", append).lines
        assert appender.post("events", {"events": [event()]}).status == 201
    for each in (problem, line):
        assert (each["status"], each["conflict"]["position"], each["conflict"]["data"]) == (409, 1, None)
        assert (each["complete"], each["condition"]) == (False, None)


def test_leases_are_of_own_events_only(tenant: Client, store: EventStore) -> None:
    store.follower("theirs", Query.tag("tenant:8")).lease()
    store.follower("all").lease()
    for query in (ALL, {"items": [{"tags": ["course:1"]}]}, {"items": [{"tags": ["tenant:7"]}, {}]}):
        assert tenant.post("followers/mine/lease", {"query": query}).status == 403
    for name in ("theirs", "all", "nobody"):
        assert tenant.post(f"followers/{name}/lease", {}).status == 403
        assert tenant.post(f"followers/{name}/ack", {"token": "x"}).status == 403
    for name in ("theirs", "all"):
        assert tenant.post(f"followers/{name}/lease", {"query": OWN}).status == 403
    lease = tenant.post("followers/mine/lease", {"query": OWN, "wait": 1}).json
    assert [event["position"] for event in lease["events"]] == [1]
    assert tenant.post("followers/mine/ack", {"token": lease["token"]}).json == {"position": 3}
    store.append(Event("T", {}, tags=["tenant:7"]))
    lease = tenant.post("followers/mine/lease", {}).json
    assert (
        tenant.post("followers/mine/give-up", {"token": lease["token"], "position": 4, "error": "no"}).status
        == 200
    )
    for method, path in (("GET", "dead-letters"), ("DELETE", "dead-letters/4"), ("POST", "pause")):
        assert tenant.send(method, f"followers/mine/{path}").status == 403
    assert [status.name for status in store.followers()] == ["all", "mine", "theirs"]


def test_a_live_stream_has_own_events_only(tenant: Client, store: EventStore) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", tenant.port, timeout=30)
    connection.request(
        "GET", "/v1/logs/default/events", headers=tenant.headers | {"accept": "text/event-stream"}
    )
    answer = connection.getresponse()
    store.append([Event("T", SECRET, tags=["tenant:8"]), Event("T", "last", tags=["tenant:7"])])
    seen = b""
    while b'"last"' not in seen:
        seen += answer.readline()
    connection.close()
    assert SECRET.encode() not in seen
    assert seen.count(b"event: event") == 2
