"""Running a follower: take the lease, deliver batch by batch, wait for more. Yields steps, so it serves sync and async."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any

import msgspec

from ..append import MAX_POSITION, check_position
from ..engine import Engine, Page, Span
from ..engine.following import DeadLetter, FollowerRow, Transaction
from ..errors import FollowerFailed, InvalidInput, StoreClosed, StrandlineError, Unavailable
from ..event import SequencedEvent
from .lease import Lease, LeaseLost, Leases
from .options import Handler, Kept, Options
from .retags import disturbing_retag
from .steps import Handle, Look, Steps, Wait, Within, at_once, transaction

LONGEST_POLL_SECONDS = 0.5


class HandlerFailed(Exception):
    """The user's function raised."""


class Stopped(Exception):
    """The follower was stopped while it waited."""


class Run:
    """One run of a follower."""

    def __init__(
        self, kept: Kept, options: Options, engine: Engine, leases: Leases, is_over: Callable[[], bool]
    ) -> None:
        self._kept = kept
        self._query = kept.query
        self._options = options
        self._engine = engine
        self._leases = leases
        self._is_over = is_over
        self._start = self._position = self._judged = 0
        self._epoch = -1
        self._failures = 0
        self.is_waiting = False

    def steps(self) -> Steps[int]:
        """Deliver until it is stopped; returns the checkpoint."""
        while not self._is_over():
            try:
                lease = yield from self._take_lease()
                if lease is None or (yield from self._hold(lease)):
                    break
            except StoreClosed:
                if not self._is_over():
                    raise
            except Unavailable:  # that is no event's fault
                self._failures += 1
                if self._failures >= self._options.attempts:
                    raise
                yield Wait(MAX_POSITION, self._options.pause(self._failures))
        return self._position

    # The lease

    def _take_lease(self) -> Steps[Lease | None]:
        """The lease; None if there is no need for it any more."""
        poll = min(LONGEST_POLL_SECONDS, self._kept.lease_seconds / 4)
        try:
            while not self._is_over():
                row: FollowerRow | None = yield Look(self._checked)
                if row is not None and self._has_reached(row.position):
                    self._position = row.position
                    return None
                if row is None or not (row.is_paused or (yield Look(partial(self._is_taken, row)))):
                    lease: Lease | None = yield from at_once(self._engine, self._take)
                    if lease is not None:
                        return lease
                elif row.is_paused and self._options.until is not None:
                    raise FollowerFailed(
                        f"follower {row.name!r} is paused", hint="resume it: follower.resume()"
                    )
                self.is_waiting = True
                yield Wait(MAX_POSITION, poll)
            return None
        finally:
            self.is_waiting = False

    def _look(self) -> FollowerRow | None:
        return next(iter(self._engine.followers(self._kept.name)), None)

    def _checked(self) -> FollowerRow | None:
        row = self._look()
        if row is not None:
            self._check(row)
        return row

    def _is_taken(self, row: FollowerRow) -> bool:
        return row.is_held(self._engine.now()) and row.epoch != self._epoch

    def _take(self, tx: Transaction) -> Lease | None:
        row = self._kept.found(tx, self._engine.head())
        now = tx.now()
        if row.is_paused or (row.is_held(now) and row.epoch != self._epoch):
            return None
        self._check(row)
        row = msgspec.structs.replace(
            row,
            epoch=row.epoch + 1,
            owner=self._leases.owner,
            renewed_at=now,
            lease=int(self._kept.lease_seconds * 1e6),
            error="",
        )
        tx.save(row)
        self._start, self._position, self._judged = row.start, row.position, row.judged
        self._epoch = row.epoch
        return Lease(row)

    def _check(self, row: FollowerRow) -> None:
        if row.query != self._kept.query_text:
            raise FollowerFailed(
                f"follower {row.name!r} has followed another query up to position {row.position}",
                hint="give the new query to a follower of another name, or let this one begin again:"
                " follower.reset(0)",
            )
        head = self._engine.head()  # after the row was read, which may have moved with it
        if row.position > head:
            raise _restored(row.name, row.position, head)

    def _hold(self, lease: Lease) -> Steps[bool]:
        """Follow while the lease lasts; False if it should be taken again."""
        self._leases.add(lease)
        try:
            yield from self._follow(lease)
        except GeneratorExit:
            self._leases.remove(lease)
            raise
        except (LeaseLost, Stopped):
            yield from self._release(lease, "")
            return False
        except BaseException as error:
            yield from self._release(lease, str(error) if isinstance(error, FollowerFailed) else "")
            raise
        yield from self._release(lease, "")
        return True

    def _release(self, lease: Lease, error: str) -> Steps[None]:
        """Let somebody else run it, from where this one is."""
        self._leases.remove(lease)

        def release(tx: Transaction) -> None:
            row, use = tx.find(lease.name), lease.use
            if row is not None and row.epoch == use.epoch:
                position, judged = max(row.position, use.position), max(row.judged, use.judged)
                tx.save(msgspec.structs.replace(row, owner="", position=position, judged=judged, error=error))

        try:
            yield from at_once(self._engine, release)
        except StrandlineError:
            return  # it will expire

    # The events

    def _follow(self, lease: Lease) -> Steps[None]:
        read = self._engine.read_page
        while not self._is_over() and not self._has_reached(self._position):
            page: Page = yield Look(lambda: read(self._query, Span(self._position), self._options.batch))
            if page.head < self._position:
                raise _restored(lease.name, self._position, page.head)
            if self._judged < page.head:
                retag = yield Look(partial(self._disturbing_retag, page.head))
                if retag is not None:
                    yield from self._tell_retag(lease, retag)
                    continue
            end = page.head if page.rest is None else page.rest.after
            if page.events:
                yield from self._deliver(lease, page.events, end, page.head)
            elif (end, page.head) != (self._position, self._judged):
                lease.looked_up_to(end, page.head)
            self._position, self._judged = end, page.head
            if page.rest is None and not self._has_reached(end):
                self._failures = 0
                yield Wait(end)

    def _has_reached(self, position: int) -> bool:
        return self._options.until is not None and position >= self._options.until

    def _deliver(self, lease: Lease, events: Sequence[SequencedEvent], end: int, judged: int) -> Steps[None]:
        """Deliver a batch, or if that fails its events one by one."""
        if len(events) > 1:
            try:
                yield from self._deliver_together(lease, events, end, judged)
            except HandlerFailed:
                pass
            else:
                return
        ends = [*(event.position for event in events[:-1]), end]
        for event, end_of_event in zip(events, ends, strict=True):
            yield from self._deliver_alone(lease, event, end_of_event, judged)

    def _deliver_alone(self, lease: Lease, event: SequencedEvent, end: int, judged: int) -> Steps[None]:
        attempts = self._options.attempts
        for attempt in range(1, attempts + 1):
            if self._is_over():
                raise Stopped
            try:
                yield from self._deliver_together(lease, (event,), end, judged)
                return
            except HandlerFailed as failed:
                error = failed.__cause__ or failed
            if attempt < attempts:
                yield Wait(MAX_POSITION, self._options.pause(attempt))
        if self._is_over():
            raise Stopped  # perhaps it failed for that reason
        yield from self._give_up(lease, event, end, judged, error)

    def _deliver_together(
        self, lease: Lease, events: Sequence[SequencedEvent], end: int, judged: int
    ) -> Steps[None]:
        """Call the handler and move the checkpoint; in one transaction, unless the handler works outside."""
        is_inside = self._options.in_transaction

        def work(tx: Transaction) -> Steps[FollowerRow]:
            row = yield Within(tx, lambda: self._held(lease, tx))
            if is_inside:
                yield from call(self._options.handle, events, tx)
            return (yield Within(tx, lambda: self._moved(lease, tx, row, end, judged)))  # type: ignore[no-any-return]

        if not is_inside:
            yield Look(lambda: lease.checked(self._look()))
            yield from call(self._options.handle, events, None)
        lease.was_saved((yield from transaction(self._engine, work)))
        self._position, self._failures = end, 0

    def _held(self, lease: Lease, tx: Transaction) -> FollowerRow:
        row = lease.held(tx)
        if row.position > self._position:
            raise LeaseLost  # a commit whose outcome nobody knew came through: go on from there
        return row

    def _moved(
        self, lease: Lease, tx: Transaction, row: FollowerRow, position: int, judged: int
    ) -> FollowerRow:
        row = lease.renewed(msgspec.structs.replace(row, position=position, judged=judged), tx)
        tx.save(row)
        return row

    def _give_up(
        self, lease: Lease, event: SequencedEvent, end: int, judged: int, error: BaseException
    ) -> Steps[None]:
        """Put the event aside in the same transaction in which the checkpoint passes it; or stop."""
        told, attempts = f"{type(error).__name__}: {error}", self._options.attempts
        if self._options.on_failure == "stop":
            raise FollowerFailed(
                f"follower {lease.name!r} failed {attempts} times at event {event.position} ({event.type}): {told}",
                hint="correct the handler and run it again: it goes on with that event",
            ) from error
        trace = "".join(traceback.format_exception(error))

        def bury(tx: Transaction) -> FollowerRow:
            row = self._held(lease, tx)
            tx.save_letter(DeadLetter(lease.name, event.position, told, trace, attempts, tx.now()))
            return self._moved(lease, tx, row, end, judged)

        lease.was_saved((yield from at_once(self._engine, bury)))
        self._position = end

    # Retags

    def _disturbing_retag(self, head: int) -> SequencedEvent | None:
        delivered = self._start, self._position
        return disturbing_retag(self._engine, self._query, delivered, self._judged, head)

    def _tell_retag(self, lease: Lease, retag: SequencedEvent) -> Steps[None]:
        """Something was delivered that would not be now, or the other way round."""
        on_retag = self._options.on_retag
        if on_retag is None:
            raise FollowerFailed(
                f"the retag at {retag.position} changed which events follower {lease.name!r} should have had"
                f" up to position {self._position}",
                hint="let it begin again: follower.reset(0), with empty tables; or give run an on_retag",
            )

        def work(tx: Transaction) -> Steps[FollowerRow]:
            row: FollowerRow = yield Within(tx, lambda: self._held(lease, tx))
            try:
                answer = yield from call(on_retag, retag, tx)
            except HandlerFailed as failed:
                raise FollowerFailed(
                    f"on_retag of follower {lease.name!r} failed at {retag.position}: {failed.__cause__}",
                    hint="correct it and run the follower again",
                ) from failed.__cause__
            back = self._position if answer is None else check_position(answer, "what on_retag returns")
            position = min(back, self._position)
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
        self._start, self._position, self._judged, self._epoch = (
            row.start,
            row.position,
            row.judged,
            row.epoch,
        )
        lease.was_saved(row)


def call(handle: Handler, subject: Any, tx: Transaction | None) -> Steps[Any]:
    """Call a function of the user's."""
    try:
        answer = yield Handle(handle, subject, tx)
    except Exception as error:
        raise HandlerFailed from error
    if isawaitable(answer):
        getattr(answer, "close", lambda: None)()
        raise InvalidInput(
            "the handler returned something to be awaited, which nobody does here",
            hint="use connect_async, or a handler that is a plain function",
        )
    return answer


def _restored(name: str, position: int, head: int) -> FollowerFailed:
    return FollowerFailed(
        f"follower {name!r} is at position {position}, but the head of this log is {head}",
        hint="the log was restored from a backup: restore what was made of its events too, or let the follower"
        " begin again: follower.reset(0)",
    )
