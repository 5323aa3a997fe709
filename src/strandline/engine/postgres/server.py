"""What a doctor wants to know of a server, and of the rights that a role has there."""

from __future__ import annotations

import msgspec

from ..statements import load
from .address import Address
from .connection import Connection
from .failures import translated


class Rights(msgspec.Struct, frozen=True):
    """What the role may do with a log; to change is more than an application should."""

    may_read: bool
    may_append: bool
    may_change: bool


class Settings(msgspec.Struct, frozen=True):
    """A server as it describes itself to a role."""

    version: int
    encoding: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    is_replica: bool
    is_read_only: bool
    role: str
    may_create: bool


class Server(msgspec.Struct, frozen=True):
    """A server, the connection to it, and the rights on a log there (None if there is no such log)."""

    settings: Settings
    is_direct: bool
    rights: Rights | None


def look_at_server(address: Address) -> Server:
    """Connect and ask."""
    with translated(address):
        connection = Connection(address)
        try:
            (settings,) = connection.rows(load(__package__, "server"))
            rights = connection.rows(load(__package__, "rights_on_log"), (address.schema,))
        finally:
            connection.close()
    return Server(Settings(*settings), connection.is_direct, Rights(*rights[0]) if rights else None)
