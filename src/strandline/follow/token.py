"""Tokens of leases: text that only its holder has, and that is good for one lease of one follower of one log."""

from __future__ import annotations

import base64
import hashlib
import secrets
from uuid import UUID

import msgspec

from ..errors import InvalidInput

PROOF_BYTES = 16
SECRET_BYTES = 12


class InvalidToken(InvalidInput):
    """A text that is no token of a lease, or not of this one."""


class Token(msgspec.Struct, frozen=True, array_like=True):
    """A lease: its follower and epoch, the last of its events, and the checkpoint when all are acknowledged.

    The row of the follower keeps a mark of the secret. So a token cannot be made of what everybody may see.
    """

    name: str
    epoch: int
    last: int
    position: int
    secret: bytes

    @property
    def mark(self) -> str:
        """The part of the owner's name by which the row knows this token."""
        return mark_of(self.secret)

    def text(self, log: UUID) -> str:
        """The token as text, for consumers of this log."""
        body = msgspec.msgpack.encode(self)
        return base64.urlsafe_b64encode(_proof(body, log) + body).rstrip(b"=").decode()


def new_secret() -> bytes:
    """A secret for a new lease."""
    return secrets.token_bytes(SECRET_BYTES)


def mark_of(secret: bytes) -> str:
    """The mark of a secret, which does not tell the secret."""
    return f"lease-{hashlib.blake2b(secret, digest_size=8).hexdigest()}"


def token_of(text: str, name: str, log: UUID) -> Token:
    """The token that a consumer shows; `InvalidToken` unless it was made for this follower of this log."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.msgpack.decode(raw[PROOF_BYTES:], type=Token)
        is_genuine = secrets.compare_digest(token.text(log), text) and token.name == name
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
        is_genuine = False
    if not is_genuine:
        raise InvalidToken(
            f"this is no token of a lease of follower {name!r}",
            hint="pass the token of `lease` as it is, to the follower that it came from",
        )
    return token


def _proof(body: bytes, log: UUID) -> bytes:
    return hashlib.blake2b(body, digest_size=PROOF_BYTES, key=log.bytes, person=b"strandline.lease").digest()
