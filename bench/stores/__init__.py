"""The stores that are measured, each behind the same small protocol.

A new peer is a module with a `Store`, and a line in `all_stores`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import NamedTuple, Protocol

from ..homes import HomeName
from ..workload import Decision, NewEvent, Query


class Refused(Exception):
    """An event of the query is newer than the position; each client turns its store's error into this one."""


class Running(NamedTuple):
    """A store that can be connected to; `pid` is the server's if the store brings its own."""

    address: str
    pid: int | None


class Client(Protocol):
    """A connection that threads share."""

    def head(self) -> int:
        """The last position."""
        ...

    def append(self, event: NewEvent, query: Query, after: int) -> int:
        """Write the event and return its position; `Refused` if an event of the query is newer than `after`."""
        ...

    def append_batch(self, events: Sequence[NewEvent]) -> None:
        """Write the events at once, without a condition."""
        ...

    def read(self, query: Query) -> tuple[int, int]:
        """Read the events, look at type and data of each; the head and how many they were."""
        ...

    def scan(self) -> int:
        """Read the whole log, look at type and data of each event; how many they were."""
        ...

    def subscribe(self, query: Query, after: int) -> AbstractContextManager[Iterator[object]]:
        """The events of the query after a position, then each new one; ends when the context does."""
        ...


class AsyncClient(Protocol):
    """The same for asyncio, as far as it is measured there."""

    async def head(self) -> int:
        """See `Client.head`."""
        ...

    async def append(self, event: NewEvent, query: Query, after: int) -> int:
        """See `Client.append`."""
        ...

    async def read(self, query: Query) -> tuple[int, int]:
        """See `Client.read`."""
        ...


class CommandClient(Client, Protocol):
    """A client of a store that `has_commands`."""

    def execute(self, decision: Decision) -> None:
        """Read and append by a typed command."""
        ...


class AsyncCommandClient(AsyncClient, Protocol):
    """The same for asyncio."""

    async def execute(self, decision: Decision) -> None:
        """See `CommandClient.execute`."""
        ...


class Store(Protocol):
    """One of the things that are compared."""

    name: str
    home: HomeName  # where its places are
    prefilled_as: str  # stores of a home with the same value can use each other's places
    is_async: bool
    has_commands: bool
    is_face: bool  # a server of ours that UmaDB's client talks to
    is_fast: bool  # not with the settings that it has when nobody sets any, but with faster ones
    durability: str  # what is done before an append is acknowledged

    def version(self) -> str:
        """The version that is measured; ImportError if it is not installed."""
        ...

    def serve(self, place: str) -> AbstractContextManager[Running]:
        """Run whatever must run so that clients can connect to the store at this place of its home."""
        ...

    def connect(self, address: str, *, keeps_states: bool = False) -> AbstractContextManager[Client]:
        """Connect from this process; what has commands may keep states in memory, if allowed."""
        ...

    def connect_async(
        self, address: str, *, keeps_states: bool = False
    ) -> AbstractAsyncContextManager[AsyncClient]:
        """Connect from the running event loop; only if `is_async`."""
        ...


def all_stores() -> dict[str, Store]:
    """Every store by its name, ours first."""
    from .eventsourcing_postgres import EventsourcingPostgres, EventsourcingPostgresFast
    from .strandline_grpc import StrandlineGrpc
    from .strandline_postgres import StrandlinePostgres, StrandlinePostgresAsync
    from .strandline_sqlite import StrandlineSqlite, StrandlineSqliteAsync
    from .umadb import UmaDB, UmaDBFast

    stores: tuple[Store, ...] = (
        *(StrandlineSqlite(), StrandlineSqliteAsync(), StrandlineGrpc(), UmaDB(), UmaDBFast()),
        *(StrandlinePostgres(), StrandlinePostgresAsync()),
        *(EventsourcingPostgres(), EventsourcingPostgresFast()),
    )
    return {store.name: store for store in stores}
