"""Followers for asyncio: the same steps, awaited. A waiting follower costs no thread, an open transaction has one."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Protocol, TypeVar

from ..activity import current
from ..callables import is_async
from ..domain.drive import drive_async
from ..engine.following import DeadLetter, Transaction, transaction_is_over
from ..engine.threads import typed
from .blocking import Followed, call_here
from .follower import Follower
from .leasing import Leased, Wish
from .options import Handler, OnFailure, Options
from .status import FollowerStatus
from .steps import INTERRUPTS, Begin, End, Handle, Look, Step, Wait, Within

T = TypeVar("T")
TRANSACTIONS_AT_ONCE = 8


class AsyncFollowed(Protocol):
    """What an async follower needs of a store."""

    transactions: asyncio.Semaphore

    @property
    def store(self) -> Followed:
        """The store behind it."""
        ...

    async def in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a short look-up in one of the reading threads."""
        ...

    async def in_page_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call that reads a page in one of the threads for pages."""
        ...

    async def in_long_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call that may read for long in one of the threads for such calls."""
        ...


class Desk:
    """The thread of an open transaction: whoever waits for a lock there keeps nobody else from going on."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="strandline-transaction")
        self._is_closed = False

    async def do(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call there."""
        if self._is_closed:
            raise transaction_is_over()
        run = contextvars.copy_context().run
        with typed():
            answer = asyncio.get_running_loop().run_in_executor(self._thread, run, call, *arguments)
        return await answer

    def close(self) -> None:
        """Let the thread end when it has done what it has to do."""
        self._is_closed = True
        self._thread.shutdown(wait=False)


class AsyncTransaction:
    """The transaction of an async handler: `await tx.execute(sql, parameters)`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def connection(self) -> Any:
        """The driver's own connection; it blocks."""
        return self._desk.tx.connection

    async def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        """Run a statement, with the placeholders of the database; returns its rows."""
        return await self._desk.do(self._desk.tx.execute, sql, parameters)

    async def execute_many(self, sql: str, rows: Sequence[Any]) -> None:
        """Run a statement for each row of parameters."""
        await self._desk.do(self._desk.tx.execute_many, sql, rows)


class AsyncSteps:
    """Takes the steps of one run."""

    def __init__(self, store: AsyncFollowed, is_over: Callable[[], bool]) -> None:
        self._store = store
        self._is_over = is_over
        self._desk: Desk | None = None

    async def take(self, step: Step) -> Any:
        """Take a step."""
        match step:
            case Look():
                return await self._run(step)
            case Begin():
                return await self._begin(step.tx)
            case Within():
                return await self._open_desk.do(step.call)
            case Handle():
                return await self._handle(step)
            case End():
                return await self._end()
            case Wait():
                return await self._store.store.watch.wait_async(
                    step.after, step.ends_with(self._is_over), step.seconds
                )

    async def _run(self, look: Look) -> Any:
        match look.kind:
            case "look":
                return await self._store.in_thread(look.call)
            case "page":
                return await self._store.in_page_thread(look.call)
            case "long":
                return await self._store.in_long_thread(look.call)

    @property
    def _open_desk(self) -> Desk:
        if self._desk is None:
            raise transaction_is_over()
        return self._desk

    async def _begin(self, tx: Transaction) -> None:
        await self._store.transactions.acquire()
        self._desk = Desk(tx)
        await self._desk.do(tx.begin)

    async def _end(self) -> None:
        desk, self._desk = self._desk, None
        if desk is None:
            return
        try:
            await desk.do(desk.tx.end)  # after whatever the thread does still, cancelled or not
        finally:
            desk.close()
            self._store.transactions.release()

    async def _handle(self, step: Handle) -> Any:
        is_awaited = is_async(step.handle)
        if step.tx is None:
            if is_awaited:
                return await step.handle(step.subject, None)
            return await asyncio.to_thread(step.handle, step.subject, None)
        if not is_awaited:
            return await self._open_desk.do(call_here, step, step.tx)
        before = current.get()
        try:
            current.set(step.handling)  # for this task only
            return await step.handle(step.subject, AsyncTransaction(self._open_desk))
        finally:
            current.set(before)


class AsyncFollower:
    """`Follower` for asyncio: the same methods, awaited. Handlers may be async, and get an `AsyncTransaction` then."""

    def __init__(self, store: AsyncFollowed, follower: Follower) -> None:
        self._store = store
        self._follower = follower
        self.name = follower.name
        self.query = follower.query

    async def run(
        self,
        handle: Handler,
        batch: int = 500,
        *,
        until: int | None = None,
        attempts: int = 5,
        backoff: float = 0.1,
        on_failure: OnFailure = "dead_letter",
        on_retag: Handler | None = None,
        in_transaction: bool = True,
    ) -> int:
        """See `Follower.run`. Cancelled, it undoes what it has begun and lets others run the follower."""
        options = Options(handle, batch, until, attempts, backoff, on_failure, on_retag, in_transaction)
        return await drive_async(self._follower.begin_run(options), self._steps().take, errors=INTERRUPTS)

    async def catch_up(self, handle: Handler, batch: int = 500, **options: Any) -> int:
        """See `Follower.catch_up`."""
        head = await self._store.in_thread(self._store.store.engine.head)
        return await self.run(handle, batch, until=head, **options)

    def stop(self) -> None:
        """See `Follower.stop`."""
        self._follower.stop()

    async def status(self) -> FollowerStatus:
        """See `Follower.status`."""
        return await self._store.in_thread(self._follower.status)

    async def pause(self) -> None:
        """See `Follower.pause`."""
        await asyncio.to_thread(self._follower.pause)

    async def resume(self) -> None:
        """See `Follower.resume`."""
        await asyncio.to_thread(self._follower.resume)

    async def reset(self, position_or_time: int | datetime) -> int:
        """See `Follower.reset`."""
        return await asyncio.to_thread(self._follower.reset, position_or_time)

    async def lease(self, batch: int = 500, *, wait: float = 0.0, seconds: float = 30.0) -> Leased | None:
        """See `Follower.lease`. Waiting costs no thread. Cancelled, it leaves the events to others."""
        steps = self._follower.begin_lease(Wish(batch, wait, seconds))
        return await drive_async(
            steps, AsyncSteps(self._store, self._follower.is_closed).take, errors=INTERRUPTS
        )

    async def ack(self, token: str, position: int | None = None) -> int:
        """See `Follower.ack`."""
        return await asyncio.to_thread(self._follower.ack, token, position)

    async def give_up(self, token: str, position: int, error: str | BaseException) -> int:
        """See `Follower.give_up`."""
        return await asyncio.to_thread(self._follower.give_up, token, position, error)

    async def forget(self) -> None:
        """See `Follower.forget`."""
        await asyncio.to_thread(self._follower.forget)

    async def dead_letters(self) -> list[DeadLetter]:
        """See `Follower.dead_letters`."""
        return await self._store.in_thread(self._follower.dead_letters)

    async def replay(
        self, position: int, handle: Handler | None = None, *, in_transaction: bool | None = None
    ) -> None:
        """See `Follower.replay`."""
        steps = self._follower.begin_replay(position, handle, in_transaction=in_transaction)
        await drive_async(steps, self._steps().take, errors=INTERRUPTS)

    async def discard(self, position: int) -> None:
        """See `Follower.discard`."""
        await asyncio.to_thread(self._follower.discard, position)

    def __repr__(self) -> str:
        return f"<Async{repr(self._follower)[1:]}"

    def _steps(self) -> AsyncSteps:
        return AsyncSteps(self._store, self._follower.is_over)
