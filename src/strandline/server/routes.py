"""The table of routes. Routing, the checks of requests and the API description all read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from . import bodies, calls, describe
from .exchange import JSON, NDJSON, Answer, Exchange, Stream
from .formats import CONTENT_TYPES
from .tokens import Access

Call = Callable[[Exchange], Awaitable[Answer | Stream]]


class Route(Struct, frozen=True):
    """A request that the server understands."""

    method: str
    path: str
    access: Access | None
    call: Call
    body: type[bodies.Body] | None = None
    body_types: tuple[bytes, ...] = (JSON,)
    parameters: type[bodies.Body] = bodies.NoParameters
    status: int = 200
    produces: tuple[str, ...] = ("application/json",)

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path. Those in braces are parameters."""
        return tuple(self.path.strip("/").split("/")) if self.path != "/" else ()

    @property
    def is_of_log(self) -> bool:
        """Whether the request is about one log."""
        return "{log}" in self.segments

    @property
    def summary(self) -> str:
        """What the request does."""
        return (self.call.__doc__ or "").partition("\n")[0]


LOG = "/v1/logs/{log}"
_EVENTS = tuple(CONTENT_TYPES.values())
_LINES = ("application/x-ndjson",)

ROUTES: tuple[Route, ...] = (
    Route("POST", f"{LOG}/events", "append", calls.append, bodies.AppendBody, status=201),
    Route(
        "POST",
        f"{LOG}/appends",
        "append",
        calls.append_many,
        bodies.AppendBody,
        body_types=(NDJSON, JSON),
        produces=_LINES,
    ),
    Route(
        "GET",
        f"{LOG}/events",
        "read",
        calls.read_by_parameters,
        parameters=bodies.EventsParameters,
        produces=_EVENTS,
    ),
    Route(
        "QUERY",
        f"{LOG}/events",
        "read",
        calls.read,
        bodies.ReadBody,
        parameters=bodies.FormatParameters,
        produces=_EVENTS,
    ),
    Route(
        "POST",
        f"{LOG}/read",
        "read",
        calls.read,
        bodies.ReadBody,
        parameters=bodies.FormatParameters,
        produces=_EVENTS,
    ),
    Route("GET", f"{LOG}/events/{{position}}", "read", calls.event_at),
    Route("GET", f"{LOG}/events/id/{{id}}", "read", calls.event_with_id),
    Route("POST", f"{LOG}/check", "read", calls.check, bodies.CheckBody),
    Route("POST", f"{LOG}/exists", "read", calls.exists, bodies.SelectBody),
    Route("POST", f"{LOG}/count", "read", calls.count, bodies.SelectBody),
    Route("GET", f"{LOG}/head", "metadata", calls.head),
    Route("GET", f"{LOG}/positions", "metadata", calls.position_at, parameters=bodies.AtParameters),
    Route("GET", f"{LOG}/", "metadata", calls.describe),
    Route("POST", f"{LOG}/retags", "manage", calls.retag, bodies.RetagBody, status=201),
    Route(
        "GET",
        f"{LOG}/appends",
        "read",
        calls.appends,
        parameters=bodies.AppendsParameters,
        produces=_LINES,
    ),
    Route("GET", f"{LOG}/appends/{{position}}", "read", calls.append_holding),
    Route("GET", f"{LOG}/tracking/{{source}}", "read", calls.tracked),
    Route("GET", f"{LOG}/types", "metadata", calls.types, parameters=bodies.NamesParameters),
    Route("GET", f"{LOG}/tags", "metadata", calls.tags, parameters=bodies.NamesParameters),
    Route("GET", f"{LOG}/followers", "metadata", calls.followers),
    Route("GET", "/v1/logs", "metadata", calls.logs),
    Route("GET", "/", None, calls.start, produces=("text/html",)),
    Route("GET", "/docs", None, describe.docs, produces=("text/html",)),
    Route("GET", "/openapi.json", None, describe.openapi),
    Route("GET", "/metrics", "metrics", calls.metrics, produces=("text/plain",)),
    Route("GET", "/healthz", None, calls.healthz),
    Route("GET", "/readyz", None, calls.readyz),
)


class Table:
    """Finds the routes of a path."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self._by_length: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        for route in routes:
            self._methods_of(route.segments)[route.method] = route

    def find(self, segments: list[str]) -> tuple[dict[str, Route], dict[str, str]]:
        """Return the routes of a path by their methods, and the parameters in the path."""
        for pattern, routes in self._by_length.get(len(segments), ()):
            parameters = _match(pattern, segments)
            if parameters is not None:
                return routes, parameters
        return {}, {}

    def _methods_of(self, segments: tuple[str, ...]) -> dict[str, Route]:
        listed = self._by_length.setdefault(len(segments), [])
        for pattern, routes in listed:
            if pattern == segments:
                return routes
        added: dict[str, Route] = {}
        listed.append((segments, added))
        return added


def allowed(routes: Mapping[str, Route]) -> str:
    """Return the methods of a path, as the header `Allow` lists them."""
    head = {"HEAD"} if "GET" in routes else set()
    return ", ".join(sorted({*routes, *head, "OPTIONS"}))


def _match(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    parameters: dict[str, Any] = {}
    for expected, segment in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            parameters[expected[1:-1]] = segment
        elif expected != segment:
            return None
    return parameters
