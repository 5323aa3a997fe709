"""Running a follower: take the lease, deliver batch by batch, wait for more. Yields steps, so it serves sync and async."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import msgspec

from ..engine import Engine
from ..engine.following import FollowerRow, LeaseUse, Transaction
from ..errors import FollowerFailed, StoreClosed, StrandlineError, Unavailable
from ..names import MAX_POSITION
from .delivery import Delivery, Stopped, restored
from .lease import LeaseLost, Leases, taken, use_of
from .logger import LOGGER
from .options import Kept, Options, plain
from .steps import Look, Steps, Wait, at_once

LONGEST_POLL_SECONDS = 0.5


class Run:
    """One run of a follower."""

    def __init__(
        self, kept: Kept, options: Options, engine: Engine, leases: Leases, is_over: Callable[[], bool]
    ) -> None:
        self._kept = kept
        self._options = options
        self._engine = engine
        self._leases = leases
        self._is_over = is_over
        self._position = 0
        self._epoch = -1  # of the lease that was held last
        self._taken: FollowerRow | None = None  # with our lease, until it is released
        self._failures = 0
        self.is_waiting = False

    def steps(self) -> Steps[int]:
        """Deliver until it is stopped; returns the checkpoint."""
        while not self._is_over():
            try:
                row = yield from self._take_lease()
                if row is None or (yield from self._hold(row)):
                    break
            except StoreClosed:
                if not self._is_over():
                    raise
            except Unavailable as error:  # no event's fault
                self._failures += 1
                if self._failures >= self._options.attempts:
                    raise
                pause = self._options.pause(self._failures)
                LOGGER.warning("follower %r tries again in %.1f s: %s", self._kept.name, pause, error)
                yield Wait(MAX_POSITION, pause)
            except GeneratorExit:
                raise
            except BaseException:
                if (
                    self._taken is not None
                ):  # an interrupt came before the lease was used, or while it was released
                    yield from self._let_go(use_of(self._taken))
                raise
        return self._position

    def _take_lease(self) -> Steps[FollowerRow | None]:
        """The follower's row with our lease; None if there is no need for it any more."""
        poll = min(LONGEST_POLL_SECONDS, self._kept.lease_seconds / 4)
        try:
            while not self._is_over():
                found: FollowerRow | None = yield Look(self._checked)
                if found is not None and self._options.is_reached(found.position):
                    self._position = found.position
                    return None
                if found is None or not (found.is_paused or (yield Look(partial(self._is_taken, found)))):
                    row: FollowerRow | None = yield from at_once(self._engine, self._take)
                    if row is not None:
                        return row
                elif found.is_paused and self._options.until is not None:
                    raise FollowerFailed(
                        f"follower {found.name!r} is paused", hint="resume it: follower.resume()"
                    )
                self.is_waiting = True
                yield Wait(MAX_POSITION, poll)
            return None
        finally:
            self.is_waiting = False

    def _checked(self) -> FollowerRow | None:
        row = next(iter(self._engine.followers(self._kept.name)), None)
        if row is not None:
            self._check(row)
        return row

    def _is_taken(self, row: FollowerRow) -> bool:
        return row.is_held(self._engine.now()) and row.epoch != self._epoch

    def _take(self, tx: Transaction) -> FollowerRow | None:
        row = self._kept.found(tx, self._engine.head())
        now = tx.now()
        if row.is_paused or (row.is_held(now) and row.epoch != self._epoch):
            return None
        self._check(row)
        row = taken(row, self._leases.owner, now, self._kept.lease_seconds)
        tx.save(row)
        self._epoch = row.epoch
        self._taken = row
        return row

    def _check(self, row: FollowerRow) -> None:
        self._kept.check(row)
        head = self._engine.head()  # after the row was read, which may have moved with it
        if row.position > head:
            raise restored(row.name, row.position, head)

    def _hold(self, row: FollowerRow) -> Steps[bool]:
        """Deliver while the lease lasts; False if it should be taken again."""
        delivery = Delivery(self._kept, self._options, self._engine, self._is_over, row)
        LOGGER.info("follower %r runs from position %d on", row.name, row.position)
        try:
            self._leases.add(delivery.lease, self)
            yield from delivery.steps()
        except GeneratorExit:
            raise
        except (LeaseLost, Stopped) as end:
            if isinstance(end, LeaseLost):
                LOGGER.info("follower %r was paused, reset or taken by another process", row.name)
            yield from self._release(delivery, "")
            return False
        except BaseException as error:
            is_told = isinstance(error, StrandlineError) and not isinstance(error, StoreClosed)
            yield from self._release(delivery, str(error) if is_told else "")
            raise
        else:
            yield from self._release(delivery, "")
        finally:
            delivery.lease.is_over = True
        return True

    def _release(self, delivery: Delivery, error: str) -> Steps[None]:
        """Let somebody else run it, from where this one is."""
        lease = delivery.lease
        lease.is_over = True
        self._position, self._epoch = delivery.position, lease.use.epoch
        self._failures = 0 if delivery.has_progressed else self._failures

        yield from self._let_go(lease.use, error)

    def _let_go(self, use: LeaseUse, error: str = "") -> Steps[None]:
        def release(tx: Transaction) -> None:
            row = tx.find(use.name)
            if row is not None and (row.epoch, row.owner) == (use.epoch, self._leases.owner):
                position, judged = max(row.position, use.position), max(row.judged, use.judged)
                tx.save(
                    msgspec.structs.replace(
                        row, owner="", position=position, judged=judged, error=plain(error)
                    )
                )

        with contextlib.suppress(StrandlineError):  # then it will expire
            yield from at_once(self._engine, release)
        self._taken = None
