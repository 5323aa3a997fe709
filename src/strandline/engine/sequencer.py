"""The sequencer: one writer, many callers, one transaction for all who wait at that moment.

There is no writer thread as long as threads call: the first caller leads, writes everything that
queued up until its own append is done, and hands the lead to the next in the queue. A hop to
another thread would cost more than most appends. Asyncio callers cannot lead, they must not block;
for them a worker thread does.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
from collections import deque
from collections.abc import Callable, Sequence

from ..errors import StoreClosed, StrandlineError, Unavailable
from ..retag import Retag
from . import Engine, Outcome, Work

# One transaction takes about this many events, so that it ends soon and other processes get their turn.
BATCH_EVENTS = 1_000


class Ticket:
    """A place in the queue: what to write in one transaction, and what came of it."""

    __slots__ = ("_error", "_outcomes", "_wake", "is_done", "leads", "weight", "works")

    def __init__(self, works: Sequence[Work]) -> None:
        self.works = works
        self.weight = sum(1 if isinstance(work, Retag) else len(work.events) for work in works)
        self.is_done = False
        self.leads = False
        self._outcomes: list[Outcome] = []
        self._error: BaseException | None = None
        self._wake = threading.Lock()
        self._wake.acquire()

    def settle(self, outcomes: list[Outcome], error: BaseException | None = None) -> None:
        """Set the result, once."""
        self._outcomes, self._error, self.is_done = outcomes, error, True

    def wake(self) -> None:
        """Wake the waiting thread: it is done, or has to lead."""
        self._wake.release()

    def wait(self) -> None:
        """Wait for `wake`."""
        self._wake.acquire()

    def result(self) -> list[Outcome]:
        """The outcomes; raises if the whole transaction failed."""
        if self._error is not None:
            raise self._error
        return self._outcomes


class LoopTicket(Ticket):
    """A ticket whose owner awaits a future of an event loop."""

    __slots__ = ("future", "loop")

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__(works)
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()


class Sequencer:
    """Puts appends in order and hands them to the engine, batch by batch."""

    def __init__(self, engine: Engine, on_commit: Callable[[], None]) -> None:
        self._engine = engine
        self._on_commit = on_commit
        self._mutex = threading.Lock()
        self._queue: deque[Ticket] = deque()
        self._is_led = False
        self._is_closed = False
        self._worker_turn = threading.Semaphore(0)
        self._worker: threading.Thread | None = None

    def run(self, works: Sequence[Work]) -> list[Outcome]:
        """Write the works in one transaction and return their outcomes."""
        return self._run(Ticket(works))

    async def run_async(self, works: Sequence[Work]) -> list[Outcome]:
        """Like `run`, awaited. Cancelled while it queues, it is not written; later, it is."""
        ticket = LoopTicket(works)
        if self._enter(ticket):
            self._turn_to_worker()
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
        self._run(Ticket(()), closes=True)
        if self._worker is not None:
            self._worker_turn.release()
            self._worker.join()

    def _run(self, ticket: Ticket, *, closes: bool = False) -> list[Outcome]:
        leads = self._enter(ticket, closes=closes)
        try:
            if not leads:
                ticket.wait()
            if not ticket.is_done:
                self._lead(ticket)
        except BaseException:
            if self._withdraw(ticket) and ticket.leads:
                self._hand_over()
            raise
        return ticket.result()

    def _enter(self, ticket: Ticket, *, closes: bool = False) -> bool:
        """Queue up; True if the caller has to lead."""
        with self._mutex:
            if self._is_closed:
                raise StoreClosed("the store is closed")
            self._is_closed = closes
            self._queue.append(ticket)
            ticket.leads = not self._is_led
            self._is_led = True
            return ticket.leads

    def _withdraw(self, ticket: Ticket) -> bool:
        """Leave the queue; False if the ticket was taken already."""
        with self._mutex:
            try:
                self._queue.remove(ticket)
            except ValueError:
                return False
            return True

    def _lead(self, own: Ticket | None) -> None:
        try:
            while batch := self._take():
                self._write(batch)
                if own is not None and own.is_done:
                    break
        finally:
            if own is not None:
                own.leads = False
            self._hand_over()

    def _take(self) -> list[Ticket]:
        with self._mutex:
            batch: list[Ticket] = []
            weight = 0
            while self._queue and (not batch or weight + self._queue[0].weight <= BATCH_EVENTS):
                batch.append(self._queue.popleft())
                weight += batch[-1].weight
            return batch

    def _hand_over(self) -> None:
        with self._mutex:
            self._is_led = bool(self._queue)
            if not self._queue:
                return
            following = self._queue[0]
            if not isinstance(following, LoopTicket):
                following.leads = True
                following.wake()
                return
        self._turn_to_worker()

    def _write(self, batch: list[Ticket]) -> None:
        try:
            self._settle(batch)
        except BaseException:
            for ticket in batch:
                if not ticket.is_done:
                    ticket.settle([], _interrupted())
            raise
        finally:
            _wake(batch)
        with contextlib.suppress(
            StrandlineError
        ):  # the appends are written, whatever the waiting readers meet
            self._on_commit()

    def _settle(self, batch: list[Ticket]) -> None:
        works = [work for ticket in batch for work in ticket.works]
        try:
            outcomes = iter(self._engine.append(works) if works else ())
        except Unavailable as error:
            for ticket in batch:
                ticket.settle([], copy.copy(error))
        except Exception as error:  # noqa: BLE001  (whatever it is, its owner gets it)
            if len(batch) == 1:
                batch[0].settle([], error)
                return
            for ticket in batch:  # so that a poisoned one fails alone
                self._settle([ticket])
        else:
            for ticket in batch:
                ticket.settle([next(outcomes) for _ in ticket.works])

    def _turn_to_worker(self) -> None:
        with self._mutex:
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="strandline-writer", daemon=True)
                self._worker.start()
        self._worker_turn.release()

    def _work(self) -> None:
        while True:
            self._worker_turn.acquire()
            if self._is_closed and not self._queue:
                return
            self._lead(None)


def _interrupted() -> Unavailable:
    return Unavailable("the writing thread was interrupted", written=None)


def _wake(batch: list[Ticket]) -> None:
    """Wake every owner; those of one event loop together, a wake-up per future costs too much."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for ticket in batch:
        if isinstance(ticket, LoopTicket):
            loops.setdefault(ticket.loop, []).append(ticket.future)
        else:
            ticket.wake()
    for loop, futures in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
