"""The sequencer: one writer, many callers, one transaction for all who wait at that moment.

There is no writer thread as long as threads call: the first caller leads, writes everything that
queued up until its own append is done, and lets the next in the queue lead. A hop to another thread
would cost more than most appends. Asyncio callers cannot lead, they must not block; for them a worker
thread does. Where many tasks append, it begins when no more of them come: it would only take the
interpreter's lock from those who are about to.

The leader holds a lock, and a ticket stays in the queue until it has its outcome: wherever an interrupt
hits, the next leader finds everything as it was. (What was written before the interrupt is then found
to be a repeat.) A thread that finds nobody else needs no ticket: it leads with what it brought.

The lock is taken by `with` only, which no interrupt can split. So a thread looks whether the lock is free before it
takes it, and sometimes waits for another leader that was faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from ..activity import AT_WORK, current, doing
from ..errors import StoreClosed, StrandlineError, Unavailable
from . import Engine, Outcome, Work
from .threads import Bell, join, start

# One transaction takes about this many events, so that it ends soon and other processes get their turn.
BATCH_EVENTS = 1_000
BATCH_TICKETS = 1_000
# Tasks that append are many if the last transaction had so many tickets; so many need not wait for others.
MANY_TICKETS, ENOUGH_TICKETS = 16, 100
# A loop that went round so often without another append has no more of them just now.
IDLE_ROUNDS = 2


class Ticket:
    """A place in the queue: what to write in one transaction, and what came of it."""

    __slots__ = ("_error", "_outcomes", "is_done", "works")

    def __init__(self, works: Sequence[Work]) -> None:
        self.works = works
        self.is_done = False
        self._outcomes: list[Outcome] = []
        self._error: BaseException | None = None

    def settle(self, outcomes: list[Outcome], error: BaseException | None = None) -> None:
        """Set the result."""
        self._outcomes, self._error = outcomes, error
        self.is_done = True

    def result(self) -> list[Outcome]:
        """The outcomes; raises if the whole transaction failed."""
        if self._error is not None:
            raise self._error
        return self._outcomes


class ThreadTicket(Ticket):
    """A ticket whose owner is a thread: it leads, or waits for the bell, which says that it is done or may lead."""

    __slots__ = ("bell",)

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__(works)
        self.bell = Bell()


class LoopTicket(Ticket):
    """A ticket whose owner awaits a future of an event loop."""

    __slots__ = ("future", "loop")

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__(works)
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()


AnyTicket = ThreadTicket | LoopTicket


class Sequencer:
    """Puts appends in order and hands them to the engine, batch by batch."""

    def __init__(self, engine: Engine, on_commit: Callable[[Sequence[Outcome]], None]) -> None:
        self._engine = engine
        self._on_commit = on_commit
        # Guards the queue. A signal handler may add a ticket while its thread does so in an event loop.
        self._mutex = threading.RLock()
        self._queue: deque[AnyTicket] = deque()
        self._leading = threading.Lock()
        self._is_closed = False
        self._work_waits = Bell()
        self._worker: threading.Thread | None = None
        self._were_many = False
        self._gathering = weakref.WeakSet[asyncio.AbstractEventLoop]()

    def run(self, works: Sequence[Work]) -> list[Outcome]:
        """Write the works in one transaction and return their outcomes."""
        before = current.get()
        try:
            current.set(AT_WORK)  # as in `doing`, which would be one more call
            if self._queue or self._leading.locked():
                return self._wait_for(ThreadTicket(works))
            return self._lead_alone(works)
        finally:
            current.set(before)

    def _lead_alone(self, works: Sequence[Work]) -> list[Outcome]:
        """Write the works without a queue."""
        try:
            with self._leading:
                if self._is_closed:
                    raise StoreClosed("the store is closed")
                outcomes = self._engine.append(lambda: works)
                self._tell_readers(outcomes)
                return outcomes
        finally:
            if self._queue:
                self._wake_next()

    async def run_async(self, works: Sequence[Work]) -> list[Outcome]:
        """Like `run`, awaited. Cancelled while it queues, it is not written; later, it is."""
        self._have_worker()
        ticket = LoopTicket(works)
        try:
            self._enter(ticket)
            self._ask_worker(ticket.loop)
            await ticket.future
        except BaseException:
            self._withdraw(ticket)
            raise
        return ticket.result()

    def close(self) -> None:
        """Refuse new works, and return when all that were accepted are written."""
        with self._mutex:
            self._is_closed = True
        doing(AT_WORK, self._wait_for, ThreadTicket(()))  # it is the last one
        self._work_waits.ring()
        join(self._worker)

    def _wait_for(self, ticket: ThreadTicket) -> list[Outcome]:
        try:
            self._enter(ticket)
            while not ticket.is_done:
                if not self._lead(ticket):
                    ticket.bell.wait()
        except BaseException:
            self._withdraw(ticket)
            self._wake_next()
            raise
        return ticket.result()

    def _enter(self, ticket: AnyTicket) -> None:
        with self._mutex:
            if self._is_closed and ticket.works:
                raise StoreClosed("the store is closed")
            self._queue.append(ticket)

    def _withdraw(self, ticket: AnyTicket) -> None:
        with self._mutex, contextlib.suppress(ValueError):
            self._queue.remove(ticket)

    def _lead(self, own: Ticket | None) -> bool:
        """Write what is queued until `own` is done, one batch if there is none; False if somebody else leads."""
        if self._leading.locked():
            return False
        try:
            with self._leading:
                while self._write_next() and own is not None and not own.is_done:
                    pass
        finally:
            self._wake_next()
        return True

    def _next_batch(self) -> list[AnyTicket]:
        """Those who are next. They stay in the queue until they are done."""
        with self._mutex:
            self._drop_done()
            batch: list[AnyTicket] = []
            events = 0
            for ticket in islice(self._queue, BATCH_TICKETS):
                for work in ticket.works:
                    events += len(work.events)
                if batch and events > BATCH_EVENTS:
                    break
                batch.append(ticket)
            self._were_many = len(batch) >= MANY_TICKETS
            return batch

    def _drop_done(self) -> None:
        while self._queue and self._queue[0].is_done:
            self._queue.popleft()

    def _wake_next(self) -> None:
        """Let the first who is not done lead."""
        with self._mutex:
            self._drop_done()
            following = self._queue[0] if self._queue else None
            loop = self._only_loop() if self._were_many else None
        if loop is not None and self._ask_worker_from(loop):
            return
        if isinstance(following, LoopTicket):
            self._work_waits.ring()
        elif following is not None:
            following.bell.ring()

    def _write_next(self) -> bool:
        """Write for those who are next; False if there is nobody."""
        with self._mutex:
            self._drop_done()
            first = self._queue[0] if self._queue else None
        if first is None:
            return False
        if first.works:
            self._tell_readers(self._settle(self._next_batch))
        else:  # it only waited for those before it
            first.settle([])
            _wake([first])
        return True

    def _tell_readers(self, outcomes: Sequence[Outcome]) -> None:
        try:  # noqa: SIM105  (`suppress` takes as long as everything else here)
            self._on_commit(outcomes)
        except StrandlineError:  # the appends are written, whatever the waiting readers meet
            pass

    def _settle(self, take: Callable[[], list[AnyTicket]]) -> list[Outcome]:
        """Write the works of the tickets that are there when the engine asks for them.

        Return their outcomes, or nothing if the transaction failed.
        """
        outcomes: list[Outcome] = []
        batch: list[AnyTicket] = []

        def works() -> list[Work]:
            nonlocal batch
            batch = take()
            return [work for ticket in batch for work in ticket.works]

        try:
            outcomes = self._engine.append(works)
        except Exception as error:  # noqa: BLE001  (the owner of the work gets it; an exit is for the leader)
            batch = batch or take()
            self._settle_failed(batch, error)
        else:
            following = iter(outcomes)
            for ticket in batch:
                ticket.settle([next(following) for _ in ticket.works])
        finally:
            _wake(batch)
        return outcomes

    def _settle_failed(self, batch: list[AnyTicket], error: BaseException) -> None:
        if isinstance(error, Unavailable):
            for ticket in batch:
                ticket.settle([], copy.copy(error))
        elif len(batch) == 1:
            batch[0].settle([], error)
        else:
            for ticket in batch:  # so that a poisoned one fails alone
                self._settle_alone(ticket)

    def _settle_alone(self, ticket: AnyTicket) -> None:
        self._settle(lambda: [ticket])

    def _only_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that all who wait belong to: nobody else is kept waiting if it has other things to do."""
        loops = {ticket.loop if isinstance(ticket, LoopTicket) else None for ticket in self._queue}
        return loops.pop() if len(loops) == 1 else None

    def _ask_worker_from(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Let a loop ask the worker when it is its turn; False if it is closed."""
        try:
            loop.call_soon_threadsafe(self._ask_worker, loop)
        except RuntimeError:
            return False
        return True

    def _ask_worker(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the worker write for the tasks of the running loop: at once, or, if they are many, when no more come."""
        if not self._were_many:
            self._work_waits.ring()
        elif loop not in self._gathering:
            self._gathering.add(loop)
            loop.call_soon(self._gather, loop, 0, IDLE_ROUNDS)

    def _gather(self, loop: asyncio.AbstractEventLoop, known: int, rounds: int) -> None:
        waiting = len(self._queue)
        rounds = IDLE_ROUNDS if waiting > known else rounds - 1
        if rounds and waiting < ENOUGH_TICKETS:
            loop.call_soon(self._gather, loop, waiting, rounds)
        else:
            self._gathering.discard(loop)
            self._work_waits.ring()

    def _have_worker(self) -> None:
        """Start the worker before anything is left to it."""
        if self._worker is None:
            with self._mutex:
                if self._worker is None:
                    self._worker = start(self._work, "strandline-writer")

    def _work(self) -> None:
        current.set(AT_WORK)  # all its life
        while not self._is_closed or self._queue:
            self._work_waits.wait()
            self._lead(None)


def _wake(batch: list[AnyTicket]) -> None:
    """Wake every owner who is done; those of one event loop together, a wake-up per future costs too much."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for ticket in batch:
        if not ticket.is_done:
            continue
        if isinstance(ticket, LoopTicket):
            loops.setdefault(ticket.loop, []).append(ticket.future)
        else:
            ticket.bell.ring()
    for loop, futures in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
