"""The table of routes. Routing, the checks of requests and the API description all read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import cleandoc

from msgspec import Struct

from ..follow import FollowerStatus
from . import answers, bodies, calls, describe, followers, login, manual
from .exchange import FORM, JSON, NDJSON, Answer, Exchange, Stream
from .formats import CONTENT_TYPES
from .tokens import Access

_CHANGES = frozenset({"append", "follow", "manage", "admin"})
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
    answer: type | None = None
    """The class that describes an answer in JSON, or each line of one."""
    others: tuple[int, ...] = ()
    """Statuses that it has besides those of all requests like it: another success, 404, 409."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path. Those in braces are parameters."""
        return tuple(self.path.strip("/").split("/")) if self.path != "/" else ()

    @property
    def is_of_log(self) -> bool:
        """Whether the request is about one log."""
        return "{log}" in self.path

    @property
    def is_change(self) -> bool:
        """Whether it may change something."""
        return self.access in _CHANGES and self.method != "GET"

    @property
    def summary(self) -> str:
        """What the request does."""
        return (self.call.__doc__ or "").partition("\n")[0]

    @property
    def details(self) -> str:
        """What else is to be said about it."""
        return cleandoc((self.call.__doc__ or "").partition("\n")[2]).replace("\n", " ")


LOG = "/v1/logs/{log}"
FOLLOWER = f"{LOG}/followers/{{name}}"
_EVENTS = tuple(CONTENT_TYPES.values())
_LINES = ("application/x-ndjson",)

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        f"{LOG}/events",
        "append",
        calls.append,
        bodies.AppendBody,
        status=201,
        answer=answers.AppendAnswer,
        others=(200, 409),
    ),
    Route(
        "POST",
        f"{LOG}/appends",
        "append",
        calls.append_many,
        bodies.AppendBody,
        body_types=(NDJSON, JSON),
        produces=_LINES,
        answer=answers.AppendAnswer,
    ),
    Route(
        "GET",
        f"{LOG}/events",
        "read",
        calls.read_by_parameters,
        parameters=bodies.EventsParameters,
        produces=_EVENTS,
        answer=answers.PageAnswer,
        others=(501,),
    ),
    Route(
        "QUERY",
        f"{LOG}/events",
        "read",
        calls.read,
        bodies.ReadBody,
        parameters=bodies.FormatParameters,
        produces=_EVENTS,
        answer=answers.PageAnswer,
        others=(501,),
    ),
    Route(
        "POST",
        f"{LOG}/read",
        "read",
        calls.read,
        bodies.ReadBody,
        parameters=bodies.FormatParameters,
        produces=_EVENTS,
        answer=answers.PageAnswer,
        others=(501,),
    ),
    Route("GET", f"{LOG}/events/{{position}}", "read", calls.event_at, answer=answers.EventAnswer),
    Route("GET", f"{LOG}/events/id/{{id}}", "read", calls.event_with_id, answer=answers.EventAnswer),
    Route("POST", f"{LOG}/check", "read", calls.check, bodies.CheckBody, answer=answers.CheckAnswer),
    Route("POST", f"{LOG}/exists", "read", calls.exists, bodies.SelectBody, answer=answers.ExistsAnswer),
    Route("POST", f"{LOG}/count", "read", calls.count, bodies.SelectBody, answer=answers.CountAnswer),
    Route("GET", f"{LOG}/head", "metadata", calls.head, answer=answers.HeadAnswer),
    Route(
        "GET",
        f"{LOG}/positions",
        "metadata",
        calls.position_at,
        parameters=bodies.AtParameters,
        answer=answers.PositionAnswer,
    ),
    Route("GET", f"{LOG}/", "metadata", calls.describe, answer=answers.LogAnswer),
    Route(
        "POST",
        f"{LOG}/retags",
        "manage",
        calls.retag,
        bodies.RetagBody,
        status=201,
        answer=answers.RetagAnswer,
    ),
    Route(
        "GET",
        f"{LOG}/appends",
        "read",
        calls.appends,
        parameters=bodies.AppendsParameters,
        produces=_LINES,
        answer=answers.RecordedAppendAnswer,
    ),
    Route(
        "GET",
        f"{LOG}/appends/{{position}}",
        "read",
        calls.append_holding,
        answer=answers.RecordedAppendAnswer,
    ),
    Route("GET", f"{LOG}/tracking/{{source}}", "read", calls.tracked, answer=answers.PositionAnswer),
    Route(
        "GET",
        f"{LOG}/types",
        "metadata",
        calls.types,
        parameters=bodies.NamesParameters,
        answer=answers.TypesAnswer,
    ),
    Route(
        "GET",
        f"{LOG}/tags",
        "metadata",
        calls.tags,
        parameters=bodies.NamesParameters,
        answer=answers.TagsAnswer,
    ),
    Route("GET", f"{LOG}/followers", "metadata", followers.list_followers, answer=answers.FollowersAnswer),
    Route("POST", f"{FOLLOWER}/pause", "manage", followers.pause, answer=FollowerStatus),
    Route("POST", f"{FOLLOWER}/resume", "manage", followers.resume, answer=FollowerStatus),
    Route(
        "POST",
        f"{FOLLOWER}/reset",
        "manage",
        followers.reset,
        bodies.ResetBody,
        answer=FollowerStatus,
    ),
    Route(
        "GET",
        f"{FOLLOWER}/dead-letters",
        "manage",
        followers.dead_letters,
        answer=answers.DeadLettersAnswer,
    ),
    Route(
        "DELETE",
        f"{FOLLOWER}/dead-letters/{{position}}",
        "manage",
        followers.discard,
        answer=FollowerStatus,
    ),
    Route(
        "POST",
        f"{FOLLOWER}/lease",
        "follow",
        followers.lease,
        bodies.LeaseBody,
        answer=answers.LeaseAnswer,
        others=(409,),
    ),
    Route(
        "POST",
        f"{FOLLOWER}/ack",
        "follow",
        followers.ack,
        bodies.AckBody,
        answer=answers.PositionAnswer,
        others=(409,),
    ),
    Route(
        "POST",
        f"{FOLLOWER}/give-up",
        "follow",
        followers.give_up,
        bodies.GiveUpBody,
        answer=answers.PositionAnswer,
        others=(409,),
    ),
    Route("GET", "/v1/logs", "metadata", calls.logs, answer=answers.LogsAnswer),
    Route("GET", "/", None, login.start, produces=("text/html",)),
    Route("GET", "/login", None, login.login, produces=("text/html",)),
    Route(
        "POST",
        "/login",
        None,
        login.log_in,
        bodies.LoginBody,
        body_types=(FORM,),
        status=303,
        produces=("text/html",),
    ),
    Route(
        "POST",
        "/logout",
        None,
        login.log_out,
        bodies.LogoutBody,
        body_types=(FORM,),
        status=303,
        produces=("text/html",),
    ),
    Route("GET", "/docs", None, manual.docs, produces=("text/html",)),
    Route("GET", "/openapi.json", None, describe.openapi),
    Route("GET", "/metrics", "metrics", calls.metrics, produces=("text/plain",)),
    Route("GET", "/healthz", None, calls.healthz, answer=answers.StatusAnswer),
    Route("GET", "/readyz", None, calls.readyz, answer=answers.StatusAnswer),
)


class Table:
    """Finds the routes of a path: a tree with a branch for each segment."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self._root = _Branch()
        for route in routes:
            branch = self._root
            for segment in route.segments:
                branch = branch.next(segment)
            branch.routes[route.method] = route

    def find(self, segments: Sequence[str]) -> tuple[dict[str, Route], dict[str, str]]:
        """Return the routes of a path by their methods, and the parameters in the path."""
        parameters: dict[str, str] = {}
        return _find(self._root, segments, 0, parameters), parameters


class _Branch:
    __slots__ = ("branches", "name", "parameter", "routes")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.routes: dict[str, Route] = {}
        self.branches: dict[str, _Branch] = {}
        self.parameter: _Branch | None = None

    def next(self, segment: str) -> _Branch:
        """Return the branch for a segment of a route's path. Those in braces stand for any text."""
        if not segment.startswith("{"):
            return self.branches.setdefault(segment, _Branch())
        if self.parameter is None:
            self.parameter = _Branch(segment[1:-1])
        assert self.parameter.name == segment[1:-1]
        return self.parameter


def _find(
    branch: _Branch, segments: Sequence[str], index: int, parameters: dict[str, str]
) -> dict[str, Route]:
    if index == len(segments):
        return branch.routes
    segment = segments[index]
    known = branch.branches.get(segment)
    routes = {} if known is None else _find(known, segments, index + 1, parameters)
    if not routes and branch.parameter is not None:
        routes = _find(branch.parameter, segments, index + 1, parameters)
        if routes:
            parameters[branch.parameter.name] = segment
    return routes


def allowed(routes: Mapping[str, Route]) -> str:
    """Return the methods of a path, as the header `Allow` lists them."""
    head = {"HEAD"} if "GET" in routes else set()
    return ", ".join(sorted({*routes, *head, "OPTIONS"}))
