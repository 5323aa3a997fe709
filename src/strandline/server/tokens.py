"""Tokens: who may do what. A file holds their hashes, the holders have the secrets."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from ..errors import InvalidInput, NotFound, StrandlineError
from ..names import check_name, check_own_name, check_tags

_logger = logging.getLogger("strandline.server")

Access = Literal["metadata", "read", "append", "follow", "manage", "metrics", "admin"]
SCOPES: tuple[Access, ...] = get_args(Access)
INCLUDES: dict[str, frozenset[str]] = {
    "read": frozenset({"metadata"}),
    "follow": frozenset({"metadata"}),
    "manage": frozenset({"metadata"}),
}
"""What a scope allows besides itself."""
OF_THE_WHOLE_SERVER = frozenset({"metrics", "admin"})
PREFIX = "strandline_"
_SECRET_BYTES = 32
_TEXT_LENGTH = len(PREFIX) + 43  # 32 bytes as base64 without padding
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_SETTLED_SECONDS = 2.0


class Token(Struct, frozen=True, forbid_unknown_fields=True):
    """A token as the server knows it: what it may do, and the hash of its secret."""

    id: str
    hash: str
    scopes: tuple[Access, ...]
    created: datetime
    logs: tuple[str, ...] = ()
    """The logs that it is limited to. Empty: all of them."""
    tag: str | None = None
    """The tag that every event has which it reads or writes."""
    note: str = ""
    expires: datetime | None = None

    def allows(self, access: Access) -> bool:
        """Return whether its scopes include this one."""
        if access in OF_THE_WHOLE_SERVER and (self.logs or self.tag is not None):
            return False
        return any(access == scope or access in INCLUDES.get(scope, ()) for scope in self.scopes)

    def may_see(self, log: str) -> bool:
        """Return whether it is good for a log."""
        return not self.logs or log in self.logs

    def has_expired(self) -> bool:
        """Return whether its time is over."""
        return self.expires is not None and self.expires <= datetime.now(UTC)


class _File(Struct, forbid_unknown_fields=True):
    version: Literal[1] = 1
    tokens: list[Token] = []


_decode = msgspec.json.Decoder(_File).decode


class Tokens:
    """The tokens of a file, as it is now. `look` notices that it has changed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._by_hash: dict[str, Token] = {}
        self._by_id: dict[str, Token] = {}
        self._seen: tuple[object, ...] | None = ()
        self._is_readable = True
        if not os.path.exists(self.path):
            raise InvalidInput(
                f"there is no file of tokens {self.path!r}",
                hint=f"make one: strandline token create --tokens {self.path} --scope read --scope append",
            )
        self._read()

    def find(self, secret: str) -> Token | None:
        """Return the token with this secret, unless it has expired.

        What is compared is a hash of 256 random bits. How long that takes tells nothing about the secret.
        """
        if len(secret) != _TEXT_LENGTH or not secret.startswith(PREFIX):
            return None
        token = self._by_hash.get(hash_of(secret))
        return None if token is None or token.has_expired() else token

    def is_valid(self, token: Token) -> bool:
        """Return whether a token that was found is still there, unchanged, and has not expired."""
        return self._by_id.get(token.id) == token and not token.has_expired()

    def look(self) -> None:
        """Read the file again if it has changed. If it cannot be read, no token is valid until it can."""
        try:
            if self._stamp() != self._seen:
                self._read()
        except (StrandlineError, OSError) as error:
            if self._is_readable:  # said once
                _logger.error("no token is valid: %s", error)
            self._is_readable = False
            self._by_hash, self._by_id, self._seen = {}, {}, ()

    def _stamp(self) -> tuple[object, ...] | None:
        """Return what differs after a change. None if the last one is so young that another may look the same."""
        found = os.stat(self.path)
        age = datetime.now(UTC).timestamp() - found.st_mtime
        if 0 <= age < _SETTLED_SECONDS:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size, found.st_mode

    def _read(self) -> None:
        seen = self._stamp()
        tokens = read_tokens(self.path)
        self._by_hash = {token.hash: token for token in tokens}
        self._by_id = {token.id: token for token in tokens}
        self._seen = seen or ()
        self._is_readable = True


def read_tokens(path: str) -> list[Token]:
    """Return the tokens of a file that only its owner can read. A file that does not exist has none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    with os.fdopen(descriptor, "rb") as file:
        _check_private(path, os.fstat(file.fileno()))
        content = file.read()
    try:
        return _decode(content).tokens
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidInput(
            f"{path} is not a file of tokens: {error}", hint="restore it, or create the tokens anew"
        ) from error


def create_token(
    path: str,
    scopes: Iterable[str],
    *,
    logs: Iterable[str] = (),
    tag: str | None = None,
    note: str = "",
    expires: datetime | None = None,
) -> tuple[Token, str]:
    """Add a token to a file. Return it with its secret, which nothing can show again."""
    secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    token = Token(
        id=secrets.token_hex(6),
        hash=hash_of(secret),
        scopes=_checked_scopes(scopes),
        created=datetime.now(UTC).replace(microsecond=0),
        logs=tuple(sorted({check_name(log, "log", InvalidInput) for log in logs})),
        tag=None if tag is None else check_tags([tag], InvalidInput)[0],
        note=note and check_own_name(note, "note", InvalidInput),
        expires=_checked_expiry(expires),
    )
    if (token.logs or token.tag is not None) and not OF_THE_WHOLE_SERVER.isdisjoint(token.scopes):
        raise InvalidInput(
            "metrics and admin are about the whole server", hint="leave out the logs and the tag"
        )
    _change(path, lambda tokens: [*tokens, token])
    return token, secret


def revoke_token(path: str, id: str) -> Token:
    """Remove a token from a file."""
    revoked: list[Token] = []

    def without(tokens: list[Token]) -> list[Token]:
        revoked.extend(token for token in tokens if token.id == id)
        if not revoked:
            raise NotFound(
                f"there is no token {id!r:.80}", hint=f"run: strandline token list --tokens {path}"
            )
        return [token for token in tokens if token.id != id]

    _change(path, without)
    return revoked[0]


def hash_of(secret: str) -> str:
    """Return the hash under which a secret is kept. Of 256 random bits, nothing slower is needed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _checked_scopes(scopes: Iterable[str]) -> tuple[Access, ...]:
    given = set(scopes)
    unknown = given.difference(SCOPES)
    if unknown or not given:
        reason = f"{min(unknown)!r:.40} is not a scope" if unknown else "a token needs a scope"
        raise InvalidInput(reason, hint=f"scopes are {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in given)


def _checked_expiry(expires: datetime | None) -> datetime | None:
    if expires is None:
        return None
    if expires.utcoffset() is None:
        raise InvalidInput("the time at which a token expires needs a time zone", hint="write …Z for UTC")
    if expires <= datetime.now(UTC):
        raise InvalidInput(
            f"a token that expires at {expires.isoformat()} is over already", hint="give a time to come"
        )
    return expires.astimezone(UTC)


def _check_private(path: str, found: os.stat_result) -> None:
    if stat.S_IMODE(found.st_mode) & _OTHERS:
        raise InvalidInput(
            f"others may read or change {path}: its mode is {stat.S_IMODE(found.st_mode):04o}",
            hint=f"run: chmod 600 {path}",
        )


def _change(path: str, change: Callable[[list[Token]], list[Token]]) -> None:
    """Replace the tokens of a file, so that readers see the old ones or the new ones."""
    place = os.path.realpath(path)
    with _locked(f"{place}.lock"):
        content = msgspec.json.encode(_File(tokens=change(read_tokens(place))))
        _replace(place, msgspec.json.format(content, indent=2) + b"\n")


@contextmanager
def _locked(path: str) -> Iterator[None]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: str, content: bytes) -> None:
    temporary = f"{path}.{secrets.token_hex(6)}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
