"""A read model in one log: its table, made for the first time, and the follower that fills it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import msgspec

from ...domain.projection import Projection
from ...domain.shape import shape_of
from ...domain.snapshot import version_of
from ...engine import Engine
from ...engine.following import FollowerRow, Transaction
from ...errors import FollowerFailed, InvalidInput
from ...event import SequencedEvent
from ...names import RETAGGED
from ...query import Query
from ..blocking import Followed
from ..follower import Follower
from ..options import MAKE_ANEW, Options, kept_of
from ..steps import Steps
from .folding import Folding
from .table import SHADOW, dialect_of, table_of

LAYOUT = 1
"""Grows when the same projection gets other columns."""
ATTEMPTS = 3
MODEL, REBUILD = "model:", "rebuild:"
"""How the names of their followers begin."""


class Made:
    """A read model in one log: its table, the follower that fills it, and the handler."""

    def __init__(
        self,
        store: Followed,
        projection: type[Projection],
        table: str,
        *,
        lease: float,
        is_shadow: bool = False,
    ) -> None:
        cls: Any = projection
        self.projection = projection
        self.model = table  # the name of the table that serves
        self.engine: Engine = store.engine
        self.leases = store.leases
        self.table = table_of(f"{table}{SHADOW}" if is_shadow else table, cls, dialect_of(store.engine))
        self.query = Query.types(*sorted(shape_of(projection).handlers), RETAGGED)
        name, version = f"{REBUILD if is_shadow else MODEL}{table}", f"{LAYOUT}-{version_of(cls)}"
        self.follower = Follower(store, kept_of(name, self.query, after=0, lease=lease, version=version))
        self._is_shadow = is_shadow
        self.fold = Folding(projection, self.table, store.engine)

    @property
    def name(self) -> str:
        """The name of the follower."""
        return self.follower.name

    def row(self) -> FollowerRow | None:
        """The follower's row, if the table is there and of this version."""
        row = next(iter(self.engine.followers(self.name)), None)
        if row is not None:
            self.follower.kept.check(row)
        return row

    def check_table(self) -> None:
        """Raise if the follower has filled a table that is not there any more."""
        if self.table.is_missing(self.engine):
            raise FollowerFailed(
                f"the table {self.table.name!r} is gone: it was dropped, or the log was restored without it",
                hint=MAKE_ANEW,
            )

    def refill(self, found: Sequence[SequencedEvent], tx: Transaction) -> None:
        """The handler of a shadow table, which somebody else may have put in place meanwhile: then it begins again."""
        if not self.table.exists(tx):
            row = tx.find(self.name)
            if row is None or row.position:
                raise FollowerFailed(
                    f"the table {self.table.name!r} is gone", hint="call model.rebuild(store) again"
                )
            self.create(tx)
        self.fold(found, tx)

    def run(self, batch: int, until: int | None) -> Steps[int]:
        """Keep the table live. An event that cannot be folded ends that: to pass over it would falsify the rest."""
        options = Options(
            self.refill if self._is_shadow else self.fold, batch, until, ATTEMPTS, on_failure="stop"
        )
        return self.follower.begin_run(options)

    def prepare(self, tx: Transaction) -> None:
        """Make the table, unless it is there."""
        row = self.found_or_new(tx)
        if row is not None:
            self.follower.kept.check(row)
        else:
            self.make(tx)

    def found_or_new(self, tx: Transaction) -> FollowerRow | None:
        """The follower's row, locked; None if it is new: of those who come at once, one made it."""
        token = uuid4().hex
        new = msgspec.structs.replace(self.follower.kept.row(0), owner=token)
        tx.create(new)
        row = tx.find(self.name)
        if row is None or row.owner != token:
            return row
        tx.save(msgspec.structs.replace(row, owner=""))
        return None

    def make(self, tx: Transaction) -> None:
        """Make the table where there is none."""
        if self.table.exists(tx):
            raise InvalidInput(
                f"there is a table {self.table.name!r} already, which is not that of this read model",
                hint="give the read model another table, or remove that one if nobody needs it",
            )
        self.create(tx)

    def create(self, tx: Transaction) -> None:
        """Make the table, to be filled from the first event on."""
        self.table.create(tx)
        self.fold.tags_since = self.engine.head()
