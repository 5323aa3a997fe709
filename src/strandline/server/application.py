"""The ASGI application: takes requests through routing, checks and calls to their answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from time import perf_counter

from ..errors import Forbidden, NotFound, Unauthorized
from .audit import Audit
from .bodies import decoder_of, form_decoder_of, parameters_of
from .callers import Callers
from .exchange import (
    EVENT_STREAM,
    FORM,
    NDJSON,
    Answer,
    Exchange,
    Gone,
    Limits,
    Receive,
    Scope,
    Send,
    Service,
    Stream,
    path_segments,
)
from .gate import Gate
from .limits import open_log
from .load import Rate
from .logs import Logs, OneLog
from .problem import (
    PROBLEM,
    MethodNotAllowed,
    ShuttingDown,
    encode_problem,
    headers_of,
    status_of,
)
from .routes import ROUTES, Route, Table, allowed
from .sending import LARGE_ANSWER, send_answer, send_stream
from .tokens import Access, Tokens

DRAIN_SECONDS = 10.0
BODY_SECONDS_WHILE_DRAINING = 2.0
GONE = 499
"""Counted where the client went away before its request was complete."""
_AUDITED = frozenset({"manage", "admin"})
_DECODERS = {
    route.body: form_decoder_of(route.body) if FORM in route.body_types else decoder_of(route.body)
    for route in ROUTES
    if route.body is not None
}
_TABLE = Table(ROUTES)


def app(
    logs: OneLog | Mapping[str, OneLog],
    *,
    tokens: Tokens | str | os.PathLike[str] | None = None,
    audit: str | os.PathLike[str] | None = None,
    rate: float | None = None,
    read_only: bool = False,
    allow_hosts: Iterable[str] = (),
    limits: Limits | None = None,
) -> Application:
    """Return an ASGI application that serves a store, a URL, or several logs by name.

    Mount it inside another application, or run it with any ASGI server. It needs no lifespan. Requests must name the
    server by `localhost`, by its address, or by one of `allow_hosts`. With a file of `tokens`, every request needs one
    of them. `strandline token create` makes them. Each change other than an append is a line in the file `audit`. `rate`
    is how many requests per second a token may send, or an address.
    """
    service = Service(
        Logs(logs),
        Gate(allow_hosts),
        Callers(tokens),
        limits or Limits(),
        rate=None if rate is None else Rate(rate),
        audit=None if audit is None else Audit(audit),
        read_only=read_only,
    )
    return Application(service)


class Application:
    """The HTTP face of some logs, for any ASGI server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._metrics = service.metrics
        self._is_idle = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            await self._count(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    def begin_drain(self) -> None:
        """Answer 503 from now on, and ask the streams to end. Requests under way go on."""
        self._service.begin_drain()
        self._service.waits.cut_short(BODY_SECONDS_WHILE_DRAINING)

    async def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Finish the requests under way, end the streams, and close the stores that this application opened."""
        self.begin_drain()
        try:
            async with asyncio.timeout(seconds):
                while self._metrics.under_way:
                    self._is_idle.clear()
                    await self._is_idle.wait()
        except TimeoutError:
            pass
        await self._service.logs.close()

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._metrics.under_way += 1
        exchange = Exchange(scope, receive, self._service)
        try:
            await self._handle(exchange, send)
        finally:
            exchange.release()
            self._metrics.under_way -= 1
            if not self._metrics.under_way:
                self._is_idle.set()

    async def _handle(self, exchange: Exchange, send: Send) -> None:
        began = perf_counter()
        try:
            answer = await self._answer(exchange)
        except Gone:
            exchange.count_request(GONE, perf_counter() - began)
            return
        except Exception as error:  # noqa: BLE001 - every error is answered as a problem
            exchange.count_problem(error)
            answer = _problem(error, exchange.docs)
        if isinstance(answer, Answer):
            await send_answer(exchange, answer, send)
            exchange.count_request(answer.status, perf_counter() - began)
        else:
            await self._stream(exchange, answer, send, began)

    async def _stream(self, exchange: Exchange, stream: Stream, send: Send, began: float) -> None:
        is_live = stream.content_type == EVENT_STREAM
        if is_live:
            exchange.release()
            exchange.count_request(200, perf_counter() - began)
        try:
            with exchange.live() if is_live else nullcontext():
                await send_stream(exchange, stream, send)
        except Exception as error:
            exchange.count_problem(error)
            raise
        finally:
            if not is_live:
                exchange.count_request(200, perf_counter() - began)

    async def _answer(self, exchange: Exchange) -> Answer | Stream:
        header = exchange.header
        self._service.gate.check(header(b"host"), header(b"origin"), exchange.scope.get("server"))
        routes, exchange.path = _TABLE.find(path_segments(exchange.scope))
        if not routes:
            raise NotFound(
                f"there is nothing at {exchange.scope['path']!r:.120}", hint="/docs lists what there is"
            )
        method = exchange.scope["method"]
        route = routes.get("GET" if method == "HEAD" else method)
        if route is not None:
            exchange.route_path = route.path
            return await self._call(exchange, route)
        if method == "OPTIONS":
            return Answer(b"", 204, b"", [(b"allow", allowed(routes).encode())])
        raise MethodNotAllowed(f"{method!r:.20} is not possible here", allowed(routes))

    async def _call(self, exchange: Exchange, route: Route) -> Answer | Stream:
        if route.access is not None:
            await self._admit(exchange, route.access)
        if self._service.audit is not None and route.is_change and route.access in _AUDITED:
            return await self._call_audited(exchange, route, self._service.audit)
        return await self._answer_of(exchange, route)

    async def _admit(self, exchange: Exchange, access: Access) -> None:
        """Let in who may do what the request asks for, unless there is too much to do."""
        try:
            exchange.caller = await self._service.callers.identify(exchange)
        except (Unauthorized, Forbidden):
            exchange.check_rate()
            raise
        exchange.check_rate()
        exchange.take()

    async def _call_audited(self, exchange: Exchange, route: Route, audit: Audit) -> Answer | Stream:
        try:
            answer = await self._answer_of(exchange, route)
        except Exception as error:
            problem = encode_problem(error, docs=exchange.docs)
            await audit.write_change(exchange, route.call.__name__, status_of(error), problem)
            raise
        assert isinstance(answer, Answer)
        await audit.write_change(exchange, route.call.__name__, answer.status, answer.body)
        return answer

    async def _answer_of(self, exchange: Exchange, route: Route) -> Answer | Stream:
        if route.access is not None:
            exchange.caller.check(route.access)
        exchange.parameters = parameters_of(route.parameters, exchange.query_parameters())
        limits = self._service.limits
        if route.is_of_log:
            self._check_change(route)
            exchange.log = exchange.path["log"]
            exchange.store = await open_log(self._service.logs, exchange.log, exchange.caller)
        if route.body is not None:
            exchange.check_content_type(*route.body_types)
            if NDJSON not in route.body_types:
                most = limits.form_bytes if route.access is None else limits.body_bytes
                exchange.body = _DECODERS[route.body](await exchange.read_body(most))
        answer = await route.call(exchange)
        if isinstance(answer, Answer) and len(answer.body) > LARGE_ANSWER:  # the answer to a change never is
            exchange.hold(len(answer.body))
        return answer

    def _check_change(self, route: Route) -> None:
        if self._service.is_draining:
            raise ShuttingDown("the server is shutting down")
        if self._service.read_only and route.is_change:
            raise Forbidden("this server is read-only", hint="send changes to a server that takes them")


def _problem(error: Exception, docs: str) -> Answer:
    return Answer(encode_problem(error, docs=docs), status_of(error), PROBLEM.encode(), headers_of(error))


async def _live(receive: Receive, send: Send) -> None:
    """Take part in a lifespan, which needs nothing from us."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
