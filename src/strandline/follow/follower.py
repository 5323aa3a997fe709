"""A follower: a named reader of the log with a checkpoint in the log's own database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from threading import get_ident
from typing import Any, TypeVar

from msgspec import structs

from ..append import check_position
from ..callables import is_async
from ..engine.following import DeadLetter, FollowerRow, Transaction
from ..errors import InvalidInput
from ..event import to_microseconds
from . import letters
from .acknowledging import acknowledge, give_up, not_leased
from .blocking import Followed, drive_here
from .leasing import Leased, Leasing, Wish
from .logger import logged
from .options import Handler, Kept, OnFailure, Options
from .run import Run
from .status import FollowerStatus, status_of
from .steps import Steps, at_once
from .token import Token, token_of

T = TypeVar("T")


class Follower:
    """A named reader of the log: it delivers every matching event, in order, and remembers how far it is.

    Made by `store.follower("name", query)`; `run` delivers, the rest may be called from anywhere at any time.
    """

    def __init__(self, store: Followed, kept: Kept) -> None:
        self.name = kept.name
        self.query = kept.query
        self.kept = kept
        self._store = store
        self._run: Run | None = None
        self._options: Options | None = None
        self._is_stopped = False

    def run(
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
        """Call `handle(events, tx)` with each batch, then wait for more, until it is stopped; returns the checkpoint.

        What the handler does with `tx` and the checkpoint are one transaction. A batch that fails is delivered event
        by event; an event that fails `attempts` times, with pauses from `backoff` seconds on that double, becomes a
        dead letter, or with `on_failure="stop"` ends the run with `FollowerFailed`. With `until` the run ends when
        the checkpoint has reached that position. A retag that changes what was delivered ends it, unless
        `on_retag(retag, tx)` puts things right; it may return a position to go back to. With `in_transaction=False`
        the handler is called as `handle(events, None)` before the transaction: it may take its time and append, and
        may be called again with the same events.
        """
        options = Options(handle, batch, until, attempts, backoff, on_failure, on_retag, in_transaction)
        if is_async(handle):
            raise InvalidInput("the handler is async, this store is not", hint="use connect_async")
        return self.perform(self.begin_run(options))

    def catch_up(self, handle: Handler, batch: int = 500, **options: Any) -> int:
        """Like `run`, until the present head is reached."""
        self._store.check_usable()
        return self.run(handle, batch, until=self._store.engine.head(), **options)

    def stop(self) -> None:
        """End the run, from any thread: what it has begun is finished first. If none goes on, the next one ends."""
        self._is_stopped = True
        self._store.watch.wake_all()

    def status(self) -> FollowerStatus:
        """How it is: state, checkpoint, lag, who runs it, what went wrong."""
        self._store.check_usable()
        engine, run = self._store.engine, self._run
        row = self._look() or self.kept.row(max(engine.head(), self.kept.after))
        return status_of(engine, row, is_waiting=run is not None and run.is_waiting)

    def pause(self) -> None:
        """Deliver nothing from now on, whoever runs it, until `resume`."""
        self._change(lambda row: structs.replace(row, is_paused=True, epoch=row.epoch + 1, owner=""))

    def resume(self) -> None:
        """Go on after `pause`."""
        self._change(lambda row: structs.replace(row, is_paused=False))

    def reset(self, position_or_time: int | datetime) -> int:
        """Go on after this position, or after what was recorded up to this time, whoever runs it; returns the position.

        What the handler made of later events is not undone: empty its tables first if it would count them twice.
        """
        self._store.check_usable()
        engine = self._store.engine
        if isinstance(position_or_time, datetime):
            position = engine.position_at(to_microseconds(position_or_time))
        else:
            position = check_position(position_or_time, "the position to go back to")

        def change(row: FollowerRow) -> FollowerRow:
            head = engine.head()
            if position > head:
                raise InvalidInput(
                    f"follower {self.name!r} cannot go on after {position}: the head of this log is {head}",
                    hint="reset it to a position of this log",
                )
            return structs.replace(
                row,
                query=self.kept.query_after_reset(row),
                start=min(row.start, position),
                position=position,
                judged=head,
                epoch=row.epoch + 1,
                owner="",
                error="",
            )

        self._change(change)
        return position

    def lease(self, batch: int = 500, *, wait: float = 0.0, seconds: float = 30.0) -> Leased | None:
        """Take the next events for a consumer that is not run here; None if there are none, or another one has them.

        Waits up to `wait` seconds for events. Until the lease expires, after `seconds`, nobody else gets events. Then
        the next consumer gets those that were not acknowledged, once more. A new follower is made.
        """
        return drive_here(self.begin_lease(Wish(batch, wait, seconds)), self._store, self.is_closed)

    def ack(self, token: str, position: int | None = None) -> int:
        """Acknowledge leased events: all, or those up to a position. Returns the checkpoint.

        The lease is over when its last event is acknowledged. Before that, it is good for another `seconds` from now,
        so acknowledge a position again if you need more time. `FollowerFailed` if the lease was lost.
        """
        opened = self._opened(token)
        return self._write(lambda tx: acknowledge(tx, opened, position))

    def give_up(self, token: str, position: int, error: str | BaseException) -> int:
        """Make a dead letter of a leased event and go on behind it, as if all up to there were acknowledged.

        Returns the checkpoint. `FollowerFailed` if the lease was lost.
        """
        opened = self._opened(token)
        self._check_matches(check_position(position, "position"))
        return self._write(lambda tx: give_up(tx, opened, position, error))

    def forget(self) -> None:
        """Remove the follower and its dead letters from the log. Who runs it begins anew."""
        self._write(lambda tx: tx.forget(self.name))

    def dead_letters(self) -> list[DeadLetter]:
        """The events that it gave up on, in order."""
        self._store.check_usable()
        return self._store.engine.dead_letters(self.name)

    def replay(
        self, position: int, handle: Handler | None = None, *, in_transaction: bool | None = None
    ) -> None:
        """Call the handler for a dead letter, and remove it if that succeeds; what is not given is as in the last run."""
        self.perform(self.begin_replay(position, handle, in_transaction=in_transaction))

    def discard(self, position: int) -> None:
        """Remove a dead letter."""
        self._write(lambda tx: letters.discard(tx, self.name, position))

    def __repr__(self) -> str:
        return f"<Follower {self.name!r}>"

    # What follows is for the async facade.

    def begin_run(self, options: Options) -> Steps[int]:
        """The steps of a run."""
        options.check()
        self._store.check_writable()
        self._refuse_second_run()
        return self._steps(options)

    def _steps(self, options: Options) -> Steps[int]:
        self._refuse_second_run()
        leases = self._store.leases
        run = Run(self.kept, options, self._store.engine, leases, self.is_over)
        try:
            self._run, self._options = run, options
            leases.runs[run] = get_ident()
            return (yield from logged(self.name, run.steps()))
        finally:
            self._run, self._is_stopped = None, False
            leases.runs.pop(run, None)

    def _refuse_second_run(self) -> None:
        if self._run is not None:
            raise InvalidInput(
                f"this follower object runs already ({self.name!r})",
                hint="make another one for each runner: store.follower(name, query)",
            )

    def begin_lease(self, wish: Wish) -> Steps[Leased | None]:
        """The steps of a lease."""
        wish.check()
        self._store.check_writable()
        return Leasing(self.kept, wish, self._store.engine, self._store.leases, self.is_closed).steps()

    def begin_replay(
        self, position: int, handle: Handler | None, *, in_transaction: bool | None
    ) -> Steps[None]:
        """The steps of a replay."""
        self._store.check_writable()
        options = self._options
        chosen = options.handle if handle is None and options is not None else handle
        if chosen is None:
            raise InvalidInput("there is no handler to replay with", hint="follower.replay(position, handle)")
        last = options is None or options.in_transaction
        is_inside = last if in_transaction is None else in_transaction
        return letters.replay(self._store.engine, self.kept, position, chosen, is_inside=is_inside)

    def perform(self, steps: Steps[T]) -> T:
        """Take steps in this thread, until they are done or the run should end."""
        return drive_here(steps, self._store, self.is_over)

    def is_over(self) -> bool:
        """Whether a run should end."""
        return self._is_stopped or self._store.is_closed

    def is_closed(self) -> bool:
        """Whether the store was closed."""
        return self._store.is_closed

    def _opened(self, token: str) -> Token:
        self._store.check_writable()
        return token_of(token, self.name, self._store.leases.log_id)

    def _check_matches(self, position: int) -> None:
        """Raise if there is no such event, or not one of this follower."""
        events = self._store.engine.events_at([position])
        if not events:
            raise not_leased(position, "there is no such event")
        if self.kept.is_query_known and not self.query.matches(events[0]):
            raise not_leased(position, "the query does not match it")

    def _look(self) -> FollowerRow | None:
        return next(iter(self._store.engine.followers(self.name)), None)

    def _change(self, change: Callable[[FollowerRow], FollowerRow]) -> None:
        engine = self._store.engine
        self._write(lambda tx: tx.save(change(self.kept.found(tx, engine.head()))))

    def _write(self, work: Callable[[Transaction], T]) -> T:
        self._store.check_writable()
        outcome = self.perform(at_once(self._store.engine, work))
        self._store.leases.tell(self.name)
        return outcome
