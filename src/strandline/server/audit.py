"""The audit file: a line of JSON for every change other than an append. Who, what, from where, with which result."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ..errors import InvalidInput

if TYPE_CHECKING:
    from .exchange import Exchange

_logger = logging.getLogger("strandline.server")
MOST_BYTES = 4_096
"""Longer requests and answers are left out, and their length is told."""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the file."""

    at: datetime
    who: str | None
    """The id of the token."""
    note: str = ""
    """The note of the token."""
    address: str
    """Where the request came from."""
    what: str
    log: str = ""
    path: dict[str, str] = {}
    request: msgspec.Raw | None = None
    status: int
    result: msgspec.Raw | None = None


class Audit:
    """Appends lines to a file that only its owner can read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        os.close(self._open())

    async def write_change(self, exchange: Exchange, what: str, status: int, result: bytes = b"") -> None:
        """Add a line about a request. If that fails, the log of the server says so."""
        token, body = exchange.caller.token, exchange.body
        entry = Entry(
            at=datetime.now(UTC),
            who=None if token is None else token.id,
            note="" if token is None else token.note,
            address=exchange.address,
            what=what,
            log=exchange.log,
            path={name: value for name, value in exchange.path.items() if name != "log"},
            request=None if body is None else _short(msgspec.json.encode(body)),
            status=status,
            result=_short(result) if result else None,
        )
        try:
            await asyncio.to_thread(self._write, msgspec.json.encode(entry) + b"\n")
        except (OSError, InvalidInput) as error:
            _logger.error("a change is missing in the audit file: %s (%s)", what, error)

    def _write(self, line: bytes) -> None:
        descriptor = self._open()  # each time, so that the file may be moved away
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            os.close(descriptor)
            raise InvalidInput(
                f"others may read or change {self.path}: its mode is {mode:04o}",
                hint=f"run: chmod 600 {self.path}",
            )
        return descriptor


def _short(json: bytes) -> msgspec.Raw:
    return msgspec.Raw(json if len(json) <= MOST_BYTES else msgspec.json.encode({"bytes": len(json)}))
