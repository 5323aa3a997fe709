"""A store whose followers keep their checkpoints and tables in a database beside it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, TypeVar

from ..engine import Engine
from ..engine.joined import join
from ..engine.watch import HeadWatch
from .asynchronous import AsyncFollowed
from .blocking import Followed
from .lease import Leases

T = TypeVar("T")


class Beside:
    """What followers need of a store, with another database for what they keep."""

    def __init__(self, store: Followed, into: str | os.PathLike[str]) -> None:
        self._store = store
        self.watch: HeadWatch = store.watch
        self.engine: Engine = join(store.engine, into)
        self.leases = Leases(self.engine, store.watch.wake_all)

    @property
    def is_closed(self) -> bool:
        """Whether the store was closed."""
        return self._store.is_closed

    def check_usable(self) -> None:
        """Raise if the store cannot be used right now."""
        self._store.check_usable()

    def check_writable(self) -> None:
        """Raise if the store cannot be written to right now."""
        self._store.check_writable()

    def beside(self, into: str | os.PathLike[str]) -> Followed:
        """The same store with the followers in a database."""
        return self._store.beside(into)

    def close(self) -> None:
        """Release the leases and the database."""
        self.leases.close()
        self.engine.close()


class AsyncBeside:
    """The same for asyncio."""

    def __init__(self, store: AsyncFollowed, beside: Followed) -> None:
        self._store = store
        self.store = beside
        self.transactions: asyncio.Semaphore = store.transactions

    async def in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """See `AsyncFollowed.in_thread`."""
        return await self._store.in_thread(call, *arguments)

    async def in_page_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """See `AsyncFollowed.in_page_thread`."""
        return await self._store.in_page_thread(call, *arguments)

    async def in_long_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """See `AsyncFollowed.in_long_thread`."""
        return await self._store.in_long_thread(call, *arguments)
