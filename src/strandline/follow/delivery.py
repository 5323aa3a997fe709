"""Delivering: read a batch, judge retags, call the handler and move the checkpoint; again and again."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from inspect import isasyncgen, isawaitable, isgenerator
from typing import Any

import msgspec

from ..activity import handling
from ..append import check_position
from ..engine import Engine, Page, Span
from ..engine.following import DeadLetter, FollowerRow, Transaction
from ..engine.retags import concerning_retag
from ..errors import FollowerFailed, InvalidInput, StrandlineError, Unavailable
from ..event import SequencedEvent
from ..names import MAX_POSITION
from .faults import being_handled, is_of_the_store, missing_table, passing_fault
from .lease import Lease, LeaseLost
from .logger import LOGGER
from .options import Handler, Kept, Options, described, go_on, plain
from .steps import Handle, Look, Steps, Wait, Within, at_once, transaction


class HandlerFailed(Exception):
    """The user's function raised; the cause is what it raised."""


class Undeliverable(Exception):
    """Raise it in a handler to say that it is no use to try this event again."""


class Stopped(Exception):
    """The follower was stopped while it waited to try again."""


class Delivery:
    """What a run does while it holds the lease. What was delivered is in `(start, position]`, as of `judged`."""

    def __init__(
        self, kept: Kept, options: Options, engine: Engine, is_over: Callable[[], bool], row: FollowerRow
    ) -> None:
        self._kept = kept
        self._query = kept.query
        self._options = options
        self._engine = engine
        self._is_over = is_over
        self.lease = Lease(row)
        self._start, self.position, self._judged = row.start, row.position, row.judged
        self.has_progressed = False

    def steps(self) -> Steps[None]:
        """Deliver until it is stopped, or has reached what it is to reach."""
        read = self._engine.read_page
        while not self._is_over() and not self._options.is_reached(self.position):
            if self.lease.is_lost:
                raise LeaseLost
            page: Page = yield Look(
                lambda: read(self._query, Span(self.position), self._options.batch),
                "long" if self._query.has_where else "page",
            )
            if page.head < self.position:
                raise restored(self._kept.name, self.position, page.head)
            if self._judged < page.head and self._options.on_retag is not go_on:
                retag = yield Look(partial(self._concerning_retag, page.head), "page")
                if retag is not None:
                    yield from self._tell_retag(retag)
                    continue
            end = page.head if page.rest is None else page.rest.after
            if page.events:
                yield from self._deliver(page.events, end, page.head)
            elif (end, page.head) != (self.position, self._judged):
                self.lease.looked_up_to(end, page.head)
            self.position, self._judged = end, page.head
            if page.rest is None and not self._options.is_reached(end):
                self.has_progressed = True
                yield Wait(end, until=lambda: self.lease.is_lost)

    def _check_lease(self) -> None:
        self.lease.checked(next(iter(self._engine.followers(self._kept.name)), None))

    def _deliver(self, events: Sequence[SequencedEvent], end: int, judged: int) -> Steps[None]:
        """Deliver a batch, or if that fails its events one by one."""
        if len(events) > 1:
            try:
                yield from self._deliver_together(events, end, judged)
            except HandlerFailed:
                pass
            else:
                return
        ends = [*(event.position for event in events[:-1]), end]
        for event, end_of_event in zip(events, ends, strict=True):
            yield from self._deliver_alone(event, end_of_event, judged)

    def _deliver_alone(self, event: SequencedEvent, end: int, judged: int) -> Steps[None]:
        attempts = self._options.attempts
        for attempt in range(1, attempts + 1):
            if self._is_over():
                raise Stopped
            try:
                yield from self._deliver_together((event,), end, judged)
                return
            except HandlerFailed as failed:
                error = failed.__cause__ or failed
            if isinstance(error, Undeliverable):
                break
            if attempt < attempts:
                LOGGER.info(
                    "follower %r failed at event %d (%s), attempt %d of %d: %s",
                    *(self._kept.name, event.position, event.type, attempt, attempts, described(error)),
                )
                yield Wait(MAX_POSITION, self._options.pause(attempt))
        if self._is_over():
            raise Stopped  # perhaps it failed for that reason
        yield from self._give_up(event, end, judged, error, attempt)

    def _deliver_together(self, events: Sequence[SequencedEvent], end: int, judged: int) -> Steps[None]:
        """Call the handler and move the checkpoint; in one transaction, unless the handler works outside."""
        is_inside = self._options.in_transaction

        def work(tx: Transaction) -> Steps[FollowerRow]:
            row = yield Within(tx, lambda: self.lease.held(tx))
            if is_inside:
                yield from call(self._kept, self._options.handle, events, tx)
            return (yield Within(tx, lambda: self._moved(tx, row, end, judged)))  # type: ignore[no-any-return]

        if not is_inside:
            yield Look(self._check_lease)
            yield from call(self._kept, self._options.handle, events, None)
        self.lease.was_saved((yield from transaction(self._engine, work)))
        self.position, self.has_progressed = end, True

    def _moved(self, tx: Transaction, row: FollowerRow, position: int, judged: int) -> FollowerRow:
        row = self.lease.renewed(msgspec.structs.replace(row, position=position, judged=judged), tx)
        tx.save(row)
        return row

    def _give_up(
        self, event: SequencedEvent, end: int, judged: int, error: BaseException, attempts: int
    ) -> Steps[None]:
        """Put the event aside in the same transaction in which the checkpoint passes it; or stop."""
        told = described(error)
        if self._options.on_failure == "stop":
            raise FollowerFailed(
                f"follower {self._kept.name!r} failed {attempts} times at event {event.position} ({event.type}): {told}",
                hint="correct the handler and run it again: it goes on with that event",
            ) from error
        trace = plain("".join(traceback.format_exception(error)))

        def bury(tx: Transaction) -> FollowerRow:
            row = self.lease.held(tx)
            tx.save_letter(DeadLetter(self._kept.name, event.position, told, trace, attempts, tx.now()))
            return self._moved(tx, row, end, judged)

        self.lease.was_saved((yield from at_once(self._engine, bury)))
        self.position = end
        LOGGER.warning(
            "follower %r gave up on event %d (%s), which is a dead letter now, attempt %d: %s",
            *(self._kept.name, event.position, event.type, attempts, told),
            exc_info=error,
        )

    def _concerning_retag(self, head: int) -> SequencedEvent | None:
        delivered = self._start, self.position
        return concerning_retag(self._engine, self._query, delivered, self._judged, head)

    def _tell_retag(self, retag: SequencedEvent) -> Steps[None]:
        """Call `on_retag`, or stop if there is none."""
        on_retag = self._options.on_retag
        if on_retag is None:
            hint = "let it begin again: follower.reset(0), with empty tables; or give run an on_retag"
            raise retag_changed(self._kept.name, retag, self.position, hint=hint)

        def work(tx: Transaction) -> Steps[FollowerRow]:
            row: FollowerRow = yield Within(tx, lambda: self.lease.held(tx))
            try:
                answer = yield from call(self._kept, on_retag, [retag], tx, retag)
            except HandlerFailed as failed:
                raise FollowerFailed(
                    f"on_retag of follower {self._kept.name!r} failed at {retag.position}: {failed.__cause__}",
                    hint="correct it and run the follower again",
                ) from failed.__cause__
            back = self.position if answer is None else check_position(answer, "what on_retag returns")
            position = min(back, self.position)
            changed = msgspec.structs.replace(
                row,
                epoch=row.epoch + 1,  # so that no renewal on its way moves the checkpoint forward again
                start=min(row.start, position),
                position=position,
                judged=retag.position,
            )
            yield Within(tx, lambda: tx.save(changed))
            return changed

        row = yield from transaction(self._engine, work)
        self._start, self.position, self._judged = row.start, row.position, row.judged
        self.lease.was_saved(row)


def call(
    kept: Kept, handle: Handler, events: Sequence[SequencedEvent], tx: Transaction | None, subject: Any = None
) -> Steps[Any]:
    """Call a function of the user's with events, or with a subject that it takes instead.

    `HandlerFailed` means that the function could not take these events. All else that is raised ends the run.
    """
    activity, outer = handling(), being_handled()
    try:
        answer = yield Handle(handle, events if subject is None else subject, tx, activity)
    except Exception as error:
        if activity.has_refused or is_of_the_store(error):  # no event is to blame
            raise
        if not isinstance(error, Undeliverable) and (fault := _fault(kept, events, error, outer)) is not None:
            raise fault from error
        raise HandlerFailed from error
    if isawaitable(answer):
        getattr(answer, "close", lambda: None)()
        raise InvalidInput(
            "the handler returned something to be awaited, which nobody does here",
            hint="use connect_async, or a handler that is a plain function",
        )
    if isgenerator(answer) or isasyncgen(answer):
        raise InvalidInput(
            "the handler returned a generator, and nobody takes what it yields: its code would never run",
            hint="write a function without yield that does its work itself",
        )
    return answer


def _fault(
    kept: Kept, events: Sequence[SequencedEvent], error: Exception, outer: BaseException | None
) -> StrandlineError | None:
    """Return the error to raise instead if not an event but the environment is to blame."""
    place = f"at event {events[0].position} ({events[0].type})"
    missing = missing_table(error, outer)
    if missing is not None:
        return FollowerFailed(
            f"the handler of {kept.name!r} misses a table, a column or a right {place}: {described(missing)}",
            hint=kept.how_to_restore,
        )
    passing = passing_fault(error, outer)
    if passing is not None:
        return Unavailable(
            f"the handler of {kept.name!r} could not work {place}: {described(passing)}",
            hint="remove the cause and run it again: it goes on with that event. If the event is to blame after"
            " all, let the handler raise Undeliverable",
        )
    return None


def retag_changed(name: str, retag: SequencedEvent, position: int, *, hint: str) -> FollowerFailed:
    """The error for a retag of an event that the follower has passed."""
    return FollowerFailed(
        f"the retag at {retag.position} changed an event that follower {name!r} has read, or should have read, up to"
        f" position {position}",
        hint=hint,
    )


def restored(name: str, position: int, head: int) -> FollowerFailed:
    """The error for a checkpoint that the log has not reached."""
    return FollowerFailed(
        f"follower {name!r} is at position {position}, but the head of this log is {head}",
        hint="the log was restored from a backup: restore what was made of its events too, or let the follower"
        " begin again: follower.reset(0)",
    )
