"""HTTP by hand, so that a client can do what no library lets it: stop in the middle, read slowly, leave without a word."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

ANSWER_SECONDS = 60.0
CUT_OFF = (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError)
"""What reading raises where a connection ends in the middle."""


class Lost(Exception):
    """The connection ended before the answer was complete."""


class Reply(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """A connection to a server, opened when it is used, and again after it was lost."""

    def __init__(self, port: int, log: str) -> None:
        self._port = port
        self._base = f"/v1/logs/{log}"
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send a request and return its whole answer."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                status, form = await self.begin(method, path, body, **headers)
                content = b"".join([piece async for piece in self.pieces(form)])
        except CUT_OFF as error:
            self.close()
            raise Lost(str(error)) from error
        return Reply(status, content)

    async def begin(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str]]:
        """Send a request and return the status and the headers of its answer."""
        await self.send(self.request(method, path, body, **headers))
        assert self._reader is not None
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
        named = dict(line.split(": ", 1) for line in head[1:] if line)
        return int(head[0].split()[1]), named

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        """Return the bytes of a request. A body that is not bytes is sent as JSON."""
        sent = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        named = {"host": f"127.0.0.1:{self._port}", "content-length": str(len(sent))}
        if body is not None:
            named["content-type"] = kind
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        return f"{method} {self._base}/{path} HTTP/1.1\r\n{lines}\r\n".encode() + sent

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        self._writer.write(data)
        await self._writer.drain()

    async def pieces(self, headers: dict[str, str]) -> AsyncIterator[bytes]:
        """Yield the body of an answer as it comes."""
        assert self._reader is not None
        if headers.get("transfer-encoding") != "chunked":
            yield await self._reader.readexactly(int(headers.get("content-length", "0")))
            return
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readuntil(b"\r\n")

    def close(self) -> None:
        """Leave, without a word to the server."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None
