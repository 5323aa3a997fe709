"""Sessions of people in a browser. A session is a cookie for a token: it ends with the token."""

from __future__ import annotations

import hashlib
import secrets
from time import monotonic

from msgspec import Struct

from .tokens import Token

SESSION_SECONDS = 12 * 3600.0
MOST_SESSIONS = 10_000


class Session(Struct, frozen=True):
    """Somebody who has logged in with a token."""

    token: Token
    csrf: str
    """What forms and scripts of our own pages send, and pages of other sites cannot know."""
    end: float


class Sessions:
    """The sessions of this process, by the hash of their secret."""

    def __init__(self) -> None:
        self._by_hash: dict[bytes, Session] = {}

    def begin(self, token: Token) -> str:
        """Begin a session. Return its secret, for the cookie."""
        secret = secrets.token_urlsafe(32)
        if len(self._by_hash) >= MOST_SESSIONS:
            del self._by_hash[next(iter(self._by_hash))]
        end = monotonic() + SESSION_SECONDS
        self._by_hash[_hash(secret)] = Session(token, secrets.token_urlsafe(32), end)
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the session with a secret, as long as its time is not over."""
        session = self._by_hash.get(_hash(secret))
        return session if session is not None and monotonic() < session.end else None

    def end(self, secret: str) -> None:
        """End a session."""
        self._by_hash.pop(_hash(secret), None)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
