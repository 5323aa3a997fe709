"""A connection that is reset while an event loop waits for an answer: uvloop tells of it once only."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest
import uvloop

from places import new_log
from strandline import Event, Query, connect_async
from strandline.testing.postgres import PostgresServer

LARGE = 4_000
RESET = struct.pack("ii", 1, 0)
QUERY = Query.tag("first")


class ResettingProxy:
    """Passes everything on, until it is armed: then it resets a connection in the middle of the next long answer."""

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.is_armed = False
        self.has_reset = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        """Both ways in one thread: a socket in which another thread waits is not reset when it is closed."""
        with contextlib.suppress(OSError), client, server:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 20)
                    if not data:
                        return
                    if self.is_armed and source is server and len(data) > LARGE:
                        self.is_armed = False
                        client.sendall(data[: len(data) // 2])
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                        client.close()
                        self.has_reset.set()
                        return
                    (client if source is server else server).sendall(data)


@pytest.fixture
def server(postgres_server: Callable[[str], PostgresServer]) -> PostgresServer:
    return postgres_server("postgres18")


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[ResettingProxy]:
    proxy = ResettingProxy(server.port)
    yield proxy
    proxy.close()


@pytest.mark.parametrize(
    "new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"]
)
def test_a_read_whose_connection_is_reset_is_read_again(
    server: PostgresServer, proxy: ResettingProxy, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    place = new_log(server.url())
    address = server.url().replace(f":{server.port}/", f":{proxy.port}/")

    async def main() -> None:
        async with connect_async(address, log=place.log) as store:
            await store.append([Event("First", "x" * 200, tags=["first"]) for _ in range(50)])
            while proxy.is_armed or not proxy.has_reset.is_set():
                assert len(await (await store.read(QUERY)).all_events()) == 50
                proxy.is_armed = True
                read = asyncio.ensure_future(store.read(QUERY).all_events())
                for _ in range(5):
                    await asyncio.sleep(0)
                # The loop does nothing until the answer is cut off, so it learns of both at once.
                proxy.has_reset.wait(1)
                assert len(await read) == 50

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(main(), 60))
