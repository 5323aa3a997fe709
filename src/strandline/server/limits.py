"""What of a log a caller sees: a store that is limited to the events with one tag, or that shows no events.

Calls take the place of the store's. A method that is not here does not exist for such a caller, so that a new route is
refused until it has its place here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NoReturn, cast
from uuid import UUID

import msgspec

from ..aio import AsyncEventStore, AsyncRead
from ..append import AppendCondition, AppendRequest, AppendResult, Check
from ..errors import AppendConditionFailed, EventIdConflict, Forbidden, NotFound, StrandlineError
from ..event import SequencedEvent
from ..follow import AsyncFollower, Leased
from ..names import RETAGGED
from ..query import Query, QueryItem
from ..subscription import AsyncSubscription
from .callers import Caller
from .logs import Logs, no_log

MOST_POSITIONS = 1_000
_NO_CHANGES = b'{"changes":[]}'


async def open_log(logs: Logs, name: str, caller: Caller) -> AsyncEventStore:
    """Return the store of a log as a caller sees it. To others it does not exist."""
    if not caller.may_see(name):
        raise no_log(name)
    return view_of(await logs.store(name), caller)


def view_of(store: AsyncEventStore, caller: Caller) -> AsyncEventStore:
    """Return the store as a caller sees it."""
    seen: Any = store
    if caller.tag is not None:
        seen = StoreOfTag(store, caller.tag)
    if not caller.allows("read"):
        seen = StoreUnseen(seen)
    return cast(AsyncEventStore, seen)


class StoreOfTag:
    """A store of the events with a tag. Reads leave out all others, changes of others are refused."""

    def __init__(self, store: AsyncEventStore, tag: str) -> None:
        self._store = store
        self._tag = tag
        self._query = Query.tag(tag)
        self._kind = tag.partition(":")[0] + ":" if ":" in tag else None

    def __getattr__(self, name: str) -> NoReturn:
        raise self.refusal("this request is about the whole log")

    @property
    def max_data_bytes(self) -> int:
        """See `AsyncEventStore.max_data_bytes`."""
        return self._store.max_data_bytes

    def read(self, query: Query | None = None, **span: Any) -> AsyncRead:
        """See `AsyncEventStore.read`."""
        return self._store.read(self._own(query), **span)

    def subscribe(self, query: Query | None = None, *, after: int = 0) -> AsyncSubscription:
        """See `AsyncEventStore.subscribe`."""
        return self._store.subscribe(self._own(query), after=after)

    async def exists(self, query: Query, after: int = 0) -> bool:
        """See `AsyncEventStore.exists`."""
        return await self._store.exists(self._own(query), after)

    async def count(self, query: Query | None = None, after: int = 0) -> int:
        """See `AsyncEventStore.count`."""
        return await self._store.count(self._own(query), after)

    async def event(self, which: int | UUID) -> SequencedEvent:
        """See `AsyncEventStore.event`. Events without the tag are not there."""
        event = await self._store.event(which)
        if self._tag not in event.tags:
            raise _not_there(which)
        return event

    async def head(self) -> int:
        """See `AsyncEventStore.head`."""
        return await self._store.head()

    async def position_at(self, when: datetime) -> int:
        """See `AsyncEventStore.position_at`."""
        return await self._store.position_at(when)

    async def stats(self) -> Any:
        """See `AsyncEventStore.stats`. What is counted over all events is left at 0."""
        stats = await self._store.stats()
        return msgspec.structs.replace(stats, appends=0, refused=0, types=0, tags=0, size_bytes=0)

    async def check(self, condition: AppendCondition, *, conflicts: int = 20) -> Check:
        """See `AsyncEventStore.check`."""
        self._check_condition(condition)
        check = await self._store.check(condition, conflicts=conflicts)
        return msgspec.structs.replace(
            check,
            conflict=None if check.conflict is None else _own_of_retag(check.conflict),
            conflicts=tuple(map(_own_of_retag, check.conflicts)),
        )

    async def append(
        self,
        events: Any,
        condition: AppendCondition | None = None,
        *,
        stream: str | None = None,
        unless_exists: Query | None = None,
        tracking: tuple[str, int] | None = None,
    ) -> AppendResult:
        """See `AsyncEventStore.append`."""
        request = AppendRequest(events, condition, stream, unless_exists, tracking)
        self._check_request(request)
        try:
            return await self._store.append(
                request.events, condition, stream=stream, unless_exists=unless_exists
            )
        except StrandlineError as error:
            raise _own_of_refusal(error) from None

    async def append_many(self, requests: Iterable[AppendRequest]) -> list[AppendResult | StrandlineError]:
        """See `AsyncEventStore.append_many`. A request that is refused here does not keep the others back."""
        outcomes: list[AppendResult | StrandlineError | AppendRequest] = [
            self._checked(request) for request in requests
        ]
        allowed = [outcome for outcome in outcomes if isinstance(outcome, AppendRequest)]
        answers = iter(await self._store.append_many(allowed) if allowed else ())
        return [
            _own_of_outcome(next(answers)) if isinstance(outcome, AppendRequest) else outcome
            for outcome in outcomes
        ]

    async def retag(
        self,
        query_or_positions: Query | Iterable[int],
        *,
        add: Iterable[str] = (),
        replace: Mapping[Any, Iterable[Any]] | None = None,
    ) -> AppendResult:
        """See `AsyncEventStore.retag`."""
        self._check_new_tags([*add], replace or {})
        if isinstance(query_or_positions, Query):
            self._check_query(query_or_positions, "the query of a retag")
            query = query_or_positions
        else:
            query = await self._query_of_positions([*query_or_positions])
        return await self._store.retag(query, add=add, replace=replace)

    def follower(self, name: str, query: Query | None = None, after: int = 0) -> FollowerOfTag:
        """See `AsyncEventStore.follower`."""
        self._check_query(Query.all() if query is None else query, "the query of a lease")
        return FollowerOfTag(self, self._store.follower(name, query, after))

    async def find_follower(self, name: str) -> FollowerOfTag:
        """See `AsyncEventStore.find_follower`. Those of others are not told from those that are not there."""
        try:
            follower = await self._store.find_follower(name)
        except NotFound:
            follower = None
        if follower is None or not self._is_own(follower.query):
            raise self.refusal(f"no follower {name!r} reads events with it only")
        return FollowerOfTag(self, follower)

    async def check_name(self, name: str) -> None:
        """Raise if a follower of others has a name."""
        with contextlib.suppress(NotFound):
            if not self._is_own((await self._store.find_follower(name)).query):
                raise self.refusal(f"the follower {name!r} belongs to others")

    async def close(self) -> None:
        """Leave the store open, which others use."""

    def _own(self, query: Query | None) -> Query:
        return self._query if query is None else query & self._query

    def _checked(self, request: AppendRequest) -> AppendRequest | Forbidden:
        try:
            self._check_request(request)
        except Forbidden as error:
            return error
        return request

    def _check_request(self, request: AppendRequest) -> None:
        for number, event in enumerate(request.events):
            if self._tag not in event.tags:
                raise self.refusal(f"event {number} of the append does not carry it")
            self._check_tags(event.tags)
        if request.condition is not None:
            self._check_condition(request.condition)
        if request.unless_exists is not None:
            self._check_query(request.unless_exists, "unless_exists")
        if request.tracking is not None:
            raise self.refusal("the positions of sources are those of the whole log")

    def _check_condition(self, condition: AppendCondition) -> None:
        for part in condition.parts:
            self._check_query(part.fail_if_events_match, "the condition")

    def _check_query(self, query: Query, name: str) -> None:
        if not self._is_own(query):
            raise self.refusal(f"{name} has an item without it")

    def _is_own(self, query: Query) -> bool:
        return all(self._tag in item.tags for item in query.items)

    def _check_tags(self, tags: Iterable[str]) -> None:
        """Refuse tags with which an event would belong to others."""
        for tag in tags:
            if self._kind is not None and tag != self._tag and tag.startswith(self._kind):
                raise self.refusal(f"the tag {tag!r} belongs to others")

    def _check_new_tags(self, add: list[str], replace: Mapping[Any, Iterable[Any]]) -> None:
        self._check_tags(add)
        for prefix, values in replace.items():
            if self._tag.startswith(f"{prefix}:"):
                raise self.refusal("a retag may not take it away")
            self._check_tags(f"{prefix}:{value}" for value in values)

    async def _query_of_positions(self, positions: list[int]) -> Query:
        """Return the query of the events at some positions, as long as they carry the tag.

        A retag by positions would also take those that lose the tag before it comes to them.
        """
        if len(positions) > MOST_POSITIONS:
            raise self.refusal(f"a retag takes at most {MOST_POSITIONS:,} positions, or a query")
        kinds: dict[tuple[str, tuple[str, ...]], None] = {}
        for position in positions:
            try:
                event = await self.event(position)
            except NotFound as error:
                raise self.refusal(f"event {position} does not carry it") from error
            kinds[event.type, event.tags] = None
        wanted = frozenset(positions)

        def is_wanted(event: SequencedEvent) -> bool:
            return event.position in wanted

        return Query(QueryItem([type], tags, where=is_wanted) for type, tags in kinds)

    def refusal(self, reason: str) -> Forbidden:
        """Return the error for what the tag does not allow."""
        return Forbidden(
            f"the token is limited to events with the tag {self._tag!r}: {reason}",
            hint="use a token without that limit, or give events and every item of a query the tag",
        )


class FollowerOfTag:
    """A follower of the events with a tag. It gives leases, and nothing else."""

    def __init__(self, store: StoreOfTag, follower: AsyncFollower) -> None:
        self._store = store
        self._follower = follower

    def __getattr__(self, name: str) -> NoReturn:
        raise self._store.refusal("this request is about the whole log")

    async def lease(self, batch: int, *, wait: float, seconds: float) -> Leased | None:
        """See `AsyncFollower.lease`."""
        await self._store.check_name(self._follower.name)
        return await self._follower.lease(batch, wait=wait, seconds=seconds)

    async def ack(self, token: str, position: int | None = None) -> int:
        """See `AsyncFollower.ack`."""
        return await self._follower.ack(token, position)

    async def give_up(self, token: str, position: int, error: str) -> int:
        """See `AsyncFollower.give_up`."""
        return await self._follower.give_up(token, position, error)


class StoreUnseen:
    """A store whose events a caller without `read` does not see, only positions, types and ids of conflicts."""

    def __init__(self, store: AsyncEventStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def check(self, *arguments: Any, **options: Any) -> NoReturn:
        """Refuse to show conflicts."""
        raise Forbidden("the token lacks the scope 'read'", hint="use a token that has it")

    async def append(self, *arguments: Any, **options: Any) -> AppendResult:
        """See `AsyncEventStore.append`."""
        try:
            return await self._store.append(*arguments, **options)
        except AppendConditionFailed as error:
            raise _unseen(error) from None

    async def append_many(self, requests: Iterable[AppendRequest]) -> list[AppendResult | StrandlineError]:
        """See `AsyncEventStore.append_many`."""
        outcomes = await self._store.append_many(requests)
        return [
            _unseen(outcome) if isinstance(outcome, AppendConditionFailed) else outcome
            for outcome in outcomes
        ]


def _not_there(which: int | UUID) -> NotFound:
    """Return the error for an event that is not there for a caller: the same as for one that does not exist."""
    name = f"at position {which}" if isinstance(which, int) else f"with the id {which}"
    return NotFound(f"there is no event {name}", hint="positions are 1 to store.head(); ids are UUIDs")


def _own_of_outcome(outcome: AppendResult | StrandlineError) -> AppendResult | StrandlineError:
    return _own_of_refusal(outcome) if isinstance(outcome, StrandlineError) else outcome


def _own_of_refusal(error: StrandlineError) -> StrandlineError:
    """Return the error without what it tells of the events of others."""
    if isinstance(error, EventIdConflict):
        return EventIdConflict(
            "an id is taken, or twice in this append, and it is no repeat of an earlier one"
        )
    if isinstance(error, AppendConditionFailed):
        return AppendConditionFailed(conflict=_own_of_retag(error.conflict), part=error.part, hint=error.hint)
    return error


def _own_of_retag(event: SequencedEvent) -> SequencedEvent:
    """Return a conflict. Of a retag only that there was one: it lists the events of others, too."""
    return msgspec.structs.replace(event, data=_NO_CHANGES) if event.type == RETAGGED else event


def _unseen(error: AppendConditionFailed) -> AppendConditionFailed:
    conflict = msgspec.structs.replace(
        error.conflict, data=b"null", raw_tags="", stream=None, subject=None, raw_metadata=None
    )
    return AppendConditionFailed(conflict=conflict, part=error.part, hint=error.hint)
