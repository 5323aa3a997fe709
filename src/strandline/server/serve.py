"""The server: uvicorn with httptools, made to end half-sent requests and to drain before it stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from typing import Protocol as Shape

import uvicorn

from ..errors import InvalidInput, Unavailable
from .application import Application
from .gate import is_loopback
from .protocol import Protocol

__all__ = ["Server", "is_loopback", "listen", "rare_collections", "tls_options"]

IDLE_SECONDS = 75
DRAIN_SECONDS = 10.0
_BACKLOG = 2048
OPEN_FILES = 65_536
_COLLECT_AFTER = (50_000, 20, 100)


class Face(Shape):
    """Another protocol over the same logs."""

    async def start(self) -> None:
        """Take calls from now on."""
        ...

    def begin_drain(self) -> None:
        """Take no more calls, and ask the streams to end. Calls under way go on."""
        ...

    async def drain(self, seconds: float) -> None:
        """Finish the calls under way, within so many seconds."""
        ...


class Server(uvicorn.Server):
    """Serves an application until it is told to stop. Then it finishes what is under way."""

    def __init__(self, application: Application, *, faces: Iterable[Face] = (), **options: Any) -> None:
        self._application = application
        self._faces = list(faces)
        self._on_start: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        options.setdefault("proxy_headers", bool(options.get("forwarded_allow_ips")))
        super().__init__(
            uvicorn.Config(
                application,
                http=Protocol,
                ws="none",
                loop="uvloop",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                backlog=_BACKLOG,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=round(DRAIN_SECONDS),
                **options,
            )
        )

    def run_on(self, listeners: Sequence[socket.socket], on_start: Callable[[], None] | None = None) -> None:
        """Serve until `stop_soon`, or until a signal if this is the main thread."""
        self._on_start = on_start
        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.run(self._serve_and_drain(listeners))

    def stop_soon(self) -> None:
        """Begin to shut down, from any thread."""
        loop = self._loop
        if loop is None:
            self.should_exit = True
        else:
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(self.handle_exit, signal.SIGTERM, None)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Begin to shut down. The second signal ends at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._application.begin_drain()
        for face in self._faces:
            face.begin_drain()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals that end a server. They do not end the process by themselves afterwards."""
        loop = asyncio.get_running_loop()
        taken = []
        for name in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError, RuntimeError):  # only the main thread can
                loop.add_signal_handler(name, self.handle_exit, name, None)
                taken.append(name)
        try:
            yield
        finally:
            for name in taken:
                loop.remove_signal_handler(name)

    async def _serve_and_drain(self, listeners: Sequence[socket.socket]) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            for face in self._faces:
                await face.start()
            if self._on_start is not None:
                self._on_start()
            await self.serve(sockets=list(listeners))
        finally:
            seconds = 0 if self.force_exit else DRAIN_SECONDS
            await asyncio.gather(*(face.drain(seconds) for face in self._faces))
            await self._application.drain(seconds)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Look for cycles of objects rarely: a process that only serves.

    Each live stream keeps some hundred objects. With a thousand of them, the collector takes a third of the time.
    """
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def allow_many_connections() -> None:
    """Let this process open as many files as the system allows: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def tls_options(cert: str | None, key: str | None) -> dict[str, str]:
    """Return the options of a `Server` that speaks TLS, or none. The files are tried first."""
    if cert is None and key is None:
        return {}
    if cert is None or key is None:
        raise InvalidInput(
            "TLS needs a certificate and its private key", hint="give both --tls-cert and --tls-key"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password=b"")  # or a key with a password would ask for it
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{cert} and {key} cannot be used for TLS: {error}",
            hint="give a certificate chain and its private key without a password, both as PEM",
        ) from error
    return {"ssl_certfile": cert, "ssl_keyfile": key}


def listen(host: str, port: int, *, option: str = "--port") -> list[socket.socket]:
    """Return sockets that listen on every address of a host. The error says why that is refused."""
    listeners: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(found):
            chosen = (address[0], listeners[0].getsockname()[1], *address[2:]) if listeners else address
            listeners.append(socket.create_server(chosen, family=family, backlog=_BACKLOG))
    except (OSError, OverflowError) as error:
        for listener in listeners:
            listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise Unavailable(
            f"cannot listen on {host} port {port}: {reason}",
            hint=f"choose another port with {option}, or end the program that uses this one",
        ) from error
    return listeners
