"""HEAD answers what GET does without the body, and OPTIONS says what a path can."""

from __future__ import annotations

from typing import Any

import pytest
from serving import Client

from strandline import Event, EventStore
from strandline.server.problem import headers_of
from strandline.server.routes import ROUTES

OF_THE_BODY = {"transfer-encoding"}
PLACES = {"{log}": "default", "{position}": "1", "{id}": "0190a8f0-0000-7000-8000-000000000001"}
GETS = [route for route in ROUTES if route.method == "GET"]


def place(path: str) -> str:
    for name, value in PLACES.items():
        path = path.replace(name, value)
    return path.replace("{source}", "orders").replace("{name}", "mailer")


@pytest.mark.parametrize("route", GETS, ids=lambda route: str(route.path))
def test_head_answers_the_headers_of_get(client: Client, store: EventStore, route: Any) -> None:
    store.append(Event("T", 1, id=PLACES["{id}"]))
    got, head = (client.send(method, place(route.path)) for method in ("GET", "HEAD"))
    assert head.status == got.status
    assert head.headers.keys() == got.headers.keys() - OF_THE_BODY
    assert head.headers["content-type"] == got.headers["content-type"]
    assert head.body == b""


def test_head_of_a_stream_has_no_body(client: Client, store: EventStore) -> None:
    store.append(Event("T", 1))
    head = client.send("HEAD", "events", accept="application/x-ndjson")
    assert (head.status, head.headers["content-type"], head.body) == (200, "application/x-ndjson", b"")


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("events", "GET, HEAD, OPTIONS, POST, QUERY"),
        ("read", "OPTIONS, POST"),
        ("events/1", "GET, HEAD, OPTIONS"),
        ("/healthz", "GET, HEAD, OPTIONS"),
    ],
)
def test_options_lists_the_methods(client: Client, path: str, methods: str) -> None:
    reply = client.send("OPTIONS", path)
    assert (reply.status, reply.headers["allow"], reply.body) == (204, methods, b"")
    assert "content-length" not in reply.headers
    refused = client.send("PATCH", path)
    assert (refused.status, refused.headers["allow"]) == (405, methods)


def test_head_and_options_of_no_path_are_404(client: Client) -> None:
    assert [client.send(method, "/nope").status for method in ("HEAD", "OPTIONS")] == [404, 404]


@pytest.mark.parametrize("status", [429, 503])
def test_an_answer_that_asks_to_come_again_says_when(status: int) -> None:
    from strandline import StrandlineError

    error = type("Later", (StrandlineError,), {"status": status})("later")
    assert dict(headers_of(error))[b"retry-after"].isdigit()


def test_a_full_last_page_of_names_has_no_next(client: Client, store: EventStore) -> None:
    store.append([Event(f"T{number:05}", 1) for number in range(10_000)])
    page = client.get("types?limit=10000").json
    assert (len(page["types"]), page["next"]) == (10_000, None)
    store.append(Event("T10000", 1))
    page = client.get("types?limit=10000").json
    assert (len(page["types"]), page["next"]) == (10_000, "T09999")
    assert [row["type"] for row in client.get("types?after=T09999").json["types"]] == ["T10000"]
