"""Leases of events: a consumer anywhere takes the next events, and acknowledges them with a token.

The fence is the epoch of the follower's row, as for a run: of all consumers and runs, one has the present epoch.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from uuid import UUID

import msgspec

from ..engine import Engine, Page, Span
from ..engine.following import FollowerRow, Transaction
from ..engine.lists import in_lists
from ..engine.retags import concerning_retag
from ..errors import FollowerFailed, InvalidInput, StrandlineError
from ..event import SequencedEvent, from_microseconds
from ..names import MAX_POSITION
from .delivery import restored, retag_changed
from .lease import CHECKPOINT_SECONDS, Leases, taken
from .options import Kept, check_count, check_lease, plain
from .steps import Look, Steps, Wait, at_once
from .token import Token, mark_of, new_secret

LOOK_SECONDS = 1.0
"""How long a consumer that waits may not notice what another process does to the follower."""
HELD_SECONDS = 0.5
"""The same, while the lease is not to be had."""
SHORTEST_SECONDS = 0.01


class Leased(msgspec.Struct, frozen=True):
    """Events that one consumer has until `expires`, by the clock of the log.

    `position` is the checkpoint when all of them are acknowledged. `token` is what to acknowledge them with.
    """

    events: list[SequencedEvent]
    position: int
    token: str
    expires: datetime


class Wish(msgspec.Struct, frozen=True):
    """What a consumer asks for."""

    batch: int
    wait: float
    seconds: float

    def check(self) -> None:
        """Refuse what makes no sense."""
        check_count(self.batch, "batch")
        check_lease(self.seconds)
        if isinstance(self.wait, bool) or not isinstance(self.wait, (int, float)) or not self.wait >= 0:
            raise InvalidInput(
                f"wait is a number of seconds from 0, not {self.wait!r:.40}", hint="leave it out, or wait=20"
            )


class Leasing:
    """One call of `lease`. It takes the row when there are events, and only looks until then."""

    def __init__(
        self, kept: Kept, wish: Wish, engine: Engine, leases: Leases, is_over: Callable[[], bool]
    ) -> None:
        self._kept = kept
        self._wish = wish
        self._engine = engine
        self._leases = leases
        self._is_over = is_over
        # The row as the log has it, and the same moved beyond what does not match.
        self._row = self._ahead = FollowerRow(kept.name, "", 0, 0, 0)
        self._saved_at = time.monotonic()
        self._log = UUID(int=0)
        self._taken: FollowerRow | None = None

    def steps(self) -> Steps[Leased | None]:
        """Take the next events, as soon as there are some and nobody else has the lease."""
        end = time.monotonic() + self._wish.wait
        while not self._is_over():
            news = self._leases.news(self._kept.name)
            pause = yield from self._look()
            page = None if pause else (yield from self._next_page())
            if page is not None:
                leased = yield from self._take(page)
                if leased is not None:
                    return leased
                continue  # somebody was quicker
            left = end - time.monotonic()
            if left <= 0:
                break
            after = MAX_POSITION if pause else self._ahead.position
            yield Wait(after, min(left, pause or LOOK_SECONDS), partial(self._has_news, news))
        yield from self._save_progress()
        return None

    def _has_news(self, last: object) -> bool:
        return self._leases.news(self._kept.name) is not last

    def _look(self) -> Steps[float]:
        """Look at the row. Returns how long to wait before the next look; 0 if its events may be leased."""
        row, now, self._log = yield Look(self._find)
        if row is None:
            row = yield from at_once(self._engine, lambda tx: self._kept.found(tx, self._engine.head()))
        self._kept.check(row)
        if row != self._row:
            self._row = self._ahead = row
        if row.is_held(now):
            left: float = (row.renewed_at + row.lease - now) / 1e6
            return min(max(left, SHORTEST_SECONDS), HELD_SECONDS)
        return HELD_SECONDS if row.is_paused else 0.0

    def _find(self) -> tuple[FollowerRow | None, int, UUID]:
        row = next(iter(self._engine.followers(self._kept.name)), None)
        return row, self._engine.now(), self._leases.log_id

    def _next_page(self) -> Steps[Page | None]:
        """The next page with events. What is before them does not match."""
        while not self._is_over():
            try:
                page: Page = yield Look(self._read, "long" if self._kept.query.has_where else "page")
            except FollowerFailed as error:
                yield from self._save_error(error)
                raise
            if page.events:
                return page
            self._ahead = msgspec.structs.replace(self._ahead, position=_end_of(page), judged=page.head)
            if page.rest is None:
                break
            if time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
                yield from self._save_progress()
        return None

    def _read(self) -> Page:
        """Read on, and see that no retag has changed what was passed."""
        row, query = self._ahead, self._kept.query
        page = self._engine.read_page(query, Span(row.position), self._wish.batch)
        if page.head < row.position:
            raise restored(row.name, row.position, page.head)
        passed = row.start, row.position
        retag = concerning_retag(self._engine, query, passed, row.judged, page.head)
        if retag is not None:
            raise retag_changed(
                row.name,
                retag,
                row.position,
                hint="let it begin again: follower.reset(0). What consumers made of its events is not undone",
            )
        return page

    def _take(self, page: Page) -> Steps[Leased | None]:
        """Take the lease; None if the row is not as it was."""
        try:
            return (yield from at_once(self._engine, partial(self._lease, page)))
        except GeneratorExit:
            raise
        except BaseException:  # nobody will get the token
            yield from self._let_go()
            raise

    def _lease(self, page: Page, tx: Transaction) -> Leased | None:
        now = tx.now()
        if tx.find(self._kept.name) != self._row or self._row.is_held(now):
            return None
        events = next(in_lists(page.events))
        is_whole = len(events) == len(page.events)
        position = _end_of(page) if is_whole else events[-1].position
        secret = new_secret()
        row = msgspec.structs.replace(self._ahead, judged=page.head)
        row = taken(row, f"{self._leases.owner}:{mark_of(secret)}", now, self._wish.seconds)
        self._taken = row
        tx.save(row)
        token = Token(row.name, row.epoch, events[-1].position, position, secret)
        text = token.text(self._log)
        return Leased(events, position, text, from_microseconds(row.renewed_at + row.lease))

    def _let_go(self) -> Steps[None]:
        taken_row = self._taken

        def release(tx: Transaction) -> None:
            if taken_row is not None and tx.find(taken_row.name) == taken_row:
                tx.save(msgspec.structs.replace(taken_row, owner=""))

        if taken_row is not None:
            with contextlib.suppress(StrandlineError):  # then it will expire
                yield from at_once(self._engine, release)

    def _save_progress(self) -> Steps[None]:
        """Keep how far it has looked, so that the next one need not look again."""
        yield from self._save(self._ahead)

    def _save_error(self, error: FollowerFailed) -> Steps[None]:
        """Let the status say why no events can be leased."""
        yield from self._save(msgspec.structs.replace(self._ahead, error=plain(str(error))))

    def _save(self, row: FollowerRow) -> Steps[None]:
        """Keep a row that is further, unless somebody has changed it."""
        before = self._row

        def save(tx: Transaction) -> None:
            if tx.find(row.name) == before:
                tx.save(row)

        self._saved_at = time.monotonic()
        if row != before:
            with contextlib.suppress(StrandlineError):
                yield from at_once(self._engine, save)
                self._row = self._ahead = row


def _end_of(page: Page) -> int:
    return page.head if page.rest is None else page.rest.after
