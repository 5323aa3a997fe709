"""The logs that a server offers, by name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from ..aio import AsyncEventStore, connect_async
from ..errors import InvalidInput, NotFound
from ..store import EventStore

OneLog = AsyncEventStore | EventStore | str | os.PathLike[str]
DEFAULT = "default"


class Logs:
    """Stores by the names of their logs. A URL is connected to when its log is first used."""

    def __init__(self, given: OneLog | Mapping[str, OneLog]) -> None:
        listed: Mapping[Any, Any] = given if isinstance(given, Mapping) else {DEFAULT: given}
        if not listed:
            raise InvalidInput("there is no log to serve", hint='write app({"orders": store})')
        for name, each in listed.items():
            _check(name, each)
        self._given = dict(listed)
        self._stores: dict[str, AsyncEventStore] = {}
        self._own: list[AsyncEventStore] = []
        self._opening = {name: asyncio.Lock() for name in listed}  # each waits for its own database only

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._given)

    async def store(self, name: str) -> AsyncEventStore:
        """Return the store of a log."""
        store = self._stores.get(name)
        return await self._open(name) if store is None else store

    async def _open(self, name: str) -> AsyncEventStore:
        if name not in self._given:
            raise no_log(name)
        async with self._opening[name]:
            store = self._stores.get(name)
            if store is None:
                store = self._stores[name] = await self._connected(self._given[name])
        return store

    async def _connected(self, given: OneLog) -> AsyncEventStore:
        if isinstance(given, AsyncEventStore):
            return given
        if isinstance(given, EventStore):
            return AsyncEventStore(given)
        store = await connect_async(given)
        self._own.append(store)
        return store

    async def close(self) -> None:
        """Close the stores that were opened here."""
        own, self._own = self._own, []
        for store in own:
            await store.close()


def no_log(name: str) -> NotFound:
    """Return the error for a log that is not there, or not for the caller."""
    return NotFound(f"there is no log {name!r:.80} here", hint="GET /v1/logs lists the logs")


def _check(name: object, given: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"the name of a log is text, not {name!r:.40}", hint='write {"orders": store}')
    if not isinstance(given, AsyncEventStore | EventStore | str | os.PathLike):
        raise InvalidInput(
            f"a log is served from a store or a URL, not from {type(given).__name__}",
            hint='write strandline.server.app(strandline.connect("school.db"))',
        )
