"""One request and its answer, over ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    MutableMapping,
)
from contextlib import contextmanager
from functools import lru_cache
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

import msgspec
from msgspec import Struct

from ..aio import AsyncEventStore
from ..errors import InvalidInput, PayloadTooLarge
from ..subscription import AsyncSubscription
from .audit import Audit
from .callers import Caller, Callers
from .gate import Gate
from .load import Load, Rate, neighbourhood
from .logs import Logs
from .metrics import Metrics
from .packing import unpacked
from .problem import AtField, BadRequest, RequestTimeout, ShuttingDown, UnsupportedMediaType, code_of
from .scrape import Scrape

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
NDJSON = b"application/x-ndjson"
FORM = b"application/x-www-form-urlencoded"
EVENT_STREAM = b"text/event-stream"
USUAL_PATH = 100
NO_ROUTE = "none"
"""Stands in metrics for every path that is not the server's."""
_SINGLE = frozenset({b"host", b"origin", b"authorization", b"content-type", b"content-length"})
SECURITY_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Answer(Struct):
    """An answer that is there at once."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    headers: Headers = []


class Stream(Struct):
    """An answer in pieces. One that fails before its end is cut off, unless its last piece says so."""

    pieces: AsyncGenerator[bytes]
    content_type: bytes = NDJSON
    headers: Headers = []
    reads_body: bool = False
    """Whether the pieces are made while the body of the request still arrives."""
    stop: Callable[[], None] | None = None
    """Ends the wait for the next piece. Without it, that there is no reader is noticed at the next piece."""


class Gone(Exception):
    """The client went away before its request was complete."""


class Limits(Struct, frozen=True):
    """How much a request may bring, and how long it may take to do so."""

    body_bytes: int = 128 * 1024 * 1024
    line_bytes: int = 128 * 1024 * 1024
    body_seconds: float = 60.0
    """Within this time the next piece of a body must arrive."""
    body_bytes_per_second: int = 4 * 1024
    """What a body must bring on the average, after that time."""
    live_streams: int = 2_000
    """So many may be open at the same time."""
    requests: int = 1_000
    """So many requests may be under way. Live streams do not count."""
    held_bytes: int = 1024 * 1024 * 1024
    """So many bytes of bodies and answers may be in memory."""
    form_bytes: int = 16 * 1024
    """What somebody unknown may send."""


class Exchange:
    """A request on its way through the server."""

    __slots__ = (
        "_first",
        "_headers",
        "_held_bytes",
        "_is_taken",
        "_receive",
        "_waits",
        "body",
        "caller",
        "docs",
        "limits",
        "log",
        "parameters",
        "path",
        "root",
        "route_path",
        "scope",
        "service",
        "store",
    )

    def __init__(self, scope: Scope, receive: Receive, service: Service) -> None:
        self.scope = scope
        self.service = service
        self.limits = service.limits
        self.path: dict[str, str] = {}
        self.route_path = NO_ROUTE
        self.parameters: Any = None
        self.body: Any = None
        self.caller: Caller = service.callers.before_asked
        self._is_taken = False
        self._held_bytes = 0
        self.log = ""
        self.store: AsyncEventStore
        self.root: str = scope.get("root_path", "")
        self.docs = f"{self.root}/docs"
        self._receive = receive
        self._waits = service.waits
        self._headers: dict[bytes, bytes] | None = None

    def count_request(self, status: int, seconds: float) -> None:
        """Count this request. Paths count by their pattern, and methods that nothing here has as one."""
        method = self.scope["method"] if self.route_path != NO_ROUTE else NO_ROUTE
        self.service.metrics.add_request(method, self.route_path, status, seconds)

    @contextmanager
    def live(self) -> Generator[None]:
        """Count a live stream while it is open."""
        counts = self.service.metrics.log(self.log)
        counts.live_streams += 1
        try:
            yield
        finally:
            counts.live_streams -= 1

    def count_append(self, outcome: object) -> None:
        """Count the outcome of an append: its result, or the error that refused it."""
        self.service.metrics.log(self.log).add(outcome)

    def count_problem(self, error: Exception) -> None:
        """Count a problem that is answered."""
        self.service.metrics.problems[code_of(error)] += 1

    def take(self) -> None:
        """Count as one of the requests under way, whose number has a bound."""
        self.service.load.take()
        self._is_taken = True

    def hold(self, size: int) -> None:
        """Hold bytes, whose sum over all requests has a bound."""
        self.service.load.hold(size)
        self._held_bytes += size

    def hold_only(self, size: int) -> None:
        """Hold so many bytes instead of those so far."""
        self.hold(size - self._held_bytes)

    def release(self) -> None:
        """Give back what was taken and held. A live stream does so when it begins."""
        self.service.load.release(self._held_bytes, is_taken=self._is_taken)
        self._is_taken, self._held_bytes = False, 0

    def check_rate(self) -> None:
        """Refuse a caller that sends too much: a holder of a token, or an address."""
        rate = self.service.rate
        if rate is not None:
            token = self.caller.token
            rate.check(neighbourhood(self.address) if token is None else token.id)

    @property
    def address(self) -> str:
        """Where the request comes from."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def is_head(self) -> bool:
        """Whether only the headers of the answer are asked for."""
        return bool(self.scope["method"] == "HEAD")

    @property
    def came_by_proxy(self) -> bool:
        """Whether a proxy says that it has passed the request on."""
        return any(self.header(name) is not None for name in (b"x-forwarded-for", b"forwarded", b"via"))

    def header(self, name: bytes) -> bytes | None:
        """Return a header by its name in lower case. Several with that name are joined."""
        if self._headers is None:
            given = self.scope["headers"]
            self._headers = dict(given)
            if len(self._headers) != len(given):
                self._headers |= _joined(given)
        return self._headers.get(name)

    def query_parameters(self) -> list[tuple[str, str]]:
        """Return the parameters of the query string."""
        text = self.scope.get("query_string", b"").decode("latin-1")
        if not text:
            return []
        try:
            return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=1_000)
        except ValueError as error:
            reason = InvalidInput(f"the query string is not valid: {error}", hint="encode it as UTF-8")
            raise AtField(reason, "?") from error

    def check_content_type(self, *allowed: bytes) -> None:
        """Refuse a body that says that it has another form. One that says nothing is taken as the first form."""
        given = self.header(b"content-type")
        kind = b"" if given is None else given.partition(b";")[0].strip().lower()
        if kind and kind not in allowed:
            names = " or ".join(name.decode() for name in allowed)
            raise UnsupportedMediaType(
                f"the body is {kind.decode('latin-1')!r:.80}, not {names}",
                hint=f"send the header Content-Type: {allowed[0].decode()}",
            )

    async def read_body(self, most: int) -> bytes:
        """Return the whole body."""
        self._check_announced_size(most)
        pieces: list[bytes] = []
        size = 0
        limits, began = self.limits, monotonic()
        async for piece in self.body_pieces():
            size += len(piece)
            if size > most:
                raise too_large(most)
            self.hold(len(piece))
            if monotonic() - began > limits.body_seconds + size / limits.body_bytes_per_second:
                raise RequestTimeout("the body of the request came too slowly")
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def body_pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, unpacked."""
        return unpacked(self._sent_pieces(), self.header(b"content-encoding"), self.limits.body_bytes)

    async def _sent_pieces(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            async with self._waits.next_piece():
                message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            more = message.get("more_body", False)
            piece = message.get("body", b"")
            if piece:
                yield piece

    async def wait_until_gone(self) -> None:
        """Return when the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def unless_over(self, call: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of a call that may wait for long, or None because the server is about to end.

        The call is cancelled then, and also when the client goes away.
        """
        calling = asyncio.create_task(call)
        leaving = asyncio.create_task(self.wait_until_gone())
        ending = asyncio.create_task(self.service.ending.wait())
        try:
            await asyncio.wait((calling, leaving, ending), return_when=asyncio.FIRST_COMPLETED)
            if calling.done():
                return calling.result()
            if leaving.done():
                raise Gone
            return None
        finally:
            for task in (calling, leaving, ending):
                task.cancel()
            await asyncio.wait((calling, leaving, ending))

    def _check_announced_size(self, most: int) -> None:
        announced = self.header(b"content-length")
        if announced is not None and announced.isdigit() and int(announced[:20]) > most:
            raise too_large(most)


class Service:
    """Everything that the requests of one application share."""

    def __init__(
        self,
        logs: Logs,
        gate: Gate,
        callers: Callers,
        limits: Limits,
        *,
        rate: Rate | None,
        audit: Audit | None,
        read_only: bool,
    ) -> None:
        self.logs = logs
        self.gate = gate
        self.callers = callers
        self.limits = limits
        self.load = Load(limits.requests, limits.held_bytes)
        self.rate = rate
        self.audit = audit
        self.read_only = read_only
        self.waits = Waits(limits.body_seconds)
        self.is_draining: bool = False
        self.ending = asyncio.Event()
        """Set when the server drains, so that those who wait for something do so no longer."""
        self.live: set[AsyncSubscription] = set()
        self.metrics = Metrics()
        self.scrape = Scrape(self)

    def begin_drain(self) -> None:
        """Refuse requests from now on, and let live streams and waits end."""
        self.is_draining = True
        self.ending.set()
        for subscription in list(self.live):
            subscription.stop()


class Waits:
    """The waits for pieces of bodies. A server that drains cuts them short."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open: set[asyncio.Timeout] = set()
        self._deadline: float | None = None

    def next_piece(self) -> _Wait:
        """Return a context in which to wait for the next piece of a body."""
        return _Wait(self, self._seconds)

    def cut_short(self, seconds: float) -> None:
        """End all waits, those to come included, after so many seconds from now."""
        self._deadline = asyncio.get_running_loop().time() + seconds
        for timeout in self._open:
            timeout.reschedule(self._deadline)


class _Wait:
    def __init__(self, waits: Waits, seconds: float) -> None:
        deadline = waits._deadline
        self._waits = waits
        self._timeout = asyncio.timeout(seconds) if deadline is None else asyncio.timeout_at(deadline)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._waits._open.add(self._timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waits._open.discard(self._timeout)
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as reason:
            if self._waits._deadline is not None:
                raise ShuttingDown("the server is shutting down, and the body was not complete") from reason
            raise RequestTimeout("the body of the request did not arrive in time") from reason


def _joined(headers: Headers) -> dict[bytes, bytes]:
    """Join the headers that are there several times. Those that two readers could read differently are refused."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    for name in _SINGLE & values.keys():
        if len(values[name]) > 1:
            raise BadRequest(f"the header {name.decode()} is there twice")
    return {name: b", ".join(each) for name, each in values.items()}


def too_large(limit: int) -> PayloadTooLarge:
    """Return the error for a body or a line over the limit."""
    return PayloadTooLarge(
        f"a request may bring at most {limit:,} bytes", hint="send several smaller requests"
    )


def path_segments(scope: Scope) -> tuple[str, ...]:
    """Return the parts of the path below the place where the application is mounted, decoded one by one.

    A slash at the end changes nothing.
    """
    path: str = scope["path"]
    raw: bytes | None = scope.get("raw_path")
    root: str = scope.get("root_path", "")
    if len(path) > USUAL_PATH:
        return _segments(path, raw, root)
    return _remembered_segments(path, raw, root)


def _segments(path: str, raw: bytes | None, root: str) -> tuple[str, ...]:
    is_below = bool(root) and (path == root or path.startswith(root.rstrip("/") + "/"))
    skipped = root.rstrip("/").count("/") if is_below else 0
    if raw is not None:
        raw = raw.partition(b"?")[0]
    if raw is not None and _is_path(raw, path):
        parts = [unquote(part.decode("latin-1")) for part in raw.split(b"/")]
    else:
        parts = path.split("/")
    if parts[0]:  # a path that does not begin with a slash
        return "", *parts
    parts = parts[1 + skipped :]
    return tuple(parts[:-1] if parts and not parts[-1] else parts)


_remembered_segments = lru_cache(maxsize=1_000)(_segments)


def _is_path(raw: bytes, path: str) -> bool:
    """Return whether a path is the same, decoded. Some servers replace what is not UTF-8."""
    decoded = unquote_to_bytes(raw)
    return decoded == path.encode("utf-8", "surrogatepass") or decoded.decode("utf-8", "replace") == path


def encode(fields: Any) -> bytes:
    """Return an answer's fields as JSON."""
    return msgspec.json.encode(fields)
