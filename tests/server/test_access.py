"""Who may do what: one row per route, and an answer for every kind of caller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from serving import Client, Reply, serving

import strandline
from strandline import Event, EventStore, Query
from strandline.server import app
from strandline.server.exchange import FORM
from strandline.server.routes import ROUTES, Route
from strandline.server.tokens import SCOPES, create_token

LOG = "/v1/logs/{log}"
FOLLOWER = f"{LOG}/followers/{{name}}"
IDS = {
    "tenant:7": "0190a8f0-0000-7000-8000-000000000007",
    "tenant:8": "0190a8f0-0000-7000-8000-000000000008",
}
POSITIONS = {"tenant:7": 1, "tenant:8": 2}
SECRETS = (b"mallory", b"guest:")  # what only the events of tenant 8 say


class Row(NamedTuple):
    """What a route answers: the scopes that are enough, and what a token limited to `tenant:7` gets.

    `own` is the answer to a request about events of tenant 7, `other` to one about those of tenant 8.
    """

    scopes: str | None
    own: int
    other: int
    body: Any = None
    query: str = ""
    public: int = 200


def query(tag: str = "TAG") -> dict[str, Any]:
    return {"items": [{"tags": [tag]}]}


METADATA = "metadata read follow manage"
EVENT = {"type": "T", "data": 1, "tags": ["TAG"]}
FREE = {"fail_if_events_match": {"items": [{"types": ["Never"], "tags": ["TAG"]}]}}
ROWS = {
    f"POST {LOG}/events": Row("append", 201, 403, {"events": [EVENT], "condition": FREE}),
    f"POST {LOG}/appends": Row("append", 200, 200, {"events": [EVENT]}),
    f"GET {LOG}/events": Row("read", 200, 200, query="tag=TAG"),
    f"QUERY {LOG}/events": Row("read", 200, 200, {"query": query()}),
    f"POST {LOG}/read": Row("read", 200, 200, {"query": query()}),
    f"GET {LOG}/events/{{position}}": Row("read", 200, 404),
    f"GET {LOG}/events/id/{{id}}": Row("read", 200, 404),
    f"POST {LOG}/check": Row("read", 200, 403, {"condition": FREE}),
    f"POST {LOG}/exists": Row("read", 200, 200, {"query": query()}),
    f"POST {LOG}/count": Row("read", 200, 200, {"query": query()}),
    f"GET {LOG}/head": Row(METADATA, 200, 200),
    f"GET {LOG}/positions": Row(METADATA, 200, 200, query="at=2026-01-01T00:00:00Z"),
    f"GET {LOG}/": Row(METADATA, 200, 200),
    f"POST {LOG}/retags": Row("manage", 201, 403, {"query": query(), "add": ["vip"]}),
    f"GET {LOG}/appends": Row("read", 403, 403),
    f"GET {LOG}/appends/{{position}}": Row("read", 403, 403),
    f"GET {LOG}/tracking/{{source}}": Row("read", 403, 403),
    f"GET {LOG}/types": Row(METADATA, 403, 403),
    f"GET {LOG}/tags": Row(METADATA, 403, 403),
    f"GET {LOG}/followers": Row(METADATA, 403, 403),
    f"POST {FOLLOWER}/pause": Row("manage", 403, 403),
    f"POST {FOLLOWER}/resume": Row("manage", 403, 403),
    f"POST {FOLLOWER}/reset": Row("manage", 403, 403, {"position": 0}),
    f"GET {FOLLOWER}/dead-letters": Row("manage", 403, 403),
    f"DELETE {FOLLOWER}/dead-letters/{{position}}": Row("manage", 403, 403),
    f"POST {FOLLOWER}/lease": Row("follow", 200, 403, {"query": query()}),
    f"POST {FOLLOWER}/ack": Row("follow", 200, 403, {"token": "LEASE"}),
    f"POST {FOLLOWER}/give-up": Row("follow", 200, 403, {"token": "LEASE", "position": 0, "error": "no"}),
    "GET /v1/logs": Row(METADATA, 200, 200),
    "GET /": Row(None, 303, 303, public=303),
    "GET /login": Row(None, 200, 200),
    "POST /login": Row(None, 403, 403, b"csrf=x&token=y", public=403),
    "POST /logout": Row(None, 303, 303, b"csrf=", public=303),
    "GET /docs": Row(None, 200, 200),
    "GET /openapi.json": Row(None, 200, 200),
    "GET /metrics": Row("metrics", 403, 403),
    "GET /healthz": Row(None, 200, 200),
    "GET /readyz": Row(None, 200, 200),
}
FORBIDDEN_LINES = {f"POST {LOG}/appends"}  # a stream: the 403 is in a line


class Place(NamedTuple):
    """A server with two tenants in one log, another log, and a token of each kind."""

    client: Client
    store: EventStore
    tokens: dict[str, str]

    def send(self, route: Route, token: str | None, tag: str = "tenant:8", log: str = "default") -> Reply:
        row = ROWS[name_of(route)]
        path = route.path.replace("{log}", log).replace("{position}", str(POSITIONS[tag]))
        path = path.replace("{id}", IDS[tag]).replace("{source}", "orders").replace("{name}", f"of%20{tag}")
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        if isinstance(row.body, bytes):
            return self.client.send(route.method, path, row.body, content_type=FORM.decode(), **headers)
        text = json.dumps(row.body).replace("TAG", tag)
        if "{name}" in route.path:
            text = text.replace("LEASE", self.lease(tag)).replace(
                '"position": 0', f'"position": {POSITIONS[tag]}'
            )
        body = json.loads(text)
        return self.client.send(
            route.method, f"{path}?{row.query.replace('TAG', tag)}".rstrip("?"), body, **headers
        )

    def lease(self, tag: str) -> str:
        """Make the follower of a tag anew, with a dead letter; returns the token of its lease."""
        follower = self.store.follower(f"of {tag}", Query.tag(tag))
        follower.forget()
        lease = follower.lease(1)
        assert lease is not None
        follower.give_up(lease.token, POSITIONS[tag], "no")
        return lease.token


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    path = str(tmp_path_factory.mktemp("tokens") / "tokens.json")
    tokens = {scope: create_token(path, [scope])[1] for scope in SCOPES}
    tokens["tagged"] = create_token(path, SCOPES[:5], tag="tenant:7")[1]
    tokens["of orders"] = create_token(path, SCOPES[:5], logs=["orders"])[1]
    with strandline.connect("memory:") as store, strandline.connect("memory:") as orders:
        store.append(Event("T", {"name": "ada"}, tags=["tenant:7"], id=IDS["tenant:7"]))
        store.append(Event("T", {"name": "mallory"}, tags=["tenant:8", "guest:mallory"], id=IDS["tenant:8"]))
        store.append((), tracking=("orders", 17))
        with serving(app({"default": store, "orders": orders}, tokens=path)) as client:
            yield Place(client, store, tokens)


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def all_routes() -> Any:
    return pytest.mark.parametrize("route", ROUTES, ids=name_of)


def test_every_route_has_its_row() -> None:
    assert set(ROWS) == {name_of(route) for route in ROUTES}


@all_routes()
def test_without_a_right_token_nothing_is_answered(place: Place, route: Route) -> None:
    head = place.store.head()
    for token in (None, "strandline_" + "A" * 43, "A" * 43, place.tokens["read"][:-1], ""):
        reply = place.send(route, token)
        if ROWS[name_of(route)].scopes is None:
            assert reply.status == ROWS[name_of(route)].public
        else:
            assert (reply.status, reply.json["code"]) == (401, "unauthorized")
            assert reply.headers["www-authenticate"] == "Bearer"
    assert place.store.head() == head


@all_routes()
@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_alone_opens_its_own_routes(place: Place, route: Route, scope: str) -> None:
    scopes = ROWS[name_of(route)].scopes
    head = place.store.head()
    reply = place.send(route, place.tokens[scope])
    if scopes is None:
        assert reply.status == ROWS[name_of(route)].public
    elif scope in scopes.split():
        assert reply.status == route.status, reply.body
    else:
        assert (reply.status, reply.json["code"]) == (403, "forbidden")
        assert place.store.head() == head


@all_routes()
def test_a_log_of_others_is_like_one_that_does_not_exist(place: Place, route: Route) -> None:
    token = place.tokens["of orders"]
    if not route.is_of_log:
        return
    foreign, missing = (place.send(route, token, log=log) for log in ("default", "nowhere"))
    assert foreign.status == missing.status == 404
    assert foreign.body.replace(b"default", b"nowhere") == missing.body
    assert place.send(route, place.tokens["metrics"], log="nowhere").status == 403


@all_routes()
@pytest.mark.parametrize("tag", ["tenant:7", "tenant:8"])
def test_a_token_with_a_tag_reaches_the_events_with_it(place: Place, route: Route, tag: str) -> None:
    row = ROWS[name_of(route)]
    before = list(place.store.read())
    reply = place.send(route, place.tokens["tagged"], tag)
    assert reply.status == (row.own if tag == "tenant:7" else row.other), reply.body
    assert not any(secret in reply.body for secret in SECRETS)
    if tag == "tenant:8":
        assert list(place.store.read()) == before
        if name_of(route) in FORBIDDEN_LINES:
            assert {line["status"] for line in reply.lines} == {403}


def test_the_logs_are_those_of_the_token(place: Place) -> None:
    for token, logs in (("of orders", ["orders"]), ("tagged", ["default", "orders"])):
        headers = {"authorization": f"Bearer {place.tokens[token]}"}
        assert place.client.get("/v1/logs", **headers).json == {"logs": logs}


def test_no_token_is_in_a_file_of_the_server(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    for file in tmp_path_factory.getbasetemp().rglob("tokens*/*"):
        content = Path(file).read_text()
        assert not any(token in content for token in place.tokens.values())
