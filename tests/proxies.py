"""Two proxies in front of a PostgreSQL server, for tests: one pools as pgbouncer does, one fails on demand.

Both really speak TCP, on 127.0.0.1, each in a thread of its own. They know just enough of the
protocol: how a connection begins, where a message ends, and which message means that the server is
ready for the next one. https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from strandline.testing.postgres import HOST, UNPRIVILEGED, free_port

T = TypeVar("T")
OpenServer = Callable[[], Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST, STARTUP = 80_877_103, 80_877_104, 80_877_102, 196_608
READY = b"Z"
# A client's messages that the server answers with READY, and those that leave it waiting for a Sync.
ASKS_READY = frozenset(b"QSF")
NEEDS_SYNC = frozenset(b"PBDECH")
# What pgbouncer takes in a startup message; the rest it refuses.
KNOWN_PARAMETERS = {"user", "database", "client_encoding", "application_name", "replication"}


class Message(NamedTuple):
    """One message of the protocol: its letter, and all of its bytes."""

    kind: bytes
    raw: bytes

    @property
    def body(self) -> bytes:
        return self.raw[5:]


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def fatal(code: str, text: str) -> bytes:
    return message(b"E", f"SFATAL\0VFATAL\0C{code}\0M{text}\0\0".encode())


async def read_message(reader: asyncio.StreamReader) -> Message:
    head = await reader.readexactly(5)
    (length,) = struct.unpack("!i", head[1:])
    return Message(head[:1], head + await reader.readexactly(length - 4))


async def read_startup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bytes]:
    """The first message of a client, which has no letter: its code, and all of its bytes."""
    while True:
        head = await reader.readexactly(8)
        length, code = struct.unpack("!ii", head)
        if code not in (SSL_REQUEST, GSS_REQUEST):
            return code, head + await reader.readexactly(length - 8)
        writer.write(b"N")


def abort(writer: asyncio.StreamWriter) -> None:
    """End the connection with a reset, as a crash or a firewall does."""
    sock = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Proxy:
    """Listens in front of the server at a URL; `url` is the same database, through this proxy."""

    def __init__(self, server_url: str) -> None:
        server = urlsplit(server_url)
        assert server.hostname is not None
        self.server = (server.hostname, server.port or 5432)
        self.port = free_port()
        user, at, _ = server.netloc.rpartition("@")
        self.url = urlunsplit(server._replace(netloc=f"{user}{at}{HOST}:{self.port}"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._clients: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.StreamWriter] = set()  # of all connections, at either side
        self._listener: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self.call(self.listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call(self.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the proxy's thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, HOST, self.port)

    async def stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def stop(self) -> None:
        await self.stop_listening()
        for task in [*self._clients]:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        self.cut_now()
        await asyncio.sleep(0.01)  # in which the transports end

    def cut_now(self) -> None:
        for writer in self._ends:
            abort(writer)
        self._ends.clear()

    async def open_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.server)
        self._ends.add(writer)
        return reader, writer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one client until it or its server has enough."""
        raise NotImplementedError

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        self._ends.add(writer)
        try:
            await self.serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            abort(writer)
        finally:
            self._clients.discard(task)
            self._ends.discard(writer)
            writer.close()


class ServerLink:
    """A connection of the pool to the server. What comes while no client has it is for nobody."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.key = b""
        self.status: list[bytes] = []
        self.client: PooledClient | None = None
        self.reading: asyncio.Task[None] | None = None

    async def begin(self, startup: bytes) -> None:
        self.writer.write(startup)
        while (got := await read_message(self.reader)).kind != READY:
            if got.kind == b"E":
                raise ConnectionError(got.body.decode())
            if got.kind == b"S":
                self.status.append(got.raw)
            if got.kind == b"K":
                self.key = got.body


class PooledClient:
    """A client of the pool, and what it waits for."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.link: ServerLink | None = None
        self.last: ServerLink | None = None
        self.awaited = 0
        self.is_unsynced = False

    def sent(self, kind: bytes) -> None:
        if kind[0] in ASKS_READY:
            self.awaited += 1
            self.is_unsynced = False
        elif kind[0] in NEEDS_SYNC:
            self.is_unsynced = True

    def is_over(self, status: bytes) -> bool:
        """Whether the server, which is ready again, has no transaction and no request of this client left."""
        self.awaited -= 1
        return status == b"I" and not self.awaited and not self.is_unsynced


class PoolingProxy(Proxy):
    """Gives each transaction another connection to the server, like pgbouncer with pool_mode=transaction.

    Nothing that belongs to a session survives a transaction: a prepared statement, SET, LISTEN, a
    session's advisory lock are on a connection that the next transaction does not get. As with
    pgbouncer, the process id that a client is told is none of the server's.
    """

    def __init__(self, server_url: str, *, size: int = 4) -> None:
        super().__init__(server_url)
        assert size > 1, "the next transaction could not get another connection"
        self.size = size
        self.transactions = 0
        self._pools: dict[bytes, Pool] = {}
        self._keys: dict[bytes, PooledClient] = {}

    async def stop(self) -> None:
        await super().stop()
        for pool in self._pools.values():
            await pool.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        code, startup = await read_startup(reader, writer)
        if code == CANCEL_REQUEST:
            await self._cancel(startup[8:])
            return
        refusal = refused_startup(code, startup)
        if refusal:
            writer.write(refusal)
            return
        pool = self._pools.setdefault(startup, Pool(self.open_server, startup, self.size))
        client, key = PooledClient(writer), secrets.token_bytes(8)
        self._keys[key] = client
        try:
            status = await pool.status()
            ready = message(READY, b"I")
            writer.write(message(b"R", bytes(4)) + b"".join(status) + message(b"K", key) + ready)
            await self._relay(reader, client, pool)
        except ConnectionError as error:
            writer.write(fatal("08006", f"the pool cannot reach the server: {error}"))
        finally:
            del self._keys[key]
            await pool.forget(client)

    async def _relay(self, reader: asyncio.StreamReader, client: PooledClient, pool: Pool) -> None:
        while (got := await read_message(reader)).kind != b"X":
            if client.link is None:
                await pool.link(client)
                self.transactions += 1
            assert client.link is not None
            client.sent(got.kind)
            client.link.writer.write(got.raw)
            await client.link.writer.drain()

    async def _cancel(self, key: bytes) -> None:
        client = self._keys.get(key)
        if client is not None and client.link is not None:
            _, writer = await self.open_server()
            writer.write(struct.pack("!ii", 16, CANCEL_REQUEST) + client.link.key)
            writer.close()


def refused_startup(code: int, startup: bytes) -> bytes:
    if code != STARTUP:
        return fatal("0A000", f"unsupported protocol {code >> 16}.{code & 0xFFFF}")
    names = startup[8:].split(b"\0")[:-2:2]
    unknown = [name.decode() for name in names if name.decode() not in KNOWN_PARAMETERS]
    return fatal("08P01", f"unsupported startup parameter: {unknown[0]}") if unknown else b""


class Pool:
    """The connections for clients with the same user, database and settings."""

    def __init__(self, open_server: OpenServer, startup: bytes, size: int) -> None:
        self._open_server = open_server
        self._startup = startup
        self._size = size
        self._links: list[ServerLink] = []
        self._idle: deque[ServerLink] = deque()
        self._changed = asyncio.Condition()

    async def status(self) -> list[bytes]:
        """What the server says about itself to each client."""
        async with self._changed:
            while len(self._links) < self._size:
                self._idle.append(await self._open())
        return self._links[0].status

    async def link(self, client: PooledClient) -> None:
        """Give the client a connection: another one than last time."""
        async with self._changed:
            while True:
                others = [link for link in self._idle if link is not client.last]
                if others:
                    link = others[0]
                    self._idle.remove(link)
                    break
                if len(self._links) < self._size:
                    link = await self._open()
                    break
                await self._changed.wait()
        link.client, client.link, client.last = client, link, link

    async def forget(self, client: PooledClient) -> None:
        """The client is gone; a transaction that it left halfway is gone with its connection."""
        if client.link is not None:
            await self._remove(client.link)

    async def close(self) -> None:
        for link in [*self._links]:
            await self._remove(link)

    async def _open(self) -> ServerLink:
        link = ServerLink(*await self._open_server())
        try:
            await link.begin(self._startup)
        except BaseException:
            abort(link.writer)
            raise
        self._links.append(link)
        link.reading = asyncio.create_task(self._read(link))
        return link

    async def _read(self, link: ServerLink) -> None:
        try:
            while True:
                got = await read_message(link.reader)
                client = link.client
                if client is None:
                    continue
                is_over = got.kind == READY and client.is_over(got.body)
                if is_over:  # before the client knows, and sends more
                    client.link = link.client = None
                client.writer.write(got.raw)
                await client.writer.drain()
                if is_over:
                    await self._give_back(link)
        except (OSError, asyncio.IncompleteReadError):
            if link.client is not None:
                link.client.writer.write(fatal("08P01", "server conn crashed?"))
                link.client.writer.close()
            await self._remove(link)

    async def _give_back(self, link: ServerLink) -> None:
        async with self._changed:
            self._idle.append(link)
            self._changed.notify_all()

    async def _remove(self, link: ServerLink) -> None:
        if link not in self._links:
            return
        self._links.remove(link)
        with contextlib.suppress(ValueError):
            self._idle.remove(link)
        if link.client is not None:
            link.client.link = link.client = None
        if link.reading is not None and link.reading is not asyncio.current_task():
            link.reading.cancel()
        link.writer.close()
        async with self._changed:
            self._changed.notify_all()


class Trap(NamedTuple):
    """Cut the connection whose client sends `text`: that message, or the answer to it."""

    text: bytes
    is_request_lost: bool = False  # before the server gets it
    later: int = 0  # how many answers after that one
    is_end: bool = False  # nobody can connect afterwards

    def is_sprung_by(self, raw: bytes) -> bool:
        return self.text in raw or self.text.hex().encode() in raw  # as clients may write a bytea


class FaultyProxy(Proxy):
    """Forwards everything, until it is told to fail."""

    def __init__(self, server_url: str) -> None:
        super().__init__(server_url)
        self.accepted = 0
        self.sprung = 0
        self._trap: Trap | None = None

    def cut(self) -> None:
        """End all connections now."""

        async def cut() -> None:
            self.cut_now()

        self.call(cut())

    def lose_request(self, text: str) -> None:
        """End the connection that next sends `text`; the server does not get it."""
        self._trap = Trap(text.encode(), is_request_lost=True)

    def lose_answer(self, text: str, *, later: int = 0, and_refuse: bool = False) -> None:
        """End the connection that next sends `text`, when the server has done it: its answer is lost.

        `later` lets as many answers through before: 1 is the answer to what follows, perhaps a commit.
        With `and_refuse` nobody can connect from then on.
        """
        self._trap = Trap(text.encode(), later=later, is_end=and_refuse)

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Nobody can connect, as if no server were there; who is connected is cut off."""
        self.refuse()
        try:
            yield
        finally:
            self.accept()

    def refuse(self) -> None:
        self.call(self.stop_listening())
        self.cut()

    def accept(self) -> None:
        """Listen again after `refuse`."""
        self.call(self.listen())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        code, startup = await read_startup(reader, writer)
        server_reader, server_writer = await self.open_server()
        server_writer.write(startup)
        wire = Wire()
        if code == CANCEL_REQUEST:
            await server_reader.read()
            return
        halves = [
            asyncio.create_task(self._requests(reader, server_writer, wire)),
            asyncio.create_task(self._answers(server_reader, writer, wire)),
        ]
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)
            self._ends.discard(server_writer)
            (abort if wire.is_cut else asyncio.StreamWriter.close)(writer)
            server_writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Wire) -> None:
        while True:
            got = await read_message(reader)
            trap = self._trap
            if trap is not None and trap.is_sprung_by(got.raw):
                self._trap = None
                self.sprung += 1
                if trap.is_request_lost:
                    wire.is_cut = True
                    return
                wire.answers_left = wire.awaited + trap.later
                wire.is_last = trap.is_end
            if got.kind[0] in ASKS_READY:
                wire.awaited += 1
            writer.write(got.raw)
            await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Wire) -> None:
        while True:
            got = await read_message(reader)
            is_withheld = wire.answers_left == 0
            if got.kind == READY:
                wire.awaited -= 1
                if is_withheld:
                    wire.is_cut = True
                    if wire.is_last:
                        await self.stop_listening()
                    return
                if wire.answers_left is not None:
                    wire.answers_left -= 1
            if not is_withheld:
                writer.write(got.raw)
                await writer.drain()


class Wire:
    """What is under way on one connection of the faulty proxy."""

    def __init__(self) -> None:
        self.awaited = 1  # the server is ready for the first time after the startup
        self.answers_left: int | None = None
        self.is_cut = False
        self.is_last = False


class PgBouncer:
    """The real one, if it is installed, set up like `PoolingProxy`."""

    program = shutil.which("pgbouncer")

    def __init__(self, server_url: str, *, size: int = 4) -> None:
        server = urlsplit(server_url)
        self.port = free_port()
        self._size = size
        self.url = urlunsplit(server._replace(netloc=f"{server.username}@{HOST}:{self.port}"))
        self.folder = Path(tempfile.mkdtemp(prefix="strandline-pgbouncer-"))
        self.folder.chmod(0o755)
        users = self.folder / "users.txt"
        users.write_text(f'"{server.username}" ""\n')
        self._settings = self.folder / "pgbouncer.ini"
        self._settings.write_text(
            f"""[databases]
* = host={server.hostname} port={server.port}
[pgbouncer]
listen_addr = {HOST}
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {size}
server_round_robin = 1
"""
        )

    def __enter__(self) -> Self:
        assert self.program is not None
        account: dict[str, Any] = {"user": UNPRIVILEGED} if os.geteuid() == 0 else {}
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                # Found by a link in a folder that its user may not enter, it can still be run where it is.
                [Path(self.program).resolve(), self._settings],
                stdout=log,
                stderr=log,
                **account,
            )
        while self._process.poll() is None:
            with contextlib.suppress(psycopg.OperationalError):
                self._fill()
                return self
            time.sleep(0.01)
        raise RuntimeError(f"pgbouncer says: {(self.folder / 'log').read_text()}")

    def _fill(self) -> None:
        """Transactions at once, so that every connection of the pool is made."""
        with contextlib.ExitStack() as stack:
            for _ in range(self._size):
                stack.enter_context(psycopg.connect(self.url)).execute("select 1")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder)


POOLERS: dict[str, type[PoolingProxy | PgBouncer]] = {"proxy": PoolingProxy, "pgbouncer": PgBouncer}


def pooler_of(name: str) -> type[PoolingProxy | PgBouncer]:
    """One of the poolers; a test that wants pgbouncer says so where that is not installed."""
    if name == "pgbouncer" and PgBouncer.program is None:
        pytest.skip(
            "pgbouncer is not installed (apt-get install pgbouncer): the pooler of the tests stood in for it"
        )
    return POOLERS[name]
