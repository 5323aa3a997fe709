"""gRPC over HTTP/2, by grpcio."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import grpc
from grpc import aio

from ...errors import Unavailable
from .method import Answer, Answers, Method
from .refusals import refusal_of

REQUEST_BYTES = 4 * 1024 * 1024
KEEPALIVE_MILLISECONDS = 5_000
KEEPALIVE_TIMEOUT_MILLISECONDS = 10_000
_DETAILS = "grpc-status-details-bin"
_OPTIONS = (
    ("grpc.so_reuseport", 0),  # two servers on one port would share its connections
    ("grpc.max_receive_message_length", REQUEST_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", 1_024),
    ("grpc.keepalive_time_ms", KEEPALIVE_MILLISECONDS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MILLISECONDS),
    ("grpc.keepalive_permit_without_calls", 1),
    # UmaDB's clients ping every five seconds. Servers close such connections by default.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
)
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the method of a call."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._handlers = {path: _handler(method) for path, method in methods.items()}

    def service(self, details: Any) -> Any:
        """Return the handler for a call, None for a path that there is not."""
        return self._handlers.get(details.method)


def _handler(method: Method) -> Any:
    if method.answer is not None:
        return grpc.unary_unary_rpc_method_handler(_unary(method.answer))
    assert method.answers is not None
    return grpc.unary_stream_rpc_method_handler(_stream(method, method.answers))


def _unary(answer: Answer) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def call(request: bytes, context: Any) -> bytes:
        try:
            return await answer(_authorization(context), request)
        except Exception as error:
            await _refuse(context, error)
            raise

    return call


def _stream(method: Method, begin: Answers) -> Callable[[bytes, Any], Awaitable[None]]:
    async def call(request: bytes, context: Any) -> None:
        try:
            async with aclosing(await begin(_authorization(context), request)) as answers:
                if method.is_live:
                    await context.send_initial_metadata(())
                async for answer in answers:
                    await context.write(answer)
        except Exception as error:  # noqa: BLE001 - every error is answered
            await _refuse(context, error)

    return call


def _authorization(context: Any) -> bytes | None:
    for name, value in context.invocation_metadata():
        if name == "authorization":
            return value.encode() if isinstance(value, str) else bytes(value)
    return None


async def _refuse(context: Any, error: Exception) -> None:
    refusal = refusal_of(error)
    details = ((_DETAILS, refusal.details),) if refusal.details else ()
    await context.abort(_CODES[refusal.status], refusal.message, details)


class Transport:
    """Listens, and answers calls of methods. Made and used in one event loop."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        listeners: Sequence[socket.socket],
        tls: tuple[str, str] | None,
    ) -> None:
        self._server = aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((Handlers(methods),))
        for listener in listeners:
            host, port, *_ = listener.getsockname()
            listener.close()  # grpcio takes addresses only
            self._listen(host, port, tls)

    def _listen(self, host: str, port: int, tls: tuple[str, str] | None) -> None:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if tls is None:
                self._server.add_insecure_port(place)
            else:
                cert, key = map(_content, tls)
                self._server.add_secure_port(place, grpc.ssl_server_credentials([(key, cert)]))
        except RuntimeError as error:
            raise Unavailable(
                f"cannot listen on {place}: {error}", hint="choose another port with --grpc-port"
            ) from error

    async def start(self) -> None:
        """Take calls from now on."""
        await self._server.start()

    async def stop(self, seconds: float) -> None:
        """Take no more calls, and wait for those under way."""
        await self._server.stop(seconds)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
