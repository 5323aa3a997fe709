"""The sequencer: one writer, many callers, one transaction for all who wait at that moment.

There is no writer thread as long as threads call: the first caller leads, writes everything that
queued up until its own append is done, and lets the next in the queue lead. A hop to another thread
would cost more than most appends. Asyncio callers cannot lead, they must not block; for them a worker
thread does. Where many tasks append, it begins when no more of them come: it would only take the
interpreter's lock from those who are about to.

Who leads holds a lock, and a ticket stays in the queue until it has its outcome: wherever an interrupt
hits, the next leader finds everything as it was. (What was written before the interrupt is then found
to be a repeat.) A thread that finds nobody else needs no ticket: it leads with what it brought.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from ..errors import StoreClosed, StrandlineError, Unavailable
from . import Engine, Outcome, Work

# One transaction takes about this many events, so that it ends soon and other processes get their turn.
BATCH_EVENTS = 1_000
BATCH_TICKETS = 1_000
# Tasks that append are many if the last transaction had so many tickets; so many need not wait for others.
MANY_TICKETS, ENOUGH_TICKETS = 16, 100
# A loop that went round so often without another append has no more of them just now.
IDLE_ROUNDS = 2
# Nobody waits this long, unless the leader was interrupted before it could wake the next one.
LOOK_AGAIN_SECONDS = 1.0


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
    """A ticket whose owner is a thread: it leads, or waits."""

    __slots__ = ("_wake",)

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__(works)
        self._wake = threading.Lock()
        self._wake.acquire()

    def wake(self) -> None:
        """Wake the waiting thread: it is done, or may lead."""
        with contextlib.suppress(RuntimeError):  # awake already
            self._wake.release()

    def wait(self) -> None:
        """Wait for `wake`; may return without."""
        self._wake.acquire(timeout=LOOK_AGAIN_SECONDS)


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

    def __init__(self, engine: Engine, on_commit: Callable[[], None]) -> None:
        self._engine = engine
        self._on_commit = on_commit
        self._mutex = threading.RLock()  # guards the queue
        self._queue: deque[AnyTicket] = deque()
        self._leading = threading.RLock()
        self._is_closed = False
        self._worker_rests = threading.Lock()  # whoever has work for the worker lets it go
        self._worker_rests.acquire()
        self._worker: threading.Thread | None = None
        self._were_many = False
        self._gathering = weakref.WeakSet[asyncio.AbstractEventLoop]()

    @property
    def is_interrupted(self) -> bool:
        """Whether the calling thread is at work here already: it handles a signal."""
        if self._leading._is_owned():  # type: ignore[attr-defined]
            # It may only have been interrupted before it could let go; then the next to lead, which may be itself, does.
            caller = sys._getframe(1)
            while caller.f_back is not None:
                caller = caller.f_back
                if caller.f_globals is globals():
                    return True
        return self._mutex._is_owned()  # type: ignore[attr-defined,no-any-return]

    def run(self, works: Sequence[Work]) -> list[Outcome]:
        """Write the works in one transaction and return their outcomes."""
        try:
            # Nobody else is here: no need to queue.
            if not self._queue and self._leading.acquire(blocking=False):
                if self._is_closed:
                    raise StoreClosed("the store is closed")
                outcomes = self._engine.append(lambda: works)
                self._tell_readers()
                return outcomes
        finally:
            self._stop_leading()
            if self._queue:
                self._wake_next()
        return self._run(ThreadTicket(works))

    async def run_async(self, works: Sequence[Work]) -> list[Outcome]:
        """Like `run`, awaited. Cancelled while it queues, it is not written; later, it is."""
        ticket = LoopTicket(works)
        self._enter(ticket)
        self._ask_worker(ticket.loop)
        try:
            await ticket.future
        except asyncio.CancelledError:
            self._withdraw(ticket)
            raise
        return ticket.result()

    def close(self) -> None:
        """Refuse new works, and return when all that were accepted are written."""
        with self._mutex:
            if self._is_closed:
                return
        self._run(ThreadTicket(()), closes=True)
        if self._worker is not None:
            self._turn_to_worker()
            self._worker.join()

    def _run(self, ticket: ThreadTicket, *, closes: bool = False) -> list[Outcome]:
        try:
            self._enter(ticket, closes=closes)
            while not ticket.is_done:
                if not self._lead(ticket):
                    ticket.wait()
        except BaseException:
            self._stop_leading()
            self._withdraw(ticket)
            self._wake_next()
            raise
        return ticket.result()

    def _enter(self, ticket: AnyTicket, *, closes: bool = False) -> None:
        with self._mutex:
            if self._is_closed:
                raise StoreClosed("the store is closed")
            self._is_closed = closes
            self._queue.append(ticket)

    def _withdraw(self, ticket: AnyTicket) -> None:
        with self._mutex, contextlib.suppress(ValueError):
            self._queue.remove(ticket)

    def _lead(self, own: Ticket | None) -> bool:
        """Write what is queued until `own` is done, one batch if there is none; False if somebody else leads."""
        if not self._leading.acquire(blocking=False):
            return False
        try:
            while self._write_next() and own is not None and not own.is_done:
                pass
        finally:
            self._stop_leading()
            self._wake_next()
        return True

    def _stop_leading(self) -> None:
        """Let others lead. Also if an interrupt came between taking the lock and knowing that it is ours."""
        while self._leading._is_owned():  # type: ignore[attr-defined]
            self._leading.release()

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
            self._turn_to_worker()
        elif following is not None:
            following.wake()

    def _write_next(self) -> bool:
        """Write for those who are next; False if there is nobody."""
        with self._mutex:
            self._drop_done()
            first = self._queue[0] if self._queue else None
        if first is None:
            return False
        if first.works:
            self._settle(self._next_batch)
            self._tell_readers()
        else:  # it only waited for those before it
            first.settle([])
            _wake([first])
        return True

    def _tell_readers(self) -> None:
        try:  # noqa: SIM105  (`suppress` takes as long as everything else here)
            self._on_commit()
        except StrandlineError:  # the appends are written, whatever the waiting readers meet
            pass

    def _settle(self, take: Callable[[], list[AnyTicket]]) -> None:
        """Write the works of the tickets that are there when the engine asks for them."""
        batch: list[AnyTicket] = []

        def works() -> list[Work]:
            nonlocal batch
            batch = take()
            return [work for ticket in batch for work in ticket.works]

        try:
            outcomes = iter(self._engine.append(works))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  (whatever it is, its owner gets it)
            batch = batch or take()
            self._settle_failed(batch, error)
        else:
            for ticket in batch:
                ticket.settle([next(outcomes) for _ in ticket.works])
        finally:
            _wake(batch)

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
            if self._worker_rests.locked():
                self._turn_to_worker()
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
            self._turn_to_worker()

    def _turn_to_worker(self) -> None:
        if self._worker is None:
            with self._mutex:
                if self._worker is None:
                    self._worker = threading.Thread(target=self._work, name="strandline-writer", daemon=True)
                    self._worker.start()
        with contextlib.suppress(RuntimeError):  # called already
            self._worker_rests.release()

    def _work(self) -> None:
        while not self._is_closed or self._queue:
            self._worker_rests.acquire()
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
            ticket.wake()
    for loop, futures in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
