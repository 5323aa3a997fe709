"""Read models: what users call."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, Literal, TypeVar, cast, overload

from ...append import check_position
from ...domain.drive import drive_async
from ...domain.projection import Projection
from ...domain.shape import shape_of
from ...errors import FollowerFailed, InvalidInput
from ...tag_id import IdValue
from ..asynchronous import AsyncFollowed, AsyncSteps
from ..beside import AsyncBeside
from ..blocking import Followed
from ..lease import LEASE_SECONDS
from ..status import FollowerStatus
from ..steps import INTERRUPTS, Steps
from ..worker import Worker
from .asking import ask, look, prepare, run, wait
from .filling import bulk_of
from .making import ATTEMPTS, Made
from .rebuilding import Pair, rebuild
from .table import table_name

P = TypeVar("P", bound=Projection)
T = TypeVar("T")
Store = Followed | AsyncFollowed

RebuildEngine = Literal["process", "spark"]
Into = str | os.PathLike[str] | None

BATCH = 1_000


class ReadModel(Generic[P]):
    """A projection as a SQL table in the log's database: one row per key, kept live by a follower.

    `courses = ReadModel(Course, table="courses")`, then `courses.run(store)` in some process and `courses.get("c1")`
    in any that has called `courses.use(store)`. With an `AsyncEventStore` every answer is to be awaited.
    """

    def __init__(self, projection: type[P], *, table: str, lease: float = LEASE_SECONDS) -> None:
        table_name(table)
        if not isinstance(projection, type) or not issubclass(projection, Projection):
            raise InvalidInput(
                f"a read model is made of a projection, not of {projection!r:.80}",
                hint='write ReadModel(Course, table="courses")',
            )
        if not shape_of(projection).key:
            raise InvalidInput(
                f"{projection.__name__} has no key, and so no rows",
                hint="give it a TagId field, or use store.project",
            )
        self.projection = projection
        self.table = table
        self._lease = lease
        self._store: Store | None = None
        self._made: Made | None = None

    def use(self, store: Store, *, into: Into = None) -> None:
        """Answer from the table in this store's database; `run` and the like do that too.

        `into="local.db"` is the database of the table and its checkpoint instead. Over HTTP there is no other way.
        """
        if into is not None:
            store = _beside(store, into)
        if store is not self._store:
            self._made = self._in(store)
            self._store = store

    @overload
    def run(
        self, store: Followed, batch: int = BATCH, *, until: int | None = None, into: Into = None
    ) -> int: ...
    @overload
    def run(
        self, store: AsyncFollowed, batch: int = BATCH, *, until: int | None = None, into: Into = None
    ) -> Awaitable[int]: ...
    def run(self, store: Store, batch: int = BATCH, *, until: int | None = None, into: Into = None) -> Any:
        """Keep the table live until `stop`, or until it has seen the position `until`; returns the checkpoint.

        Of all who run it, in any process, one does. The table is made if need be. See `use` for `into`.
        """
        self.use(store, into=into)
        made = self._used
        return self._take(run(made, batch, lambda: until), made)

    @overload
    def catch_up(self, store: Followed, batch: int = BATCH, *, into: Into = None) -> int: ...
    @overload
    def catch_up(self, store: AsyncFollowed, batch: int = BATCH, *, into: Into = None) -> Awaitable[int]: ...
    def catch_up(self, store: Store, batch: int = BATCH, *, into: Into = None) -> Any:
        """Like `run`, until the present head is reached."""
        self.use(store, into=into)
        made = self._used
        return self._take(run(made, batch, made.engine.head), made)

    def worker(self, store: Followed, *, into: Into = None) -> Worker:
        """What keeps the table live, to be run with others: by `strandline run`. The table is made if need be."""
        self.use(store, into=into)
        worker = ModelWorker(self._used)
        obstacle = None if is_collecting.get() else worker.obstacle()
        if obstacle is not None:
            raise obstacle
        return worker

    def stop(self) -> None:
        """End the run, from any thread; if none goes on, the next one ends."""
        self._used.follower.stop()

    @overload
    def rebuild(self, store: Followed, batch: int = BATCH, *, engine: RebuildEngine = ...) -> bool: ...
    @overload
    def rebuild(
        self, store: AsyncFollowed, batch: int = BATCH, *, engine: RebuildEngine = ...
    ) -> Awaitable[bool]: ...
    def rebuild(self, store: Store, batch: int = BATCH, *, engine: str = "process") -> Any:
        """Make the table anew from the whole log while the old one serves, then swap them in one transaction.

        With `engine="spark"` executors fold what is there, and this process only what is new since. Killed, it goes
        on where it was when it is called again. True when the new table is in place.
        """
        self.use(store)
        pair = self.pair(store)
        bulk = bulk_of(engine, _plain(store))
        return self._take(rebuild([pair], batch, bulk), pair.shadow)

    def pair(self, store: Store) -> Pair:
        """What a rebuild works on."""
        return Pair(self._in(store), self._in(store, is_shadow=True))

    @overload
    def status(self, *, store: Followed | None = None) -> FollowerStatus: ...
    @overload
    def status(self, *, store: AsyncFollowed) -> Awaitable[FollowerStatus]: ...
    def status(self, *, store: Store | None = None) -> Any:
        """How its follower is: state, checkpoint, lag."""
        made = self._in(store or self._used_store)
        return self._take(look(made.follower.status), made, store)

    @overload
    def get(self, *key: IdValue, store: Followed | None = None) -> P | None: ...
    @overload
    def get(self, *key: IdValue, store: AsyncFollowed) -> Awaitable[P | None]: ...
    def get(self, *key: IdValue, store: Store | None = None) -> Any:
        """The state of a key as the table has it, None if there is no row."""
        made = self._in(store or self._used_store)
        values = tuple(str.__str__(value) for value in self.projection(*key)._key())
        return self._take(ask(made, partial(made.table.get, made.engine, values)), made, store)

    @overload
    def find(
        self,
        where: str = "",
        parameters: Sequence[Any] = (),
        *,
        order_by: str = "",
        limit: int | None = None,
        store: Followed | None = None,
    ) -> list[P]: ...
    @overload
    def find(
        self,
        where: str = "",
        parameters: Sequence[Any] = (),
        *,
        order_by: str = "",
        limit: int | None = None,
        store: AsyncFollowed,
    ) -> Awaitable[list[P]]: ...
    def find(
        self,
        where: str = "",
        parameters: Sequence[Any] = (),
        *,
        order_by: str = "",
        limit: int | None = None,
        store: Store | None = None,
    ) -> Any:
        """The states of the rows for which `where` holds: SQL with the placeholders of the database."""
        made = self._in(store or self._used_store)
        question = partial(made.table.find, made.engine, where, parameters, order_by, limit)
        return self._take(ask(made, question), made, store)

    @overload
    def wait_for(self, position: int, timeout: float = ..., *, store: Followed | None = None) -> None: ...
    @overload
    def wait_for(self, position: int, timeout: float = ..., *, store: AsyncFollowed) -> Awaitable[None]: ...
    def wait_for(self, position: int, timeout: float = 10.0, *, store: Store | None = None) -> Any:
        """Return when the table has seen everything up to a position; `Unavailable` if that takes too long."""
        made = self._in(store or self._used_store)
        steps = wait(made, check_position(position, "the position to wait for"), timeout)
        return self._take(steps, made, store)

    def __repr__(self) -> str:
        return f"<ReadModel {self.projection.__name__} in {self.table!r}>"

    @property
    def _used_store(self) -> Store:
        if self._store is None:
            raise InvalidInput(
                f"{self!r} does not know its store yet", hint="call model.use(store), or pass store=store"
            )
        return self._store

    @property
    def _used(self) -> Made:
        assert self._used_store is not None
        return cast("Made", self._made)

    def _in(self, store: Store, *, is_shadow: bool = False) -> Made:
        followed = _plain(store)
        followed.check_usable()
        return Made(followed, self.projection, self.table, lease=self._lease, is_shadow=is_shadow)

    def _take(self, steps: Steps[T], made: Made, store: Store | None = None) -> Any:
        chosen = store or self._used_store
        if _is_async(chosen):
            take = AsyncSteps(cast("AsyncFollowed", chosen), made.follower.is_over).take
            return drive_async(steps, take, errors=INTERRUPTS)
        return made.follower.perform(steps)


class ModelWorker(Worker):
    """Keeps the table of a read model live."""

    def __init__(self, made: Made) -> None:
        super().__init__(made.follower, made.fold, BATCH, attempts=ATTEMPTS, on_failure="stop")
        self._made = made

    def obstacle(self) -> FollowerFailed | None:
        """Make the table if need be. Return why it cannot be used: it was made by another version, or is gone."""
        try:
            self._made.follower.perform(prepare(self._made))
        except FollowerFailed as error:
            return error
        return None


is_collecting: ContextVar[bool] = ContextVar("workers_are_collected", default=False)
"""Whether the workers of an application are collected to be run together. Then one with an obstacle stops no other."""


def _is_async(store: Store) -> bool:
    return hasattr(store, "in_thread")


def _beside(store: Store, into: str | os.PathLike[str]) -> Store:
    beside = _plain(store).beside(into)
    return AsyncBeside(cast("AsyncFollowed", store), beside) if _is_async(store) else beside


def _plain(store: Store) -> Followed:
    return cast("AsyncFollowed", store).store if _is_async(store) else cast("Followed", store)
