"""One connection to a server: a request is sent, and its answer is read.

A socket and the parser of httptools take a quarter of the time of `http.client` (decision 033).
"""

from __future__ import annotations

import select
import socket
import ssl
import sys
import time

import httptools

from .address import Address

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0
"""How long a server may be silent in the middle of an exchange."""
IDLE_SECONDS = 60.0
"""How long an idle connection is kept. The server keeps it for 75 seconds."""
_SMALL, _LARGE = 64 * 1024, 1024 * 1024


class Unreachable(Exception):
    """The server did not do anything: the request did not reach it, or it said so."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


class Broken(Exception):
    """The connection broke while the request was under way. Nobody knows what became of it.

    `may_be_stale` says that the server perhaps never saw it: it closed an idle connection at that moment.
    """

    def __init__(self, reason: str, *, may_be_stale: bool = False, is_late: bool = False) -> None:
        super().__init__(reason)
        self.may_be_stale = may_be_stale
        self.is_late = is_late


class Answer:
    """An answer as it is read: what the parser calls."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.is_complete = False
        self.is_resent = False  # whether an earlier try of the request may have been carried out
        self.has_begun = False
        self._has_surplus = False
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []

    @property
    def body(self) -> bytes:
        """What came after the headers."""
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def content_type(self) -> str:
        """The type of the body, without parameters."""
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")

    @property
    def keeps_connection(self) -> bool:
        """Whether another request may follow over the same connection."""
        return not self._has_surplus and bool(self._parser.should_keep_alive())

    def feed(self, data: bytes) -> None:
        """Take what was received. Nothing means that the server has closed the connection."""
        if data:
            self.has_begun = True
            self._parse(data)
        elif self.status and not {b"content-length", b"transfer-encoding"} & self.headers.keys():
            self.is_complete = True  # the end of the connection is that of the body
        else:
            raise ConnectionError("the server closed the connection")

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            if cause is None or isinstance(cause, Exception):
                raise
            interrupt = cause  # the parser wraps whatever comes while it calls us
        else:
            return
        raise interrupt

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._has_surplus = self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self.status < 200:  # the answer itself is still to come
            self.status = 0
            self.headers.clear()
        else:
            self.is_complete = True


class Connection:
    """A connection to a server. One thread uses it at a time."""

    def __init__(self, address: Address, context: ssl.SSLContext | None) -> None:
        self._socket = _open(address, context)
        self._is_new = True
        self._is_tls = context is not None
        self.can_go_on = True
        self.idle_since = time.monotonic()

    @property
    def is_stale(self) -> bool:
        """Whether something waits to be read although nothing was asked: mostly the end of the connection."""
        return time.monotonic() - self.idle_since > IDLE_SECONDS or _is_readable(self._socket)

    def exchange(self, head: bytes, body: bytes) -> Answer:
        """Send a request and return its answer. After an error the connection is of no use."""
        answer = Answer()
        try:
            failure = self._send(head, body, answer)
            self._read(answer, failure)
        except TimeoutError as error:
            reason = f"the server was silent for {SILENCE_SECONDS:g} s"
            raise Broken(reason, is_late=True) from error
        except (OSError, httptools.HttpParserError) as error:
            is_stale = not (self._is_new or answer.has_begun)
            raise Broken(_reason(error), may_be_stale=is_stale) from error
        self._is_new = False
        self.idle_since = time.monotonic()
        return answer

    def _send(self, head: bytes, body: bytes, answer: Answer) -> OSError | None:
        """Send a request. A server that refuses it early may close its end, and its answer is there all the same."""
        try:
            if len(body) <= _SMALL:
                self._socket.sendall(head + body)
                return None
            self._socket.sendall(head)
            view = memoryview(body)
            for start in range(0, len(body), _SMALL):
                # An answer that comes meanwhile is taken at once, or both sides could wait for each other.
                while not (self._is_tls or answer.is_complete) and _is_readable(self._socket):
                    answer.feed(self._socket.recv(_LARGE))
                if answer.is_complete:
                    return ConnectionError("the server answered before it had the whole request")
                self._socket.sendall(view[start : start + _SMALL])
        except (BrokenPipeError, ConnectionResetError) as error:
            return error
        return None

    def _read(self, answer: Answer, failure: OSError | None) -> None:
        size = _SMALL
        while not answer.is_complete:
            try:
                answer.feed(self._socket.recv(size))
            except ConnectionError as error:
                raise (failure or error) from error
            size = _LARGE
        self.can_go_on = failure is None and answer.keeps_connection

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def _is_readable(connected: socket.socket) -> bool:
    if sys.platform == "win32":
        return bool(select.select([connected], [], [], 0)[0])
    poll = select.poll()  # unlike `select`, it takes any number of open files
    poll.register(connected, select.POLLIN)
    return bool(poll.poll(0))


def _open(address: Address, context: ssl.SSLContext | None) -> socket.socket:
    try:
        plain = socket.create_connection((address.host, address.port), timeout=CONNECT_SECONDS)
    except OSError as error:
        raise Unreachable(_reason(error)) from error
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opened = plain if context is None else context.wrap_socket(plain, server_hostname=address.host)
        opened.settimeout(SILENCE_SECONDS)
    except BaseException as error:
        plain.close()
        if isinstance(error, OSError):
            raise Unreachable(_reason(error)) from error
        raise
    return opened


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, httptools.HttpParserError):
        return f"its answer is not HTTP: {error}"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
