"""A worker: a follower together with what it does, so that it can be run without knowing more."""

from __future__ import annotations

from typing import Any, Generic, TypedDict, TypeVar

from ..engine.following import DeadLetter
from ..errors import FollowerFailed
from .asynchronous import AsyncFollower
from .follower import Follower
from .options import Handler, OnFailure, Options
from .status import FollowerStatus

F = TypeVar("F", Follower, AsyncFollower)


class RunOptions(TypedDict, total=False):
    """How a worker is run, as in `follower.run`."""

    batch: int
    attempts: int
    backoff: float
    on_failure: OnFailure
    on_retag: Handler | None


class _Works(Generic[F]):
    """What both kinds of worker have. `follower` can be paused, reset and so on."""

    def __init__(
        self,
        follower: F,
        handle: Handler,
        batch: int = 500,
        *,
        attempts: int = 5,
        backoff: float = 0.1,
        on_failure: OnFailure = "dead_letter",
        on_retag: Handler | None = None,
        in_transaction: bool = True,
    ) -> None:
        Options(handle, batch, None, attempts, backoff, on_failure, on_retag, in_transaction).check()
        self.follower: F = follower
        self.name = follower.name
        self._handle = handle
        self._options: dict[str, Any] = {
            "batch": batch,
            "attempts": attempts,
            "backoff": backoff,
            "on_failure": on_failure,
            "on_retag": on_retag,
            "in_transaction": in_transaction,
        }

    def stop(self) -> None:
        """End the run, from any thread."""
        self.follower.stop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class Worker(_Works[Follower]):
    """A follower with its handler: `Worker(store.follower("balances", query), keep_balances).run()`."""

    def obstacle(self) -> FollowerFailed | None:
        """Return what has to be put right before it can run, None if nothing has."""
        return None

    def run(self, *, until: int | None = None) -> int:
        """See `Follower.run`."""
        return self.follower.run(self._handle, until=until, **self._options)

    def catch_up(self) -> int:
        """See `Follower.catch_up`."""
        return self.follower.catch_up(self._handle, **self._options)

    def status(self) -> FollowerStatus:
        """See `Follower.status`."""
        return self.follower.status()

    def dead_letters(self) -> list[DeadLetter]:
        """See `Follower.dead_letters`."""
        return self.follower.dead_letters()

    def replay(self, position: int) -> None:
        """See `Follower.replay`."""
        in_transaction = self._options["in_transaction"]
        self.follower.replay(position, self._handle, in_transaction=in_transaction)


class AsyncWorker(_Works[AsyncFollower]):
    """`Worker` for asyncio: the same methods, awaited."""

    async def run(self, *, until: int | None = None) -> int:
        """See `Follower.run`."""
        return await self.follower.run(self._handle, until=until, **self._options)

    async def catch_up(self) -> int:
        """See `Follower.catch_up`."""
        return await self.follower.catch_up(self._handle, **self._options)

    async def status(self) -> FollowerStatus:
        """See `Follower.status`."""
        return await self.follower.status()

    async def dead_letters(self) -> list[DeadLetter]:
        """See `Follower.dead_letters`."""
        return await self.follower.dead_letters()

    async def replay(self, position: int) -> None:
        """See `Follower.replay`."""
        in_transaction = self._options["in_transaction"]
        await self.follower.replay(position, self._handle, in_transaction=in_transaction)
