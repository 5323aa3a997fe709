"""The OpenAPI description and the page about the API say what the server does."""

from __future__ import annotations

from typing import Any

import pytest
from serving import Client

from strandline.server.describe import error_classes
from strandline.server.routes import ROUTES

BODIES: dict[str, Any] = {
    "append": {"events": [{"type": "T", "data": 1}]},
    "append_many": b'{"events": [{"type": "T", "data": 1}]}',
    "check": {"condition": {"fail_if_events_match": {"items": [{}]}}},
    "retag": {"positions": [1], "add": ["a"]},
}
IN_PATH = {
    "{log}": "default",
    "{position}": "1",
    "{id}": "0190a8f0-0000-7000-8000-000000000001",
    "{source}": "orders",
}
PARAMETERS = {"position_at": "?at=2026-01-01T00:00:00Z"}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_answers_as_described(client: Client, route: Any) -> None:
    event = {"type": "T", "data": 1, "id": IN_PATH["{id}"]}
    client.post("events", {"events": [event], "tracking": ["orders", 1]})
    path = route.path
    for name, value in IN_PATH.items():
        path = path.replace(name, value)
    name = route.call.__name__
    body = None if route.body is None else BODIES.get(name, {})
    reply = client.send(route.method, path + PARAMETERS.get(name, ""), body)
    assert reply.status == route.status, reply.body
    assert reply.headers["content-type"].partition(";")[0] in route.produces
    if route.method != "QUERY":
        description = client.get("/openapi.json").json
        operation = description["paths"][route.path][route.method.lower()]
        assert str(route.status) in operation["responses"]
        assert ("requestBody" in operation) == (route.body is not None)


def test_every_reference_in_the_description_leads_somewhere(client: Client) -> None:
    description = client.get("/openapi.json").json

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [each for inner in value.values() for each in references(inner)]
        return [each for inner in value for each in references(inner)] if isinstance(value, list) else []

    found = references(description)
    assert found
    for reference in found:
        target: Any = description
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def test_the_operations_have_different_names(client: Client) -> None:
    paths = client.get("/openapi.json").json["paths"]
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(names) == len(set(names))


def test_the_page_has_every_route_and_every_error_and_loads_nothing(client: Client) -> None:
    reply = client.get("/docs")
    text = reply.body.decode()
    for route in ROUTES:
        assert f"{route.method} {route.path}<" in text
    for each in error_classes():
        assert f'id="{each.code}"' in text
    assert "://" not in text
    assert "<script" not in text
    assert "default-src 'none'" in reply.headers["content-security-policy"]
