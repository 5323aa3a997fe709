"""Leases: one process at a time runs a follower, and who lost its lease cannot commit."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from uuid import UUID, uuid4

import msgspec

from ..engine import Engine
from ..engine.following import FollowerRow, LeaseUse, Transaction
from ..engine.threads import Bell, join, start
from ..errors import StrandlineError

LEASE_SECONDS = 10.0
RENEWALS = 3  # in the time for which a lease is good
CHECKPOINT_SECONDS = 1.0
"""At least this often a checkpoint moves with the head, if nothing matches."""
END_SECONDS = 10.0
LOOK_SECONDS = 0.005


class LeaseLost(Exception):
    """Somebody else runs the follower now, or it was reset or paused."""


class Lease:
    """The right to run a follower. `use` is what a renewal tells; it is replaced as a whole, for two threads see it."""

    def __init__(self, row: FollowerRow) -> None:
        self.name = row.name
        self.seconds = row.lease / 1e6
        self.use = self._told = use_of(row)
        self.is_lost = False
        self.is_over = False
        self._told_at = self._renewed_at = time.monotonic()

    def held(self, tx: Transaction) -> FollowerRow:
        """The follower's row, locked until the transaction ends; raises if this lease is over."""
        return self.checked(tx.find(self.name))

    def checked(self, row: FollowerRow | None) -> FollowerRow:
        """The follower's row, if this lease is not over."""
        if row is None or row.epoch != self.use.epoch or row.is_paused:
            raise LeaseLost
        return row

    def renewed(self, row: FollowerRow, tx: Transaction) -> FollowerRow:
        """The row with a renewal, if it is time; a transaction that takes long keeps others from renewing it."""
        if time.monotonic() - self._renewed_at < self.seconds / RENEWALS:
            return row
        return msgspec.structs.replace(row, renewed_at=tx.now())

    def was_saved(self, row: FollowerRow) -> None:
        """The row is committed, after `renewed`."""
        self.use = self._told = use_of(row)
        self.is_lost = False
        self._told_at = time.monotonic()
        if self._told_at - self._renewed_at >= self.seconds / RENEWALS:
            self._renewed_at = self._told_at

    def looked_up_to(self, position: int, judged: int) -> None:
        """Nothing up to there matches. The next renewal says so."""
        self.use = msgspec.structs.replace(self.use, position=position, judged=judged)

    def look_at(self, row: FollowerRow | None, use: LeaseUse) -> None:
        """Notice that it is over, although nothing comes to be delivered. `use` was told before the row was read."""
        is_over = row is None or row.is_paused or row.epoch > use.epoch
        self.is_lost = self.is_lost or (is_over and self.use.epoch == use.epoch)

    def wants_renewal(self) -> bool:
        """Whether it is time to renew it, or to say how far it has looked."""
        now = time.monotonic()
        has_news = self.use != self._told and now - self._told_at >= CHECKPOINT_SECONDS
        return has_news or now - self._renewed_at >= self.seconds / RENEWALS

    def was_renewed(self, use: LeaseUse) -> None:
        """A renewal told this."""
        self._told = use
        self._told_at = self._renewed_at = time.monotonic()


Held = tuple[Lease, LeaseUse]


def taken(row: FollowerRow, owner: str, now: int, seconds: float) -> FollowerRow:
    """The row with a new lease."""
    return msgspec.structs.replace(
        row, epoch=row.epoch + 1, owner=owner, renewed_at=now, lease=int(seconds * 1e6), error=""
    )


def use_of(row: FollowerRow) -> LeaseUse:
    """What a row says itself."""
    return LeaseUse(row.name, row.epoch, row.position, row.judged)


class Leases:
    """The leases that a store holds. One thread renews them all, in one transaction, and notices what is over.

    It has no lock: each change is one call in C, which no interrupt can split. A lease that an interrupt kept from being
    marked as over is over with its run.
    """

    def __init__(self, engine: Engine, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._wake = wake
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._held: dict[Lease, object] = {}  # and the run that holds it
        self.runs: dict[object, int] = {}
        """The runs that go on, and their threads. A run enters itself and leaves, each with one call in C."""
        self._news: dict[str, object] = {}
        self._log_id: UUID | None = None
        self._has_leases = Bell()
        self._ends = Bell()
        self._is_closed = False
        self._renewer: threading.Thread | None = None

    @property
    def log_id(self) -> UUID:
        """The uuid of the log."""
        if self._log_id is None:
            self._log_id = self._engine.log_id()
        return self._log_id

    def tell(self, name: str) -> None:
        """Let consumers of this store that wait for the follower's events look at it."""
        self._news[name] = object()
        self._wake()

    def news(self, name: str) -> object:
        """Return the mark of what was told last."""
        return self._news.get(name)

    def add(self, lease: Lease, run: object) -> None:
        """Renew it from now on, until it or the run is over."""
        if self._renewer is None:
            self._renewer = start(self._keep_renewing, "strandline-leases")
        self._held[lease] = run
        self._has_leases.ring()

    def close(self) -> None:
        """Wait until runs in other threads, which were told to stop, have done so, but not for ever."""
        here, end = threading.get_ident(), time.monotonic() + END_SECONDS
        while any(thread != here for thread in list(self.runs.values())) and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        self._is_closed = True
        self._has_leases.ring()
        self._ends.ring()
        join(self._renewer)

    def _keep_renewing(self) -> None:
        while not self._is_closed:
            shortest = min((lease.seconds for lease, _ in self._still_held()), default=None)
            if shortest is None:
                self._has_leases.wait()
                continue
            self._ends.wait(min(CHECKPOINT_SECONDS, shortest / RENEWALS) / 2)
            # If it fails, the next time may do. If none does, another process takes over.
            with contextlib.suppress(StrandlineError):
                self._renew_and_look(self._still_held())

    def _still_held(self) -> list[Held]:
        """Return the leases that are not over, and what they tell. The others are dropped."""
        for lease, run in list(self._held.items()):
            if lease.is_over or run not in self.runs:
                self._held.pop(lease, None)
        return [(lease, lease.use) for lease in list(self._held)]

    def _renew_and_look(self, held: list[Held]) -> None:
        if not self._is_closed:
            self._renew([(lease, use) for lease, use in held if lease.wants_renewal()])
            self._look(held)

    def _renew(self, due: list[Held]) -> None:
        if not due:
            return
        tx = self._engine.transaction()
        try:
            tx.begin()
            renewed = tx.use_leases([use for _, use in due])
            tx.commit()
        finally:
            tx.end()
        for lease, use in due:
            if lease.name in renewed:
                lease.was_renewed(use)

    def _look(self, held: list[Held]) -> None:
        """Let a follower that waits know that it was paused, reset or taken."""
        rows = {row.name: row for row in self._engine.followers()}
        for lease, use in held:
            lease.look_at(rows.get(lease.name), use)
        if any(lease.is_lost for lease, _ in held):
            self._wake()
