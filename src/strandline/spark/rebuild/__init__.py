"""Making read models anew: executors fold the log, the live follower goes on from there, one transaction swaps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ...domain.projection import Projection
from ...engine.following import Transaction
from ...engine.open import DEFAULT_LOG
from ...errors import FollowerFailed, InvalidInput
from ...follow.blocking import Followed
from ...follow.lease import LEASE_SECONDS
from ...follow.models.filling import Bulk
from ...follow.models.listing import count_rows
from ...follow.models.making import Made
from ...follow.models.read_model import BATCH, ReadModel
from ...follow.models.rebuilding import rebuild as rebuild_steps
from ...store import connect
from ..active import in_any_thread
from ..failures import error_of, failures
from ..loading import Imported, imported
from ..reach import reachable
from ..session import session
from .job import Job, Target
from .parts import parts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Rebuilt(msgspec.Struct, frozen=True):
    """What a rebuild did. `events` counts what executors folded, once for each key; 0 if an earlier run had done that."""

    tables: tuple[str, ...]
    keys: int
    events: int
    head: int
    seconds: float


@in_any_thread
def rebuild(
    spark: SparkSession,
    url: str,
    projection: str | type[Projection] | Sequence[str | type[Projection]],
    table: str | Sequence[str],
    *,
    log: str = DEFAULT_LOG,
    lease: float = LEASE_SECONDS,
) -> Rebuilt:
    """Make the tables of read models anew from the whole log, while the old ones serve.

    Projections are import paths, `school:Course`; several, with as many tables, are folded in one pass over the log.
    Killed, it goes on where it was when it is called again, at the latest when the `lease` of the killed one is over.
    """
    began = time.monotonic()
    told, tables = _paired(projection, table)
    address = reachable(spark, url)
    models = [ReadModel(one.load(), table=name, lease=lease) for one, name in zip(told, tables, strict=True)]
    known = {model.projection: one for model, one in zip(models, told, strict=True)}
    with connect(address, log=log, create=False, decision_cache=0) as store:
        folding = SparkBulk(spark, store, known)
        pairs = [model.pair(store) for model in models]
        pairs[0].shadow.follower.perform(rebuild_steps(pairs, BATCH, folding))
        return Rebuilt(
            tuple(tables),
            sum(count_rows(store.engine, name) for name in tables),
            folding.events,
            min(model.status(store=store).position for model in models),
            time.monotonic() - began,
        )


def bulk(store: Followed) -> Bulk:
    """Who fills the tables for `ReadModel.rebuild(store, engine="spark")`: the session that runs, or one on this machine."""
    spark = session()
    reachable(spark, store.engine.url)
    return SparkBulk(spark, store)


class SparkBulk:
    """See `Bulk`."""

    def __init__(
        self, spark: SparkSession, store: Followed, known: Mapping[type[Projection], Imported] | None = None
    ) -> None:
        self._spark = spark
        self._engine = store.engine
        self._known = known or {}
        self._told: list[Any] = []
        self.events = 0

    def begin(self, shadows: Sequence[Made], tx: Transaction) -> None:
        parts_of(self._job(shadows)).begin(tx)

    def fold(self, shadows: Sequence[Made], head: int) -> None:
        told = self._folded(self._job(shadows), head)
        for row in told:
            if row.error is not None:
                raise error_of(row.error, row.message, row.hint)
        self._told = [row for row in told if row.attempt is not None]

    def finish(self, shadows: Sequence[Made], tx: Transaction) -> None:
        parts = parts_of(self._job(shadows))
        moved, told = parts.move(tx, [row.attempt for row in self._told]), sum(row.keys for row in self._told)
        if moved != told:
            raise FollowerFailed(
                f"executors have put {told} rows aside, and {moved} are there", hint="call it again"
            )
        parts.remove(tx)
        self.events = sum(row.events for row in self._told)

    def abandon(self, shadows: Sequence[Made], tx: Transaction) -> None:
        parts_of(self._job(shadows)).remove(tx)

    def _folded(self, job: Job, head: int) -> Sequence[Any]:
        """What the tasks told that folded the log up to a position."""
        from ..fold.buckets import bucketed
        from ..fold.table_function import arrow_function
        from .staging import TOLD, StageEvents

        function = arrow_function(type("Stage", (StageEvents,), {"job": job}), TOLD)
        with failures("fold the log", "look at what Spark logged, then call it again"):
            frame = bucketed(self._spark, job.url, job.folds, log=job.log, until=head)
            return function(frame.asTable()).collect()

    def _job(self, shadows: Sequence[Made]) -> Job:
        targets = [
            Target(self._known.get(made.projection) or imported(made.projection), made.model)
            for made in shadows
        ]
        return Job(self._engine.url, self._engine.log, targets)


def _paired(
    projection: str | type[Projection] | Sequence[str | type[Projection]], table: str | Sequence[str]
) -> tuple[list[Imported], list[str]]:
    """Projections and their tables, one or several."""
    projections = [projection] if isinstance(projection, (str, type)) else list(projection)
    tables = [table] if isinstance(table, str) else list(table)
    if not projections or len(projections) != len(tables) or len({*tables}) < len(tables):
        raise InvalidInput(
            f"{len(projections)} projections do not go into {len(tables)} tables",
            hint='give each a table of its own: ["school:Course", "school:Student"], ["courses", "students"]',
        )
    return [imported(one) for one in projections], tables
