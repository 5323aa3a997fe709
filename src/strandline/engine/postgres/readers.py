"""Connections for reads: some at once, and those that nobody uses for the next."""

from __future__ import annotations

from weakref import WeakSet

from ..past import Past
from .address import Address
from .connection import Connection
from .idle import IdleConnections

READERS = 8
WAIT_SECONDS = 0.05


class Readers:
    """At most `READERS` connections.

    Who is interrupted between taking a connection and using it loses it. Then it is collected, and no longer counted. (A
    semaphore would lose a permit for ever.)
    """

    def __init__(self, address: Address, past: Past, read_seconds: float | None) -> None:
        self._address = address
        self._past = past
        self._read_seconds = read_seconds
        self.idle = IdleConnections()
        self.connections: WeakSet[Connection] = WeakSet()

    def add(self, connection: Connection) -> None:
        """Keep a connection that was made elsewhere."""
        self.connections.add(connection)
        self.idle.put(connection)

    def take(self) -> Connection | None:
        """A connection that nobody uses: an idle one, a new one, or one that is given back soon. None if there is none."""
        is_full = len(self.connections) >= READERS
        found = self.idle.get(WAIT_SECONDS) if is_full else self.idle.get_nowait()
        if found is not None or is_full:
            return found
        connection = Connection(self._address, self._past)
        try:
            connection.limit(self._read_seconds)
        except BaseException:
            connection.close()
            raise
        self.connections.add(connection)
        return connection

    def give_back(self, connection: Connection, *, is_wanted: bool) -> None:
        """Let others use a connection, if it works and is wanted."""
        if connection.is_usable and is_wanted:
            self.idle.put(connection)
        else:
            connection.close()
            self.connections.discard(connection)

    def close_idle(self) -> None:
        """Close those that nobody uses."""
        while (connection := self.idle.get_nowait()) is not None:
            connection.close()
            self.connections.discard(connection)
