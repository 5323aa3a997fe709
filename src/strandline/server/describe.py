"""The description of the API, as OpenAPI and as a page for people. Both are made from the table of routes."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from .. import __version__, errors
from ..errors import StrandlineError
from .exchange import Answer, Exchange, encode
from .pages import page
from .problem import HTTP_ERRORS, PROBLEM, title_of

if TYPE_CHECKING:
    from .routes import Route

_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "hint", "retry"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "hint": {"type": "string"},
        "retry": {"enum": ["no", "same", "decide"]},
        "path": {"type": "string"},
    },
}


async def openapi(exchange: Exchange) -> Answer:
    """Return the OpenAPI description."""
    servers = [{"url": exchange.scope.get("root_path", "") or "/"}]
    return Answer(encode({**_description(), "servers": servers}))


async def docs(exchange: Exchange) -> Answer:
    """Show the page about the API."""
    return _docs_page()


def error_classes() -> list[type[StrandlineError]]:
    """Return every error that an answer may be made of, by its code."""
    shared = [getattr(errors, name) for name in errors.__all__ if name != "StrandlineError"]
    return sorted([*shared, *HTTP_ERRORS], key=lambda each: each.code)


@cache
def _description() -> dict[str, Any]:
    from .routes import ROUTES

    bodies = [route.body for route in ROUTES if route.body is not None]
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        if route.method == "QUERY":  # OpenAPI 3.1 has no place for it. POST …/read means the same.
            continue
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Strandline", "version": __version__},
        "paths": paths,
        "components": {"schemas": {**schemas, "Problem": _PROBLEM_SCHEMA}},
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{route.call.__name__}",
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {
            str(route.status): {"description": "Done.", "content": {kind: {} for kind in route.produces}},
            "default": {
                "description": "A problem.",
                "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if route.body is not None:
        schema = {"$ref": f"#/components/schemas/{route.body.__name__}"}
        kinds = [kind.decode() for kind in route.body_types]
        content = {kind: {"schema": schema} for kind in kinds}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": segment[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for segment in route.segments
        if segment.startswith("{")
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([route.parameters])
    schema = components[route.parameters.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema["properties"].items()
    ]


@cache
def _docs_page() -> Answer:
    from .routes import ROUTES

    rows = "\n".join(_route_row(route) for route in ROUTES)
    problems = "\n".join(_error_row(each) for each in error_classes())
    return page(
        "The HTTP API",
        "<p>Bodies and answers are JSON. A read hands over the <code>condition</code> to append with. "
        'The <a href="openapi.json">OpenAPI description</a> has every field.</p>\n'
        "<h2>Requests</h2>\n<table>\n<tr><th>Request</th><th>Meaning</th><th>Parameters</th><th>Body</th></tr>\n"
        f"{rows}\n</table>\n<h2>Errors</h2>\n"
        "<p>Errors are problem documents (RFC 9457). <code>retry</code> says what you may do: "
        "<code>same</code> (send the same again), <code>decide</code> (read and decide again) or <code>no</code>.</p>\n"
        "<table>\n<tr><th>Code</th><th>Status</th><th>Retry</th><th>Meaning</th></tr>\n"
        f"{problems}\n</table>",
    )


def _route_row(route: Route) -> str:
    parameters = ", ".join(field.name for field in msgspec.structs.fields(route.parameters))
    fields = () if route.body is None else msgspec.structs.fields(route.body)
    body = ", ".join(field.name for field in fields)
    cells = (
        f"<code>{escape(f'{route.method} {route.path}')}</code>",
        escape(route.summary),
        parameters,
        body,
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _error_row(each: type[StrandlineError]) -> str:
    meaning = escape((each.__doc__ or "").partition("\n")[0])
    title = escape(title_of(each.code))
    return (
        f'<tr id="{each.code}"><td><code title="{title}">{each.code}</code></td><td>{each.status}</td>'
        f"<td>{each.retry}</td><td>{meaning}</td></tr>"
    )
