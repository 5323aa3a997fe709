"""Who is asking, and whether they may. Every request comes through `Callers.admit`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from ..errors import Forbidden, Unauthorized
from .tokens import Access, Token, Tokens

LOOK_SECONDS = 0.5
"""How old the knowledge of the file of tokens may be."""


class Caller(Struct, frozen=True):
    """Who is asking: the holder of a token, or anybody, where a server has no tokens."""

    token: Token | None = None

    def allows(self, access: Access) -> bool:
        """Return whether the caller has a scope."""
        return self.token is None or self.token.allows(access)

    def may_see(self, log: str) -> bool:
        """Return whether there is such a log for the caller."""
        return self.token is None or self.token.may_see(log)

    @property
    def tag(self) -> str | None:
        """The tag that limits the caller."""
        return None if self.token is None else self.token.tag


ANYBODY = Caller()


class Callers:
    """Tells callers by their tokens, and ends what they may no longer have."""

    def __init__(self, tokens: Tokens | str | os.PathLike[str] | None) -> None:
        self.tokens = tokens if tokens is None or isinstance(tokens, Tokens) else Tokens(tokens)
        self._looked_at = -LOOK_SECONDS
        self._looking: asyncio.Task[None] | None = None
        self._stays: set[_Stay] = set()
        self._watching: asyncio.Task[None] | None = None

    async def admit(self, authorization: bytes | None, access: Access | None) -> Caller:
        """Return who is asking, if they may do what needs this scope. None means that everybody may."""
        if self.tokens is None or access is None:
            return ANYBODY
        caller = Caller(await self._token(self.tokens, authorization))
        if not caller.allows(access):
            raise Forbidden(
                f"the token lacks the scope {access!r}", hint="use a token that has it, or ask for one"
            )
        return caller

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

    async def _token(self, tokens: Tokens, authorization: bytes | None) -> Token:
        if authorization is None:
            raise Unauthorized(
                "the request brings no token", hint="send the header Authorization: Bearer TOKEN"
            )
        await self._look(tokens)
        scheme, _, secret = authorization.decode("latin-1").partition(" ")
        token = tokens.find(secret.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise _no_longer_valid()
        return token

    async def _look(self, tokens: Tokens) -> None:
        """Know the file as it was at most half a second ago. Reading it happens in a thread."""
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_now(tokens))
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
                await self._look(tokens)
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


def _no_longer_valid() -> Unauthorized:
    return Unauthorized(
        "the token is not valid: it is unknown, has expired, or was revoked", hint="ask for another one"
    )
