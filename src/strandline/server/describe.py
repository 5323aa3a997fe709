"""The description of the API as OpenAPI, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from .. import __version__, errors
from ..errors import StrandlineError
from ..names import MAX_POSITION
from . import answers
from .examples import Example, examples_of
from .exchange import EVENT_STREAM, Answer, Exchange, encode
from .meanings import meaning
from .problem import HTTP_ERRORS, PROBLEM

if TYPE_CHECKING:
    from .routes import Route

Json = dict[str, Any]

THEMES = {
    "append": ("Append", "Write events, all or none, under a condition if you like."),
    "read": ("Read", "Events, and questions about them. Every read hands over the condition to append with."),
    "metadata": ("Look at a log", "Facts about a log and what is in it."),
    "follow": ("Follow", "Consume events one batch at a time, at least once."),
    "manage": ("Manage", "Change the tags of events and steer followers."),
    "metrics": ("Operate", "Metrics for Prometheus."),
    "admin": ("Administer", "Tokens."),
    None: ("The server", "How it is, and pages about it. They need no token."),
}
_ABOUT = """\
An event store in which the consistency boundary of a decision is a query.

Bodies are JSON and may be packed with gzip or zstd (`Content-Encoding`). Answers of 1 KiB or more are packed as
`Accept-Encoding` allows. `HEAD` answers the headers of every `GET`, `OPTIONS` the methods of a path.
`QUERY …/events` means the same as `POST …/read`. Unknown fields and parameters are refused.
"""
_MESSAGES = """\
Messages without an end: `event: event` with an event, `event: checkpoint` with `{"position"}` at least every second, and before
the server closes the stream `event: end` with `{"position"}` or `event: error` with a problem. `id` is where to go on.
"""
_LINES: dict[type, tuple[type, ...]] = {
    answers.AppendAnswer: (answers.AppendAnswer, answers.ProblemAnswer),
    answers.PageAnswer: (answers.EventLine, answers.EndLine, answers.ErrorLine),
    answers.RecordedAppendAnswer: (
        answers.RecordedAppendAnswer,
        answers.AppendsEndLine,
        answers.ErrorLine,
    ),
}
_EITHER = {
    "ConditionBody": ("fail_if_events_match", "parts"),
    "EventAnswer": ("data", "data_base64"),
    "EventBody": ("data", "data_base64"),
    "ResetBody": ("position", "at"),
    "RetagBody": ("query", "positions"),
}
_BOUNDS = {
    ("AppendBody", "events"): {"maxItems": 10_000},
    ("QueryBody", "items"): {"minItems": 1},
}
_OF_PATH: dict[str, Json] = {
    "position": {"type": "integer", "minimum": 1},
    "id": {"type": "string", "format": "uuid"},
}
_OF_TEXT: dict[str, Json] = {"at": {"type": "string", "format": "date-time"}}
_JSON_PARAMETERS = {"query": {"$ref": "#/components/schemas/QueryBody"}, "where": {"type": "object"}}
_EVENT_HEADERS = {
    "Strandline-Head": "With CSV and Arrow: the position of the last event when the read began.",
    "Strandline-Condition": "With CSV and Arrow: the condition to append with, as JSON. Left out beyond 4,096 bytes.",
    "Strandline-Condition-Too-Long": "The size of a condition that was left out.",
}
_PROBLEM_HEADERS = {
    401: {"WWW-Authenticate": "`Bearer`: send a token."},
    429: {"Retry-After": "How many seconds to wait."},
    503: {"Retry-After": "How many seconds to wait."},
}
_HEADERS: dict[str, Json] = {
    "Last-Event-ID": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "With a live stream: the id of the last message that arrived. It wins over `after`.",
        "schema": {"type": "integer", "minimum": 0, "maximum": MAX_POSITION},
    },
    "traceparent": {
        "name": "traceparent",
        "in": "header",
        "description": "The trace that the request belongs to (W3C). It comes back in the answer.",
        "schema": {"type": "string", "pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"},
    },
    "Strandline-Trace": {
        "name": "Strandline-Trace",
        "in": "header",
        "description": "`store` keeps the trace in the metadata of the events.",
        "schema": {"enum": ["store"]},
    },
}


async def openapi(exchange: Exchange) -> Answer:
    """Return the OpenAPI description."""
    servers = [{"url": exchange.scope.get("root_path", "") or "/"}]
    return Answer(encode({**description(), "servers": servers}))


def error_classes() -> list[type[StrandlineError]]:
    """Return every error that an answer may be made of, by its code."""
    shared = [getattr(errors, name) for name in errors.__all__ if name != "StrandlineError"]
    return sorted([*shared, *HTTP_ERRORS], key=lambda each: each.code)


def successes(route: Route) -> list[int]:
    """Return the statuses of a request that did what it was to do."""
    return [route.status, *(status for status in route.others if status < 400)]


def failures(route: Route) -> list[int]:
    """Return the statuses of the problems that a request may meet."""
    statuses = {403, 422, 500, *(status for status in route.others if status >= 400)}
    if route.is_of_log:
        statuses |= {404, 503}
    if route.body is not None:
        statuses |= {408, 413, 415}
    if route.access is not None:
        statuses |= {401, 429}
    return sorted(statuses)


@cache
def description() -> Json:
    """Return the OpenAPI document, but for the servers."""
    from .routes import ROUTES

    listed = [route for route in ROUTES if route.method != "QUERY"]  # OpenAPI 3.1 has no place for it
    paths: dict[str, Json] = {}
    for route in listed:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    statuses = {status for route in listed for status in failures(route)}
    themes = dict.fromkeys(THEMES[route.access] for route in listed)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Strandline", "version": __version__, "description": _ABOUT},
        "tags": [{"name": name, "description": about} for name, about in themes],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "responses": {f"Problem{status}": _problem(status) for status in sorted(statuses)},
            "parameters": _HEADERS,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Where the server has tokens."}
            },
        },
    }


@cache
def schemas() -> dict[str, Json]:
    """Return the schemas of all bodies and answers, with a description of every field."""
    from .routes import ROUTES

    classes = {each for route in ROUTES for each in (route.body, route.answer) if each is not None}
    lines = {each for several in _LINES.values() for each in several}
    listed = sorted(classes | lines | {answers.ProblemAnswer}, key=lambda each: each.__name__)
    _, components = msgspec.json.schema_components(listed, ref_template="#/components/schemas/{name}")
    for owner, schema in components.items():
        for name, field in schema.get("properties", {}).items():
            field.update(_BOUNDS.get((owner, name), {}), description=meaning(owner, name))
        if owner in _EITHER:
            schema["oneOf"] = [{"required": [name]} for name in _EITHER[owner]]
    return components


def _operation(route: Route) -> Json:
    name, examples = route.call.__name__, examples_of(route.call.__name__)
    operation: Json = {
        "operationId": f"{route.method.lower()}_{name}",
        "summary": route.summary,
        "tags": [THEMES[route.access][0]],
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": _responses(route, examples),
        "security": [] if route.access is None else [{"token": []}, {}],
    }
    if route.details:
        operation["description"] = route.details
    if route.body is not None:
        content = {kind.decode(): _body_content(route, kind, examples) for kind in route.body_types}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _body_content(route: Route, kind: bytes, examples: list[Example]) -> Json:
    assert route.body is not None
    content: Json = {"schema": reference(route.body)}
    if examples and not isinstance(examples[0].body, list):
        content["example"] = examples[0].body
    return content


def _responses(route: Route, examples: list[Example]) -> Json:
    responses: Json = {}
    for status in successes(route):
        shown = [example.answer for example in examples if example.status == status]
        content = {kind: _answer_content(route, kind, shown) for kind in route.produces}
        responses[str(status)] = {"description": _outcome(route, status), "content": content}
        if answers.PageAnswer is route.answer:
            responses[str(status)]["headers"] = _headers(_EVENT_HEADERS)
    for status in failures(route):
        shown = [example.answer for example in examples if example.status == status]
        refused = {"$ref": f"#/components/responses/Problem{status}"}
        responses[str(status)] = _problem(status, *shown) if shown else refused
    return responses


def _outcome(route: Route, status: int) -> str:
    if status == 200 and route.status == 201:
        return "It was written before, so nothing was written now."
    return "Done."


def _answer_content(route: Route, kind: str, shown: list[Any]) -> Json:
    if kind == "application/x-ndjson" and route.answer is not None:
        lines = [reference(line) for line in _LINES[route.answer]]
        return {"schema": {"oneOf": lines, "description": "Each line is one of these."}}
    if kind == EVENT_STREAM.decode():
        return {"schema": {"type": "string", "description": _MESSAGES}}
    if kind != "application/json":
        return {"schema": {} if "arrow" in kind else {"type": "string"}}
    if route.answer is None:
        return {"schema": {"type": "object"}}
    return {"schema": reference(route.answer), **({"example": shown[0]} if shown else {})}


def _problem(status: int, *shown: Json) -> Json:
    codes = [each for each in error_classes() if each.status == status]
    meanings = [f"`{each.code}`: {(each.__doc__ or '').partition(chr(10))[0]}" for each in codes]
    content: Json = {"schema": reference(answers.ProblemAnswer)}
    if shown:
        content["example"] = shown[0]
    return {
        "description": "\n".join(meanings),
        "headers": _headers(_PROBLEM_HEADERS.get(status, {})),
        "content": {PROBLEM: content},
    }


def _headers(meanings: dict[str, str]) -> Json:
    return {name: {"description": about, "schema": {"type": "string"}} for name, about in meanings.items()}


def reference(kind: type) -> Json:
    """Return the reference to the schema of a class."""
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _path_parameters(route: Route) -> Iterable[Json]:
    for segment in route.segments:
        if segment.startswith("{"):
            name = segment[1:-1]
            schema = _OF_PATH.get(name, {"type": "string", "minLength": 1})
            described = {"description": meaning("path", name), "schema": schema}
            yield {"name": name, "in": "path", "required": True, **described}


def _query_parameters(route: Route) -> Iterable[Json]:
    for name, schema in parameter_schemas(route).items():
        field: Json = {"name": name, "in": "query", "description": schema.pop("description")}
        if name in _JSON_PARAMETERS:
            yield {**field, "content": {"application/json": {"schema": _JSON_PARAMETERS[name]}}}
        else:
            required = schema.pop("required")
            yield {**field, "required": required, "schema": _OF_TEXT.get(name, schema)}


def _header_parameters(route: Route) -> Iterable[Json]:
    if answers.PageAnswer is route.answer:
        yield {"$ref": "#/components/parameters/Last-Event-ID"}
    if route.is_of_log:
        yield {"$ref": "#/components/parameters/traceparent"}
    if route.access == "append":
        yield {"$ref": "#/components/parameters/Strandline-Trace"}


def parameter_schemas(route: Route) -> dict[str, Json]:
    """Return the schemas of the query parameters of a request, with `description` and `required`."""
    kind = route.parameters
    _, components = msgspec.json.schema_components([kind])
    schema = components[kind.__name__]
    return {
        name: _without_null(field)
        | {"description": meaning(kind.__name__, name), "required": name in schema.get("required", [])}
        for name, field in schema["properties"].items()
    }


def _without_null(field: Json) -> Json:
    """Return the schema of a parameter, which is left out where a field would be null."""
    (given, *_) = [each for each in field.get("anyOf", [field]) if each != {"type": "null"}]
    plain = {name: value for name, value in given.items() if value is not None}
    if isinstance(plain.get("enum"), list):
        plain["enum"] = [value for value in plain["enum"] if value is not None]
    return plain
