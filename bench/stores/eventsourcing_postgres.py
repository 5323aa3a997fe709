"""The PostgreSQL recorder for DCB of the `eventsourcing` library, on the same server as ours.

It is made by the library's own factory. When nobody sets anything, it has a pool of 5 connections and up to 10
more, which threads share. There is no asyncio one in the package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from ..homes import HomeName
from ..workload import NewEvent, Query
from . import AsyncClient, Client, Refused, Running

BEYOND_THE_HEAD = 1 << 62


class EventsourcingPostgres:
    """The recorder with its default settings."""

    name = "eventsourcing-pg"
    home: HomeName = "postgres"
    prefilled_as = "eventsourcing"
    is_async = False
    has_commands = False
    is_face = False
    is_fast = False
    durability = (
        "every append is a transaction, flushed before it is acknowledged; one at a time (table lock)"
    )
    settings: Mapping[str, str] = {}

    def version(self) -> str:
        import eventsourcing.dcb.postgres_tt  # noqa: F401

        return version("eventsourcing")

    @contextmanager
    def serve(self, place: str) -> Iterator[Running]:
        # Two processes that make the tables at once fail ("tuple concurrently updated"), so it is done before.
        with _recorder(place, CREATE_TABLE="yes"):
            pass
        yield Running(place, None)

    @contextmanager
    def connect(self, address: str, *, keeps_states: bool = False) -> Iterator[Client]:
        with _recorder(address, CREATE_TABLE="no", **self.settings) as recorder:
            yield EventsourcingClient(recorder)

    def connect_async(
        self, address: str, *, keeps_states: bool = False
    ) -> AbstractAsyncContextManager[AsyncClient]:
        raise NotImplementedError


class EventsourcingPostgresFast(EventsourcingPostgres):
    """The recorder with up to a connection for each of 64 clients, so that none waits for one."""

    name = "eventsourcing-pg-fast"
    is_fast = True
    settings = {"POSTGRES_MAX_OVERFLOW": "59"}


class EventsourcingClient:
    """See `Client`."""

    def __init__(self, recorder: Any) -> None:
        from eventsourcing.dcb import api
        from eventsourcing.persistence import IntegrityError

        self._api = api
        self._refusal = IntegrityError
        self._recorder = recorder

    def head(self) -> int:
        return self._recorder.read(after=BEYOND_THE_HEAD).head or 0  # there is no cheaper way to ask

    def append(self, event: NewEvent, query: Query, after: int) -> int:
        condition = self._api.DCBAppendCondition(self._query(query), after)
        try:
            position: int = self._recorder.append([self._event(event)], condition)
        except self._refusal as refusal:
            raise Refused from refusal
        return position

    def append_batch(self, events: Sequence[NewEvent]) -> None:
        self._recorder.append([self._event(event) for event in events])

    def read(self, query: Query) -> tuple[int, int]:
        response = self._recorder.read(self._query(query))
        return response.head or 0, self._look_at(response)

    def scan(self) -> int:
        return self._look_at(self._recorder.read())

    @contextmanager
    def subscribe(self, query: Query, after: int) -> Iterator[Iterator[object]]:
        with self._recorder.subscribe(self._query(query), after=after) as events:
            yield events

    def _look_at(self, response: Any) -> int:
        count = 0
        for sequenced in response:
            event = sequenced.event
            _ = event.type, event.data
            count += 1
        return count

    def _event(self, event: NewEvent) -> Any:
        return self._api.DCBEvent(event.type, event.data, list(event.tags))

    def _query(self, query: Query) -> Any:
        return self._api.DCBQuery(
            [self._api.DCBQueryItem(list(item.types), list(item.tags)) for item in query]
        )


@contextmanager
def _recorder(url: str, **more: str) -> Iterator[Any]:
    from eventsourcing.dcb.postgres_tt import PostgresTTDCBFactory
    from eventsourcing.utils import Environment

    parts = urlsplit(url)
    settings = {
        "POSTGRES_DBNAME": parts.path.removeprefix("/"),
        "POSTGRES_HOST": str(parts.hostname),
        "POSTGRES_PORT": str(parts.port),
        "POSTGRES_USER": str(parts.username),
        "POSTGRES_PASSWORD": "the server trusts everybody, but one must be given",
        **more,
    }
    with PostgresTTDCBFactory(Environment("", settings)) as factory:
        yield factory.dcb_recorder()
