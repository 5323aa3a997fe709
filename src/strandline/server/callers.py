"""Who is asking, and whether they may. Every request that needs a scope comes through `Callers.identify`."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct

from ..errors import Forbidden, Unauthorized
from .sessions import Session, Sessions
from .tokens import Access, Token, Tokens

if TYPE_CHECKING:
    from .exchange import Exchange

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOOK_SECONDS = 0.5
"""How old the knowledge of the file of tokens may be."""


class Caller(Struct, frozen=True):
    """Who is asking: the holder of a token, somebody unknown, or anybody, where a server has no tokens."""

    token: Token | None = None
    session: Session | None = None
    is_anybody: bool = False

    def allows(self, access: Access) -> bool:
        """Return whether the caller has a scope."""
        return self.is_anybody or (self.token is not None and self.token.allows(access))

    def check(self, access: Access) -> None:
        """Refuse a caller without a scope."""
        if not self.allows(access):
            raise Forbidden(
                f"the token lacks the scope {access!r}", hint="use a token that has it, or ask for one"
            )

    def may_see(self, log: str) -> bool:
        """Return whether there is such a log for the caller."""
        return self.is_anybody or (self.token is not None and self.token.may_see(log))

    @property
    def tag(self) -> str | None:
        """The tag that limits the caller."""
        return None if self.token is None else self.token.tag


ANYBODY = Caller(is_anybody=True)
UNKNOWN = Caller()


class Callers:
    """Tells callers by their tokens, and ends what they may no longer have."""

    def __init__(self, tokens: Tokens | str | os.PathLike[str] | None) -> None:
        self.tokens = tokens if tokens is None or isinstance(tokens, Tokens) else Tokens(tokens)
        self.sessions = Sessions()
        self.before_asked = ANYBODY if self.tokens is None else UNKNOWN
        self._looked_at = -LOOK_SECONDS
        self._looking: asyncio.Task[None] | None = None
        self._stays: set[_Stay] = set()
        self._watching: asyncio.Task[None] | None = None

    async def identify(self, exchange: Exchange) -> Caller:
        """Return who is asking. `Unauthorized` if that is unknown, and the server has tokens."""
        if self.tokens is None:
            return ANYBODY
        authorization = exchange.header(b"authorization")
        if authorization is None:
            caller = await self.visitor(exchange)
            if caller.session is not None:
                check_origin_of_change(exchange, caller.session)
                return caller
        return await self.holder(authorization)

    async def holder(self, authorization: bytes | None) -> Caller:
        """Return who holds the token in a header `Authorization`."""
        if self.tokens is None:
            return ANYBODY
        if authorization is None:
            raise Unauthorized(
                "the request brings no token", hint="send the header Authorization: Bearer TOKEN"
            )
        scheme, _, secret = authorization.decode("latin-1").partition(" ")
        return Caller(await self.token_of(secret.strip() if scheme.lower() == "bearer" else ""))

    async def token_of(self, secret: str) -> Token:
        """Return the token with a secret, or raise `Unauthorized`."""
        await self._look()
        token = None if self.tokens is None else self.tokens.find(secret)
        if token is None:
            raise _no_longer_valid()
        return token

    async def visitor(self, exchange: Exchange) -> Caller:
        """Return who has a session in a browser, or a caller without one."""
        secret = session_secret(exchange)
        if secret is None or self.tokens is None:
            return self.before_asked
        await self._look()
        session = self.sessions.find(secret)
        if session is None or not self.tokens.is_valid(session.token):
            return self.before_asked
        return Caller(session.token, session)

    async def while_valid(self, caller: Caller, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Yield pieces for a caller. Raise `Unauthorized` within a second of the end of the token, also in a wait."""
        stay = _Stay(caller.token)
        self._stays.add(stay)
        if self._watching is None and self.tokens is not None:
            self._watching = asyncio.create_task(self._watch(self.tokens))
        try:
            async with aclosing(pieces):
                while (piece := await stay.next_of(pieces)) is not None:
                    yield piece
        finally:
            self._stays.discard(stay)

    async def _look(self) -> None:
        """Know the file as it was at most half a second ago. Reading it happens in a thread."""
        if self.tokens is None or time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_now(self.tokens))
        await asyncio.shield(self._looking)

    async def _look_now(self, tokens: Tokens) -> None:
        begun = time.monotonic()
        try:
            await asyncio.to_thread(tokens.look)
            self._looked_at = begun
        finally:
            self._looking = None

    async def _watch(self, tokens: Tokens) -> None:
        """End the stays whose tokens end."""
        try:
            while self._stays:
                await asyncio.sleep(LOOK_SECONDS)
                await self._look()
                for stay in list(self._stays):
                    if stay.token is not None and not tokens.is_valid(stay.token):
                        stay.end()
        finally:
            self._watching = None


class _Stay:
    """A stream on its way to the holder of a token."""

    def __init__(self, token: Token | None) -> None:
        self.token = token
        self._is_over = False
        self._wait: asyncio.Timeout | None = None

    def end(self) -> None:
        """Let there be no other piece, and stop waiting for one."""
        if not self._is_over and self._wait is not None:
            self._wait.reschedule(asyncio.get_running_loop().time())
        self._is_over = True

    async def next_of(self, pieces: AsyncGenerator[bytes]) -> bytes | None:
        """Return the next piece. None means the end."""
        if self._is_over:
            raise _no_longer_valid()
        self._wait = asyncio.timeout(None)
        try:
            async with self._wait:
                return await anext(pieces, None)
        except TimeoutError as error:
            if self._is_over:
                raise _no_longer_valid() from error
            raise
        finally:
            self._wait = None


def check_origin_of_change(exchange: Exchange, session: Session) -> None:
    """Refuse a change that comes with a cookie, but without what only our own pages know."""
    if exchange.scope["method"] in SAFE_METHODS:
        return
    given = exchange.header(b"x-csrf-token") or b""
    if not secrets.compare_digest(given, session.csrf.encode()):
        raise Forbidden(
            "the request comes from a browser, but not from a page of this server",
            hint="send the header X-CSRF-Token, or a token in Authorization",
        )


def session_secret(exchange: Exchange) -> str | None:
    """Return the secret of the session that a browser sends."""
    return cookie(exchange, session_cookie(exchange))


def cookie(exchange: Exchange, name: str) -> str | None:
    """Return a cookie. Of several with that name none is right."""
    pairs = (exchange.header(b"cookie") or b"").decode("latin-1").split(";")
    values = [
        value.strip() for key, _, value in (pair.partition("=") for pair in pairs) if key.strip() == name
    ]
    return values[0] if len(values) == 1 else None


def session_cookie(exchange: Exchange) -> str:
    """Return the name of the cookie. Cookies know no ports, so servers on one host have each their own."""
    server = exchange.scope.get("server") or ("", 0)
    return f"{'__Host-' if is_secure(exchange) and not exchange.root else ''}strandline-{server[1]}"


def is_secure(exchange: Exchange) -> bool:
    """Return whether the client speaks TLS."""
    return bool(exchange.scope.get("scheme") == "https")


def _no_longer_valid() -> Unauthorized:
    return Unauthorized(
        "the token is not valid: it is unknown, has expired, or was revoked", hint="ask for another one"
    )
