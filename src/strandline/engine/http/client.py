"""Requests to a server: over which connection they go, and what is done if no answer comes."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections import deque
from typing import Any

import msgspec

from ...errors import InvalidInput, StoreClosed, StrandlineError, Unavailable
from .address import Address
from .problems import PROBLEM, Problem, decode_problem
from .wire import Answer, Broken, Connection, Unreachable

RECONNECT_SECONDS = 5.0
"""How long a server that cannot be reached is tried again, once a store is open."""
JSON, NDJSON = "application/json", "application/x-ndjson"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_MOST_IDLE = 32
_MAY_BE_TRANSIENT = frozenset({408, 429, 503})


class Request(msgspec.Struct, frozen=True):
    """A request. `changes` says that it may write, `may_resend` that sending it twice does no harm."""

    method: str
    path: str
    body: bytes | None = None
    accept: str = JSON
    content_type: str = JSON
    changes: bool = False
    may_resend: bool = True


class Client:
    """Sends requests to one server. Safe to share between threads."""

    def __init__(self, address: Address, token: str | None) -> None:
        self.address = address
        self.patience = 0.0  # so that connecting to a server that is not there fails at once
        self._headers = _Headers(address, token)
        self._context = ssl.create_default_context() if address.is_tls else None
        self._idle: deque[Connection] = deque()
        self._is_closed = False

    def get(self, path: str, decode: msgspec.json.Decoder[Any]) -> Any:
        """Return what is at a path."""
        return self.decoded(self.send(Request("GET", path)), decode)

    def post(self, path: str, body: bytes, decode: msgspec.json.Decoder[Any]) -> Any:
        """Return the answer to a question that needs a body."""
        return self.decoded(self.send(Request("POST", path, body)), decode)

    def send(self, request: Request) -> Answer:
        """Send a request until there is an answer, whatever it says.

        A connection that breaks is made again, and the request is sent once more if that does no harm.
        """
        head = self._headers.head(self.address.path, request)
        attempt = _Attempt(self.address, request, self.patience)
        while True:
            try:
                answer = self._exchange(head, request)
            except Unreachable as error:
                attempt.was_unreachable(error)
            except Broken as error:
                attempt.was_broken(error)
            else:
                answer.is_resent = attempt.is_unknown
                return answer

    def decoded(self, answer: Answer, decode: msgspec.json.Decoder[Any]) -> Any:
        """Return what an answer says, or raise the error that it tells of."""
        if not 200 <= answer.status < 300 or answer.content_type != JSON:
            raise self.error_of(answer)
        try:
            return decode.decode(answer.body)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise self.stranger(f"{error}") from error

    def error_of(self, answer: Answer, *, changes: bool = False) -> StrandlineError:
        """Return the error that an answer tells of."""
        problem = _problem_in(answer)
        if problem is not None:
            return problem.error(changes=changes)
        location = answer.headers.get(b"location", b"").decode("latin-1")
        more = f" to {location}" if 300 <= answer.status < 400 else ""
        return self.stranger(f"{answer.status} {answer.content_type}{more}", changes=changes)

    def stranger(self, what: str, *, changes: bool = False) -> Unavailable:
        """Return the error for an answer that no Strandline server gives."""
        return Unavailable(
            f"{self.address.url} does not answer as a Strandline server does: {what.strip():.200}",
            hint="check the address, and what stands between you and the server: a proxy may answer in its place",
            written=None if changes else False,
        )

    def close(self) -> None:
        """Close the connections. Requests under way go on."""
        self._is_closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _exchange(self, head: bytes, request: Request) -> Answer:
        # Over an idle connection a request can be lost with nobody to blame, when the server closes it at that moment.
        connection = self._take() if request.may_resend else self._connect()
        try:
            answer = connection.exchange(head, request.body or b"")
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        _refuse_transient(answer)
        return answer

    def _take(self) -> Connection:
        with contextlib.suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if not connection.is_stale:
                    return connection
                connection.close()
        return self._connect()

    def _connect(self) -> Connection:
        if self._is_closed:
            raise StoreClosed("the store is closed")
        return Connection(self.address, self._context)

    def _give_back(self, connection: Connection) -> None:
        if connection.can_go_on and len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        if self._is_closed:  # perhaps since the request began
            self.close()

    def __repr__(self) -> str:
        return f"<Client of {self.address.url}>"


class _Attempt:
    """Sending one request until there is an answer."""

    def __init__(self, address: Address, request: Request, patience: float) -> None:
        self.is_unknown = False
        self._address = address
        self._request = request
        self._until = time.monotonic() + patience
        self._pause = _FIRST_PAUSE

    def was_unreachable(self, error: Unreachable) -> None:
        """Wait before the next try, or raise if there should be none."""
        pause = max(self._pause, error.pause)
        if time.monotonic() + pause >= self._until:
            hint = "is it running? strandline serve URL starts it. Then send the same again"
            raise self._unavailable(f"cannot be reached: {error}", hint) from error
        time.sleep(pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def was_broken(self, error: Broken) -> None:
        """Let the request be sent once more, or raise."""
        is_first = not self.is_unknown
        self.is_unknown = True
        if error.is_late or not (self._request.may_resend and is_first):
            raise self._unavailable(f"did not answer: {error}", _HINTS[self._request.changes]) from error

    def _unavailable(self, what: str, hint: str | None) -> Unavailable:
        written = None if self._request.changes and self.is_unknown else False
        return Unavailable(f"the server at {self._address.url} {what}", hint=hint, written=written)


_HINTS = {True: None, False: "send the same request again"}


class _Headers:
    """What every request of a client says. It may hold a token, so it shows nothing of itself."""

    def __init__(self, address: Address, token: str | None) -> None:
        lines = [f"Host: {address.place}", "User-Agent: strandline-python"]
        if token is not None:
            lines.append(f"Authorization: Bearer {check_token(token)}")
        self._lines = "".join(f"{line}\r\n" for line in lines)

    def head(self, base: str, request: Request) -> bytes:
        """Return the head of a request."""
        body = request.body
        about = (
            "" if body is None else f"Content-Type: {request.content_type}\r\nContent-Length: {len(body)}\r\n"
        )
        first = f"{request.method} {base}{request.path} HTTP/1.1\r\n"
        return f"{first}{self._lines}Accept: {request.accept}\r\n{about}\r\n".encode()

    def __repr__(self) -> str:
        return "<headers>"


def check_token(token: object) -> str:
    """Return a token if it can be one. No error shows it."""
    if isinstance(token, str) and token and token.isascii() and token.isprintable() and " " not in token:
        return token
    raise InvalidInput(
        "a token is text without spaces", hint="pass it as `strandline token create` printed it"
    )


def _refuse_transient(answer: Answer) -> None:
    """Raise if the server says that it did nothing and may be asked again: it ends, or has too much to do."""
    problem = _problem_in(answer) if answer.status in _MAY_BE_TRANSIENT else None
    if problem is not None and problem.is_transient:
        seconds = answer.headers.get(b"retry-after", b"")
        raise Unreachable(problem.detail, float(seconds) if seconds.isdigit() else 0.0)


def _problem_in(answer: Answer) -> Problem | None:
    return decode_problem(answer.body) if answer.content_type == PROBLEM else None
