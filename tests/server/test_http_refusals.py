"""Bad requests get a problem document with the path of the field, and nothing is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import Client, Reply, serving

import strandline
from strandline import EventStore
from strandline.server import app
from strandline.server.exchange import Limits
from strandline.server.routes import ROUTES


def is_problem(reply: Reply) -> bool:
    problem = reply.json
    assert reply.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code", "hint", "retry"} <= problem.keys()
    assert problem["status"] == reply.status
    return True


EVENT = {"type": "T", "data": 1}
BAD_APPENDS: list[tuple[Any, str]] = [
    ([], "$"),
    ({}, "$.events"),
    ({"events": []}, "$.events"),
    ({"events": [{}]}, "$.events[0].type"),
    ({"events": [{"type": "T"}]}, "$.events[0].data"),
    ({"events": [EVENT | {"data_base64": ""}]}, "$.events[0].data"),
    ({"events": [{"type": "T", "data_base64": "%"}]}, "$.events[0].data_base64"),
    ({"events": [EVENT, EVENT | {"type": 1}]}, "$.events[1].type"),
    ({"events": [EVENT | {"type": ""}]}, "$.events[0].type"),
    ({"events": [EVENT | {"type": "$own"}]}, "$.events[0].type"),
    ({"events": [EVENT | {"tags": ["ok", "a\nb"]}]}, "$.events[0].tags[1]"),
    ({"events": [EVENT | {"tags": "a"}]}, "$.events[0].tags"),
    ({"events": [EVENT | {"id": "x"}]}, "$.events[0].id"),
    ({"events": [EVENT | {"metadata": {"a": 1}}]}, "$.events[0].metadata[...]"),
    ({"events": [EVENT | {"stream": "x" * 300}]}, "$.events[0].stream"),
    ({"events": [EVENT | {"colour": "red"}]}, "$.events[0].colour"),
    ({"events": [EVENT | {"stream": "a"}], "stream": "b"}, "$.stream"),
    ({"events": [EVENT], "unless_exists": {"items": []}}, "$.unless_exists.items"),
    (
        {"events": [EVENT], "unless_exists": {"items": [{"where": {"a": {"$no": 1}}}]}},
        "$.unless_exists.items[0].where",
    ),
    ({"events": [EVENT], "condition": {}}, "$.condition.fail_if_events_match"),
    ({"events": [EVENT], "condition": {"parts": []}}, "$.condition.parts"),
    (
        {"events": [EVENT], "condition": {"fail_if_events_match": {"items": [{}]}, "after": -1}},
        "$.condition.after",
    ),
    (
        {"events": [EVENT], "condition": {"fail_if_events_match": {"items": [{}]}, "after": "1"}},
        "$.condition.after",
    ),
    ({"events": [EVENT], "more": 1}, "$.more"),
    (
        {"events": [EVENT], "condition": {"fail_if_events_match": {"items": [{}]}, "after": 1}},
        "$.condition.after",
    ),
    (
        {
            "events": [EVENT],
            "condition": {
                "parts": [
                    {"fail_if_events_match": {"items": [{"types": ["T"]}]}},
                    {"fail_if_events_match": {"items": [{}]}, "after": 9},
                ]
            },
        },
        "$.condition.parts[1].after",
    ),
    ({"events": [EVENT | {"tags": [str(n) for n in range(65)]}]}, "$.events[0].tags"),
    ({"events": [EVENT | {"key": ""}]}, "$.events[0].key"),
    ({"events": [EVENT] * 10_001}, "$.events"),
    ({"events": [EVENT], "tracking": ["", 1]}, "$.tracking"),
    ({"events": [EVENT], "tracking": ["a"]}, "$.tracking"),
    ({"events": [EVENT], "tracking": ["a", -1]}, "$.tracking"),
]


@pytest.mark.parametrize(("body", "path"), BAD_APPENDS)
def test_a_bad_append_names_the_field(client: Client, store: EventStore, body: Any, path: str) -> None:
    reply = client.post("events", body)
    assert is_problem(reply)
    assert (reply.status, reply.json["path"]) == (422, path)
    assert store.head() == 0


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"null", b"[" * 5_000, b'{"events":' * 2_000, b'{"events": [{"type": "\\ud800", "data": 1}]}',
             b'{"events": [{"type": "T", "data": NaN}]}', b'{"events": [{"type": "T", "data": "\xff"}]}',
             b'{"events": [{"type": "T", "data": ' + b"[" * 950 + b"]" * 950 + b"}]}"]
)  # fmt: skip
def test_a_body_that_is_not_json_is_refused(client: Client, store: EventStore, body: bytes) -> None:
    reply = client.post("events", body)
    assert is_problem(reply)
    assert reply.status == 422
    assert "path" in reply.json
    assert store.head() == 0


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("events?colour=red", "?colour"),
        ("events?limit=0", "?limit"),
        ("events?limit=x", "?limit"),
        ("events?after=-1", "?after"),
        ("events?after=1&after=2", "?after"),
        ("events?backwards=maybe", "?backwards"),
        ("events?format=xml", "?format"),
        ("events?where=x", "?where"),
        ("events?where=[]", "?where"),
        ("events?query={}", "?query.items"),
        ("events?query={%22items%22:[{}]}&type=A", "?query"),
        ("events?tag=", "?tag"),
        ("events?type=%00", "?type"),
        ("events?at=yesterday", "?at"),
        ("events?at=2026-01-01", "?at"),
        ("positions", "?at"),
        ("head?x=1", "?x"),
        ("events?type=%ff", "?"),
        ("types?prefix=%00", "?prefix"),
        ("tags?after=%0a", "?after"),
        ("tags?limit=10001", "?limit"),
        ("tracking/%00", "/source"),
        ("events/x", "/position"),
        ("events/id/x", "/id"),
    ],
)
def test_a_bad_parameter_is_named(client: Client, target: str, path: str) -> None:
    reply = client.get(target)
    assert is_problem(reply)
    assert (reply.status, reply.json["path"]) == (422, path)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"positions": [9], "add": ["x"]}, "$.positions"),
        ({"positions": [1]}, "$.add"),
        ({"positions": [1], "add": ["x", ""]}, "$.add[1]"),
        ({"positions": [1], "add": ["$x"]}, "$.add[0]"),
        ({"positions": [1], "add": [str(n) for n in range(65)]}, "$.positions"),
        ({"positions": [1], "replace": {"": ["x"]}}, "$.replace"),
        ({"query": {"items": [{"tags": [""]}]}, "add": ["x"]}, "$.query.items[0].tags[0]"),
        ({"query": {"items": [{}]}, "positions": [1], "add": ["x"]}, "$.query"),
    ],
)
def test_a_bad_retag_names_the_field(client: Client, store: EventStore, body: Any, path: str) -> None:
    client.post("events", {"events": [EVENT]})
    reply = client.post("retags", body)
    assert is_problem(reply)
    assert (reply.status, reply.json["path"]) == (422, path)
    assert store.head() == 1


def test_a_check_beyond_the_head_names_the_field(client: Client) -> None:
    reply = client.post("check", {"condition": {"fail_if_events_match": {"items": [{}]}, "after": 1}})
    assert (reply.status, reply.json["path"]) == (422, "$.condition.after")


def test_too_large_an_event_names_the_events(client: Client) -> None:
    reply = client.post("events", {"events": [{"type": "T", "data": "x" * 2_000_000}]})
    assert (reply.status, reply.json["path"]) == (413, "$.events")


def test_paths_and_methods_that_are_not_there(client: Client) -> None:
    for path in (
        "/nope",
        "/v1",
        "/v1/logs/default/nope",
        "/v1/logs/default/../default/head",
        "//v1/logs",
        "/v1/logs/%2e%2e/head",
    ):
        reply = client.get(path)
        assert is_problem(reply)
        assert reply.status == 404
    reply = client.send("DELETE", "events")
    assert is_problem(reply)
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST, QUERY")


def test_a_form_is_no_body(client: Client, store: EventStore) -> None:
    reply = client.post("events", b"a=1", content_type="application/x-www-form-urlencoded")
    assert is_problem(reply)
    assert reply.status == 415
    assert store.head() == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:80"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
    ],
)
def test_foreign_hosts_and_origins_are_refused(client: Client, headers: dict[str, str]) -> None:
    reply = client.get("head", **headers)
    assert is_problem(reply)
    assert reply.status == 403


def test_own_and_allowed_hosts_and_origins_are_fine(store: EventStore) -> None:
    with serving(app(store, allow_hosts=["Events.example"])) as client:
        own = f"127.0.0.1:{client.port}"
        for headers in (
            {"host": "localhost:9"},
            {"host": "[::1]:9"},
            {"host": "events.example"},
            {"origin": f"http://{own}"},
            {"origin": "https://events.example"},
        ):
            assert client.get("head", **headers).status == 200


def test_too_large_a_body_or_line_is_refused(store: EventStore) -> None:
    with serving(app(store, limits=Limits(body_bytes=1_000, line_bytes=200))) as client:
        reply = client.post("events", {"events": [{"type": "T", "data": "x" * 1_000}]})
        assert is_problem(reply)
        assert reply.status == 413
        lines = [json.dumps({"events": [{"type": "T", "data": "x" * size}]}) for size in (1, 100_000, 1)]
        answers = client.post("appends", "\n".join(lines).encode()).lines
        assert [answer.get("status") for answer in answers] == [None, 413, None]
    assert store.head() == 2


def test_every_problem_is_in_the_table_of_the_docs(client: Client) -> None:
    assert client.get("/nope").json["type"] == "/docs#not_found"


def test_every_answer_has_security_headers(client: Client) -> None:
    for path in ("/", "/healthz", "/nope", "head"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
    start = client.get("/").headers
    assert "default-src 'none'" in start["content-security-policy"]
    assert start["x-frame-options"] == "DENY"


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["events", "query", "items", "type", "data", "tags", "condition", "after", "parts", "add",
                         "positions", "limit", "where", "fail_if_events_match", "replace", "stream", "$gt"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def test_no_malformed_body_gets_a_5xx_and_refusals_write_nothing() -> None:
    routes = [route for route in ROUTES if route.body is not None and route.method == "POST"]
    with strandline.connect("memory:") as store, serving(app(store)) as client:

        @given(st.sampled_from(routes), ANY_JSON | st.binary(max_size=40))
        def try_one(route: Any, body: Any) -> None:
            head = store.head()
            reply = client.post(route.path.replace("{log}", "default"), body)
            assert reply.status < 500
            if reply.status >= 400:
                assert is_problem(reply)
                assert store.head() == head

        try_one()
