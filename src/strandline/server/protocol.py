"""Connections: uvicorn's protocol for httptools, with bounds in time and bytes for clients that mean no good.

The application never sees what the parser refuses. So that is answered here.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..errors import StrandlineError
from .exchange import SECURITY_HEADERS
from .problem import PROBLEM, BadRequest, HeadTooLarge, Overloaded, encode_problem, headers_of

_NOT_REPEATED = frozenset({b"connection", b"upgrade", b"http2-settings"})


class Protocol(HttpToolsProtocol):
    """One connection. It ends if a head, or a reader of an answer, takes too long."""

    header_seconds = 10.0
    """Within this time the head of a request must be complete."""
    write_seconds = 60.0
    """Within this time the client must take some of what waits for it."""
    head_bytes = 64 * 1024
    most_headers = 128
    most_pipelined = 32
    """So many requests may wait behind another one of the same connection."""
    most_connections = 10_000

    _deadline: asyncio.TimerHandle | None = None
    _write_deadline: asyncio.TimerHandle | None = None
    _head_size = 0
    _unparsed = 0
    _is_in_head = False
    _is_upgrade = False
    _refusal: StrandlineError | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect a request."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            self._refuse(Overloaded(f"the server has {self.most_connections:,} connections already"))
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._stop_clock()
        self._stop_write_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived. Expect the rest of the head, if it does not come at once."""
        self._unset_keepalive_if_required()
        if self._refusal is not None:
            return
        self._unparsed += len(data)
        try:
            if self._unparsed - len(data) > self.head_bytes:
                raise self._too_large()
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(_reason_of(error))
        except HeadTooLarge as error:
            self._refuse(error)
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self._deadline is None and self._refusal is None:
            self._expect_head()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._head_size = 0
        self._unparsed = 0
        self._is_in_head = True

    def on_url(self, url: bytes) -> None:
        """Take a part of the URL."""
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. A trailer is left out: as a header it could say what a proxy never saw."""
        self._grow(len(name) + len(value))
        if not self._is_in_head:
            return
        if len(self.headers) >= self.most_headers:
            raise HeadTooLarge(f"a request has at most {self.most_headers} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self._unparsed = 0
        self._is_in_head = False
        self._is_upgrade = self.parser.should_upgrade()
        if self._is_upgrade:
            return  # the parser stops now, and the request is parsed again without it
        self._stop_clock()
        self._check_framing()
        super().on_headers_complete()
        if len(self.pipeline) > self.most_pipelined:
            raise BadRequest(f"at most {self.most_pipelined} requests may wait in a connection")

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Know the body as complete."""
        self._unparsed = 0
        if not self._is_upgrade:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Take the next request. A connection that closes gets time to take the answer."""
        super().on_response_complete()
        if self.transport.is_closing():
            if self.transport.get_write_buffer_size():
                self._expect_reader()
        elif self._is_in_head and self._deadline is None:
            self._expect_head()

    def pause_writing(self) -> None:
        """Expect the client to read."""
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        """Go on."""
        self._stop_write_clock()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that nobody uses."""
        self._close()

    def _check_framing(self) -> None:
        """Refuse a request whose end a proxy could see elsewhere."""
        version = self.parser.get_http_version()
        if version not in {"1.0", "1.1"}:
            raise BadRequest(f"this server speaks HTTP/1.1, not {version}")
        for name, value in self.headers:
            if name == b"transfer-encoding" and (value.lower() != b"chunked" or version == "1.0"):
                raise BadRequest("of transfer encodings there is only chunked, and only in HTTP/1.1")

    def _grow(self, size: int) -> None:
        self._unparsed = 0
        self._head_size += size
        if self._head_size > self.head_bytes:
            raise self._too_large()

    def _too_large(self) -> HeadTooLarge:
        return HeadTooLarge(f"the head of a request has at most {self.head_bytes:,} bytes")

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Take the request as if it had asked for no other protocol, which HTTP allows.

        The parser takes all that follows for the other protocol, the body included, so it starts anew.
        """
        method: bytes = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(BadRequest("this server is no proxy"))
            return
        version = self.parser.get_http_version().encode()
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] not in _NOT_REPEATED]
        self.data_received(b"\r\n".join([*lines, b"", rest]))

    def _refuse(self, error: StrandlineError) -> None:
        """Answer an error and close, unless that could be taken for the answer to another request."""
        self._refusal = error
        self._stop_clock()
        cycle = self.cycle
        is_idle = cycle is None or cycle.response_complete
        if not is_idle and not cycle.more_body:
            cycle.keep_alive = False  # it is answered, and then the connection closes
            self.flow.pause_reading()
            return
        if is_idle or not (cycle.response_started or self.pipeline):
            self.transport.write(_answer(error))
        self._close()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
        if self.transport.get_write_buffer_size():
            self._expect_reader()

    def _expect_head(self) -> None:
        self._stop_clock()
        self._deadline = self.loop.call_later(self.header_seconds, self._close)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expect_reader(self) -> None:
        if self._write_deadline is None:
            self._write_deadline = self.loop.call_later(self.write_seconds, self.transport.abort)

    def _stop_write_clock(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None


def _reason_of(error: httptools.HttpParserError) -> StrandlineError:
    """Return why the parser stopped: an error of a callback above, or its own."""
    reason = error.__context__
    return reason if isinstance(reason, StrandlineError) else BadRequest(f"this is not HTTP: {error}")


def _answer(error: StrandlineError) -> bytes:
    body = encode_problem(error, docs="/docs")
    headers = [
        (b"content-type", PROBLEM.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
        *SECURITY_HEADERS,
        *headers_of(error),
    ]
    phrase = HTTPStatus(error.status).phrase.encode()
    lines = [b"HTTP/1.1 %d %b" % (error.status, phrase), *(b"%b: %b" % header for header in headers)]
    return b"\r\n".join([*lines, b"", body])
