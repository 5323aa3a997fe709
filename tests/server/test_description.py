"""The OpenAPI description and the page about the API say what the server does."""

from __future__ import annotations

import copy
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from serving import Client, Reply, serving

import strandline
from strandline.server import app
from strandline.server.describe import error_classes, failures, successes
from strandline.server.examples import EXAMPLES
from strandline.server.routes import ROUTES

BODIES: dict[str, Any] = {
    "append": {"events": [{"type": "T", "data": 1}]},
    "append_many": b'{"events": [{"type": "T", "data": 1}]}',
    "check": {"condition": {"fail_if_events_match": {"items": [{}]}}},
    "log_in": b"csrf=a&token=b",
    "log_out": b"csrf=a",
    "retag": {"positions": [1], "add": ["a"]},
    "reset": {"position": 0},
    "lease": {"batch": 2, "wait": 0.1},
    "ack": {"token": "LEASE"},
    "give_up": {"token": "LEASE", "position": 1, "error": "odd"},
}
IN_PATH = {
    "{log}": "default",
    "{position}": "1",
    "{id}": "0190a8f0-0000-7000-8000-000000000001",
    "{source}": "orders",
    "{name}": "mails",
}
PARAMETERS = {"position_at": "?at=2026-01-01T00:00:00Z"}


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    with strandline.connect("memory:") as store, serving(app(store)) as client:
        described: dict[str, Any] = client.get("/openapi.json").json
        return described


def closed(schema: Any) -> Any:
    """The same schema, in which no object has fields that are not described."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(each) for name, each in schema.items()}
    return {"additionalProperties": False, **inner} if "properties" in schema else inner


def check(description: dict[str, Any], schema: Any, value: Any) -> None:
    """Hold a value against a schema of the description, without mercy."""
    whole = closed(copy.deepcopy({**schema, "components": description["components"]}))
    Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(value)


def check_answer(description: dict[str, Any], route: Any, reply: Reply) -> None:
    """Hold an answer against what the description says about its request."""
    responses = description["paths"][route.path][route.method.lower()]["responses"]
    response = responses[str(reply.status)]
    if "$ref" in response:
        response = description["components"]["responses"][response["$ref"].rpartition("/")[2]]
    kind = reply.headers["content-type"].partition(";")[0]
    schema = response["content"][kind]["schema"]
    if kind.endswith("ndjson"):
        for line in reply.lines:
            check(description, schema, line)
    elif kind.endswith("json"):
        check(description, schema, reply.json)


def with_token(body: Any, client: Client) -> Any:
    """Make a follower with a dead letter, and let the body have the token of its lease."""
    lease = client.post("followers/mails/lease", {"query": {"items": [{}]}}).json
    client.post("followers/mails/give-up", {"token": lease["token"], "position": 1, "error": "odd"})
    client.post("events", {"events": [{"type": "T", "data": 2}]})
    return body if not body or "token" not in body else body | {"token": lease["token"]}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_answers_as_described(client: Client, description: dict[str, Any], route: Any) -> None:
    event = {"type": "T", "data": 1, "id": IN_PATH["{id}"]}
    client.post("events", {"events": [event], "tracking": ["orders", 1]})
    path = route.path
    for name, value in IN_PATH.items():
        path = path.replace(name, value)
    name = route.call.__name__
    body = None if route.body is None else BODIES.get(name, {})
    if "{name}" in route.path:
        body = with_token(body, client)
    headers = {} if body is None else {"content_type": route.body_types[0].decode()}
    reply = client.send(route.method, path + PARAMETERS.get(name, ""), body, **headers)
    assert reply.status == route.status, reply.body
    assert reply.headers["content-type"].partition(";")[0] in route.produces
    unknown = client.send(route.method, f"{path}?colour=red", body, **headers)
    assert unknown.status == 422
    if route.method != "QUERY":
        check_answer(description, route, reply)
        check_answer(description, route, unknown)
        operation = description["paths"][route.path][route.method.lower()]
        assert ("requestBody" in operation) == (route.body is not None)
        assert operation["responses"].keys() == {str(each) for each in (*successes(route), *failures(route))}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_answer_in_json_has_a_schema(route: Any) -> None:
    if route.path != "/openapi.json" and any("json" in kind for kind in route.produces):
        assert route.answer is not None


def test_the_description_is_valid(description: dict[str, Any]) -> None:
    validate(description)


def test_every_parameter_and_every_field_is_described(description: dict[str, Any]) -> None:
    for name, schema in description["components"]["schemas"].items():
        assert schema["description"], name
        for field, described in schema["properties"].items():
            assert described["description"], f"{name}.{field}"
    for methods in description["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            for parameter in operation["parameters"]:
                assert "$ref" in parameter or parameter["description"], operation["operationId"]


def test_the_events_come_in_every_form(description: dict[str, Any]) -> None:
    for path, method in (("events", "get"), ("read", "post")):
        answer = description["paths"][f"/v1/logs/{{log}}/{path}"][method]["responses"]["200"]
        assert {"application/json", "application/x-ndjson", "text/csv"} <= answer["content"].keys()
        assert "application/vnd.apache.arrow.stream" in answer["content"]
        assert "Strandline-Condition" in answer["headers"]


def test_the_examples_are_what_the_server_answers(description: dict[str, Any]) -> None:
    noon = datetime(2026, 11, 19, 12, tzinfo=UTC)
    with strandline.connect("memory:", clock=lambda: noon) as store, serving(app(store)) as client:
        for example in EXAMPLES:
            (route, *_) = [
                each for each in ROUTES if each.call.__name__ == example.call and each.method != "QUERY"
            ]
            lines = isinstance(example.body, list)
            body = "\n".join(map(json.dumps, example.body)).encode() if lines else example.body
            reply = client.send(route.method, example.target, body)
            assert reply.status == example.status, reply.body
            answer = reply.lines if isinstance(example.answer, list) else reply.json
            assert answer == example.answer, example.call
            check_answer(description, route, reply)
            for each in example.body if lines else [example.body]:
                if each is not None:
                    check(description, {"$ref": f"#/components/schemas/{route.body.__name__}"}, each)


def test_a_problem_with_all_it_can_say_is_described(client: Client, description: dict[str, Any]) -> None:
    append = {"events": [{"type": "T", "data": 1}], "tracking": ["orders", 1]}
    client.post("events", append)
    tracked = client.post("events", append)
    client.post("retags", {"positions": [1], "add": ["a"]})
    everything = {"fail_if_events_match": {"items": [{}]}, "after": 1}
    retagged = client.post("events", {"events": append["events"], "condition": everything})
    parts = client.post("check", {"condition": {"parts": [everything, everything]}})
    for reply in (tracked, retagged, client.get("/nope")):
        check(description, {"$ref": "#/components/schemas/ProblemAnswer"}, reply.json)
    assert (tracked.json["tracked"], retagged.json["condition"], parts.json["part"]) == (1, None, 0)
    check(description, {"$ref": "#/components/schemas/CheckAnswer"}, parts.json)


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
        assert f"<b>{route.method}</b> {route.path}<" in text
    for each in error_classes():
        assert f'id="{each.code}"' in text
    assert "://" not in text
    assert "<script" not in text
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_every_link_on_the_page_leads_somewhere(client: Client) -> None:
    text = client.get("/docs").body.decode()
    anchors = re.findall(r' id="([^"]+)"', text)
    assert len(anchors) == len(set(anchors))
    targets = re.findall(r'href="([^"]+)"', text)
    assert {target.removeprefix("#") for target in targets} - {"openapi.json"} <= set(anchors)
    assert client.get("/openapi.json").status == 200
