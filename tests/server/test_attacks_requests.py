"""Requests that are HTTP but mean no good: foreign names, odd paths, scripts in every field, secrets that should not show."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Client, serving

from raw import exchange, request, statuses
from strandline import Event, EventStore
from strandline.server import app
from strandline.server.routes import ROUTES, Route
from strandline.server.tokens import create_token, read_tokens

SCRIPT = "<script>alert('x')</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
EVENT = {"type": "T", "data": 1}


def path_of(route: Route) -> str:
    return re.sub(r"\{\w+\}", "1", route.path.replace("{log}", "default"))


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "localhost.evil.example"},
        {"host": "evil.example:80@localhost"},
        {"host": "localhost@evil.example"},
        {"host": "evil.example#localhost"},
        {"host": "[::1].evil.example"},
        {"host": "[::1"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "2130706433"},
        {"host": "localhost\tevil.example"},
        {"host": "*"},
        {"origin": "http://evil.example"},
        {"origin": "http://localhost.evil.example"},
        {"origin": "https://localhost:1"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "file://"},
        {"origin": "chrome-extension://abc"},
        {"origin": "http://localhost@evil.example"},
    ],
)
def test_no_route_answers_a_foreign_name(client: Client, store: EventStore, headers: dict[str, str]) -> None:
    for route in ROUTES:
        body = None if route.body is None else b"{}"
        reply = client.send(route.method, path_of(route), body, **headers)
        assert (reply.status, reply.json["code"]) == (403, "forbidden"), route.path
        assert "access-control-allow-origin" not in reply.headers
    assert store.head() == 0


def test_a_preflight_of_another_site_gets_no_permission(client: Client) -> None:
    for origin in ("http://evil.example", "null"):
        reply = client.send("OPTIONS", "events", origin=origin, access_control_request_method="POST")
        assert reply.status == 403
    for reply in (client.send("OPTIONS", "events"), client.get("head")):
        assert not any(name.startswith("access-control") for name in reply.headers)


PATHS = [
    "/v1/logs/../../etc/passwd",
    "/v1/logs/%2e%2e/%2e%2e/etc/passwd",
    "/v1/logs/..%2f..%2fetc%2fpasswd/head",
    "/v1/logs/default%2fhead",
    "/v1%2flogs/default/head",
    "/v1/logs/default/head%00",
    "/v1/logs/default%00/head",
    "/v1/logs/%00/head",
    "//v1/logs/default/head",
    "/v1//logs/default/head",
    "/v1/logs/default//head",
    "/v1/logs//head",
    "/./v1/logs/default/head",
    "/v1/logs/default/./head",
    "/v1/logs/default/x/../head",
    "/v1/logs/default/head;x=1",
    "/v1/logs/default\\head",
    "/v1/logs/default/%68ead%2f",
    "/v1/logs/DEFAULT/head",
    "/V1/logs/default/head",
    "/v1/logs/default%ff/head",
    "/v1%2flogs/default%2fevents/id/%ff",
    "/v1/logs/%c0%ae%c0%ae/head",
    "/v1/logs/default/events/%2e",
    "/v1/logs/default/events/id/..",
    "/v1/logs/default/followers/..%2fx/pause",
    "/v1/logs/" + "a" * 3_000 + "/head",
    "/v1/logs/default/events/" + "9" * 3_000,
    "/" * 3_000,
    "/%",
    "/%zz",
    "/%25%32%65",
]


@pytest.mark.parametrize("path", PATHS)
def test_odd_paths_lead_nowhere(client: Client, path: str) -> None:
    for method in ("GET", "POST"):
        (status,) = statuses(exchange(client.port, request(path, method=method)))
        assert status in {400, 404, 405, 422}


def test_a_path_is_taken_as_the_bytes_that_were_sent(client: Client) -> None:
    assert client.get("/v1/logs/%64efault/head").status == 200
    assert client.get("/v1/logs/default/head/").status == 200


def test_scripts_in_every_field_stay_data(client: Client, store: EventStore) -> None:
    for text in (SCRIPT, IMAGE):
        event = {
            "type": text,
            "data": {text: text},
            "tags": [text],
            "metadata": {text: text},
            "stream": text,
            "subject": text,
        }
        assert client.post("events", {"events": [event], "tracking": [text, 1]}).status == 201
        store.follower(text).lease(1)
    paths = [path_of(route) for route in ROUTES if route.method == "GET"]
    paths += [f"events?format={form}" for form in ("json", "ndjson", "csv")]
    paths += [
        f"/{SCRIPT}",
        f"/v1/logs/{SCRIPT}/head",
        f"events?where={SCRIPT}",
        f"events?{SCRIPT}=1",
        "types",
        "tags",
    ]
    for path in paths:
        reply = client.get(path.replace(" ", "%20").replace("<", "%3C").replace(">", "%3E"))
        kind = reply.headers["content-type"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        if kind.startswith("text/html"):
            assert SCRIPT.encode() not in reply.body
            assert b"onerror" not in reply.body
            assert "default-src 'none'" in reply.headers["content-security-policy"]
        else:
            assert "json" in kind or kind.startswith(("text/plain", "text/csv", "application/openmetrics"))
    reply = client.get("events", accept="text/html")
    assert reply.headers["content-type"] == "application/json"


def test_every_answer_has_its_security_headers(client: Client) -> None:
    for route in ROUTES:
        reply = client.send(route.method, path_of(route), None if route.body is None else b"{}")
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in reply.headers
        if reply.headers["content-type"].startswith("text/html"):
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert reply.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("value", ["a\r\nset-cookie: x=1", "a\nx: y", "a\rx: y", "a\x00b", "a\x0bb"])
def test_no_header_comes_from_a_request(client: Client, value: str) -> None:
    encoded = "".join(f"%{ord(char):02x}" for char in value)
    for path in (f"/{encoded}", f"/v1/logs/{encoded}/head", f"/v1/logs/default/events?tag={encoded}",
                 f"/v1/logs/default/tracking/{encoded}", f"/v1/logs/default/followers/{encoded}/dead-letters",
                 f"/login?{encoded}={encoded}"):  # fmt: skip
        reply = client.get(path)
        assert reply.status in {404, 422}
        assert "set-cookie" not in reply.headers
        assert "x" not in reply.headers
    answer = exchange(client.port, request("/healthz", f"traceparent: {value}"))
    assert b"set-cookie" not in answer
    assert (
        client.get("/healthz", traceparent="00-" + "z" * 32 + "-b7ad6b7169203331-01").headers.get(
            "traceparent"
        )
        is None
    )


DEEP = [b"[" * 100_000, b'{"a":' * 100_000, b'{"items":[' * 50_000, b"[" * 500 + b"]" * 500]
NUMBERS = ["1e400", "-1e400", "1" * 5_000, "NaN", "Infinity", "-0", "1.5", "9" * 30, "1e3", "true", '"1"']


@pytest.mark.parametrize("body", DEEP)
def test_deep_bodies_are_refused(client: Client, store: EventStore, body: bytes) -> None:
    for route in ROUTES:
        if route.body is not None:
            kind = route.body_types[0].decode()
            reply = client.send(route.method, path_of(route), body, content_type=kind)
            assert reply.status < 500
    assert client.get("/v1/logs/default/events?where=" + body[:5_000].decode()).status == 422
    assert store.head() == 0


@pytest.mark.parametrize("number", NUMBERS)
def test_odd_numbers_do_no_harm(client: Client, store: EventStore, number: str) -> None:
    for body in (
        f'{{"events": [{{"type": "T", "data": 1}}], "condition": {{"fail_if_events_match": {{"items": [{{}}]}}, "after": {number}}}}}',
        f'{{"events": [{{"type": "T", "data": 1}}], "tracking": ["a", {number}]}}',
        f'{{"events": [{{"type": "T", "data": {number}, "position": {number}}}]}}',
    ):
        assert client.send("POST", "events", body.encode()).status < 500
    for body in (f'{{"after": {number}}}', f'{{"limit": {number}}}', f'{{"until": {number}}}'):
        assert client.send("POST", "read", body.encode()).status < 500
    for name in ("after", "limit", "until"):
        assert client.get(f"events?{name}={number}").status < 500
    assert client.get(f"events/{number}").status < 500
    assert client.send("POST", "retags", f'{{"positions": [{number}], "add": ["a"]}}'.encode()).status < 500


def test_many_parameters_and_fields_are_refused(client: Client) -> None:
    assert client.get("events?" + "&".join(f"tag=t{number}" for number in range(2_000))).status == 422
    assert client.get("events?" + "a=1&" * 5_000).status == 422
    items = [{"types": [f"T{number}"]} for number in range(2_000)]
    assert client.post("count", {"query": {"items": items}}).status < 500
    assert client.post("events", {"events": [EVENT] * 10_001}).status < 500


@pytest.fixture
def holder(store: EventStore, tmp_path: Path) -> Iterator[tuple[Client, str, Path]]:
    path = tmp_path / "tokens.json"
    scopes = ["metadata", "read", "append", "follow", "manage", "metrics", "admin"]
    _, secret = create_token(str(path), scopes)
    store.append(Event("T", 1))
    with serving(app(store, tokens=path, audit=tmp_path / "audit", rate=1_000)) as client:
        yield client, secret, path


def test_no_secret_is_in_an_answer_a_log_or_a_file(
    holder: tuple[Client, str, Path], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, secret, path = holder
    (token,) = read_tokens(str(path))
    wrong = "strandline_" + "W" * 43
    caplog.set_level(logging.DEBUG)
    seen: list[bytes] = []
    for given in (secret, wrong):
        for route in ROUTES:
            body = None if route.body is None else b"{}"
            kind = {"content_type": route.body_types[0].decode()} if body else {}
            for more in ({}, {"authorization": f"Bearer {given}"}, {"authorization": f"Basic {given}"},
                         {"cookie": f"strandline-{client.port}={given}"}):  # fmt: skip
                reply = client.send(route.method, path_of(route), body, **kind, **more)
                seen.append(reply.body + repr(reply.headers).encode())
        seen += [exchange(client.port, request("/healthz", f"authorization: Bearer {given}\x00"))]
    monkeypatch.setattr("strandline.server.calls.encode", lambda _: 1 / 0)
    reply = client.get("head", authorization=f"Bearer {secret}")
    assert (reply.status, reply.json["detail"]) == (500, "the server failed unexpectedly")
    seen.append(reply.body)
    text = b"".join(seen).decode("latin-1") + caplog.text + (path.parent / "audit").read_text()
    for hidden in (secret, secret[11:], wrong, token.hash):
        assert hidden not in text
    assert "ZeroDivisionError" in caplog.text


def test_a_wrong_token_is_refused_alike_whatever_is_wrong(holder: tuple[Client, str, Path]) -> None:
    client, secret, _ = holder
    bodies = set()
    for value in (f"Bearer {secret[:-1]}", f"Bearer {secret}x", "Bearer", "Bearer ", f"Basic {secret}", secret,
                  f"Bearer {secret},{secret}", f"Bearer Bearer {secret}", f"Token {secret}", "Bearer \xff\xfe"):  # fmt: skip
        reply = client.get("head", authorization=value)
        assert reply.status == 401
        bodies.add(reply.body)
    assert len(bodies) == 1
    assert client.get(f"head?token={secret}").status == 401
    assert client.get(f"head?access_token={secret}").status == 401


def test_a_refused_request_does_not_read_its_body(
    holder: tuple[Client, str, Path], store: EventStore
) -> None:
    client, _, _ = holder
    sent = request(
        "/v1/logs/default/events", "content-length: 100000000", "expect: 100-continue", method="POST"
    )
    answer = exchange(client.port, sent)
    assert statuses(answer) == [401]


def test_data_of_others_is_no_part_of_a_500(store: EventStore, caplog: pytest.LogCaptureFixture) -> None:
    with serving(app({"default": "postgresql://user:p4ssword@127.0.0.1:1/none"})) as client:
        reply = client.get("head")
    assert reply.status in {500, 503}
    assert "p4ssword" not in reply.body.decode() + caplog.text
    assert json.loads(reply.body)["status"] == reply.status
