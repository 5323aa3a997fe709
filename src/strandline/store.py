"""The store: the one thing users connect to."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, ParamSpec, Self, TypedDict, TypeVar, TypeVarTuple, Unpack, overload
from uuid import UUID

import msgspec

from .activity import AT_WORK, CLOSING, current, doing, refuse_calls, refuse_writes
from .append import (
    MAX_DATA_BYTES,
    AnyEvent,
    AppendCondition,
    AppendRequest,
    AppendResult,
    Check,
    RecordedAppend,
    check_condition,
    check_max_data_bytes,
    check_position,
    check_size,
)
from .domain import decide, explain, untyped
from .domain.cache import DEFAULT_STATES, DecisionCache, check_states
from .domain.command import ATTEMPTS, Command, Executed, bind
from .domain.drive import drive
from .domain.explain import Explanation
from .domain.missing_tags import tell
from .domain.projection import Projection
from .domain.steps import (
    Answer,
    Append,
    Ask,
    Pause,
    ReadEvents,
    Step,
    Steps,
    TellMissingTags,
)
from .domain.unit import Boundary
from .domain.untyped import Decide, DecideOptions, DecideValue, Route, TagWith
from .engine import Clock, Engine, Page, Span, Stats
from .engine.deadline import Deadline, check_read_seconds
from .engine.open import DEFAULT_LOG, open_engine, place_of, refuse_options
from .engine.rules import LOCK_SECONDS, check_lock_timeout
from .engine.sequencer import Sequencer
from .engine.tail import Tail
from .engine.watch import HeadWatch
from .errors import InvalidInput, StoreClosed, StrandlineError
from .event import SequencedEvent, to_microseconds
from .follow import Follower, FollowerStatus, Worker
from .follow.automation import Automation, Decision, Ignored, blocking, run_options
from .follow.beside import Beside
from .follow.blocking import Followed
from .follow.lease import LEASE_SECONDS, Leases
from .follow.options import found_in, kept_of
from .follow.outbox import Publisher, follower_name, handler_of, options_of
from .follow.status import status_of
from .follow.worker import RunOptions
from .inspection import Inspection
from .names import check_flag, check_source
from .query import Query
from .reading import (
    ALL_IN_ONE_PAGE,
    NEXT_PAGES,
    Read,
    check_limit,
    check_most,
    check_query,
    check_span,
    event_of,
    first_size,
    next_appends,
    query_or_all,
)
from .retag import Replacements, Retag
from .subscription import Subscription
from .tag_id import IdValue

MACHINERY = frozenset(
    [
        *(
            "engine",
            "sequencer",
            "watch",
            "leases",
            "decisions",
            "strict_tags",
            "take",
            "request",
            "requests",
        ),
        *("check_usable", "check_writable", "retagging", "read_page", "appends_page", "leave_to_parent"),
        *("transactions", "in_thread", "in_long_thread", "in_page_thread", "tail", "beside", "deadline"),
    ]
)
"""What a store has for other modules of this library, and not for users."""

_FORKED = "the store was opened before this process was forked"

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Projected = TypeVar("Projected", bound=Projection)
EventsToAppend = AnyEvent | Iterable[AnyEvent]


class ConnectOptions(TypedDict, total=False):
    """The options of `connect`."""

    log: str
    clock: Clock | None
    max_data_bytes: int
    record_conditions: bool
    create: bool
    decision_cache: int
    strict_tags: bool
    lock_timeout: float
    read_seconds: float | None
    token: str | None


def connect(
    url: str | os.PathLike[str],
    *,
    log: str = DEFAULT_LOG,
    clock: Clock | None = None,
    max_data_bytes: int = MAX_DATA_BYTES,
    record_conditions: bool = True,
    create: bool = True,
    decision_cache: int = DEFAULT_STATES,
    strict_tags: bool = False,
    lock_timeout: float = LOCK_SECONDS,
    read_seconds: float | None = None,
    token: str | None = None,
) -> EventStore:
    """Open the store at `url`: a file (SQLite), `sqlite:///…`, `postgresql://…`, `http://…` or `memory:`.

    A PostgreSQL database or a server has any number of independent logs; `log` is the name of one. A log that does
    not exist is created, unless `create` is False. `token` is what a server knows you by. `clock` replaces the time that
    `recorded_at` is taken from; `max_data_bytes` limits the data of one event; without
    `record_conditions` the log forgets under which conditions appends were accepted. Commands keep the
    states of the last `decision_cache` projections in memory, to read only what is newer; 0 keeps none. With
    `strict_tags` a decision's event that carries none of its boundary's tags is an `InvalidEvent`; otherwise
    it is written with a warning, `MissingTags`. If another process keeps the lock of the log for more than
    `lock_timeout` seconds, an append raises `Unavailable`, with the name of that process. A count, or the search for a
    read's next events, that takes more than `read_seconds` raises `Unavailable`. Over HTTP, `clock`, `max_data_bytes`,
    `record_conditions`, `lock_timeout` and `read_seconds` belong to the server, and logs are created there.
    """
    check_max_data_bytes(max_data_bytes)  # before a file is made
    check_states(decision_cache)
    for name, value in (
        ("record_conditions", record_conditions),
        ("create", create),
        ("strict_tags", strict_tags),
    ):
        check_flag(value, name)
    refuse_calls()
    if place_of(url).engine == "http":
        refuse_options((max_data_bytes != MAX_DATA_BYTES, "max_data_bytes"))
    engine = doing(
        AT_WORK,
        open_engine,
        url,
        log=log,
        clock=clock,
        record_conditions=record_conditions,
        create=create,
        lock_timeout=check_lock_timeout(lock_timeout),
        read_seconds=check_read_seconds(read_seconds),
        token=token,
    )
    return EventStore(
        engine,
        max_data_bytes=engine.max_data_bytes or max_data_bytes,
        decision_cache=decision_cache,
        strict_tags=strict_tags,
    )


class EventStore:
    """A log of events with conditional appends. Safe to share between threads; a context manager."""

    def __init__(
        self,
        engine: Engine,
        *,
        max_data_bytes: int = MAX_DATA_BYTES,
        decision_cache: int = DEFAULT_STATES,
        strict_tags: bool = False,
    ) -> None:
        self.engine = engine
        self.strict_tags = strict_tags
        self.max_data_bytes = check_max_data_bytes(max_data_bytes)
        self.decisions = DecisionCache(decision_cache)
        self.watch = HeadWatch(engine)
        self.tail = Tail(engine, self.watch)
        self.sequencer = Sequencer(engine, self.watch.hear)
        self.leases = Leases(engine, self.watch.wake_all)
        self._beside: dict[str, Beside] = {}
        self._joining = threading.Lock()
        self._closed_because = ""
        self._closing = threading.Lock()
        self._is_released = False
        _open_stores.add(self)

    def append(
        self,
        events: EventsToAppend,
        condition: AppendCondition | None = None,
        *,
        stream: str | None = None,
        unless_exists: Query | None = None,
        tracking: tuple[str, int] | None = None,
    ) -> AppendResult:
        """Write the events atomically, unless an event that matches the condition is newer than its `after`.

        With `unless_exists` nothing is written if a matching event is anywhere in the log; the
        result is then that of the append which wrote it, with `duplicate=True`. `tracking=("orders", 17)` stores how
        far you have read a source, in the same transaction. A position that does not increase is a `TrackingConflict`.
        With `tracking` the events may be empty.
        """
        request = self.request(AppendRequest(events, condition, stream, unless_exists, tracking))
        return only(self.sequencer.run((request,)))

    def append_many(self, requests: Iterable[AppendRequest]) -> list[AppendResult | StrandlineError]:
        """Several appends in one transaction, judged in order; refusals are returned, not raised."""
        checked = self.requests(requests)
        return self.sequencer.run(checked) if checked else []

    def retag(
        self,
        query_or_positions: Query | int | Iterable[int],
        *,
        add: Iterable[str] = (),
        replace: Replacements | None = None,
    ) -> AppendResult:
        """Change the tags of events: `add=["vip"]`, or `replace={"student": ["s2"]}` for all `student:*`.

        The change is an append of `$retagged` events. It refuses open decisions whose query matches one of the
        events with its old tags or with its new ones. `changed` says how many events have other tags now. If there are
        none, nothing is written and `count` is 0.
        """
        return only(self.sequencer.run((self.retagging(query_or_positions, add, replace),)))

    def read(
        self,
        query: Query | None = None,
        *,
        after: int = 0,
        until: int | None = None,
        backwards: bool = False,
        limit: int | None = None,
    ) -> Read:
        """The matching events with positions in `(after, until]`; `read.head` is the `after` to append with."""
        self.check_usable()
        asked = query_or_all(query)
        span = check_span(after, until, backwards=backwards)
        return Read(self, asked, check_limit(limit), self.read_page(asked, span, first_size(limit)))

    def execute(self, command: Command[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Executed[R]:
        """Read what the command depends on, let it decide, append; if somebody was faster, again."""
        refuse_writes()
        return self.take(decide.execute(bind(command, args, kwargs), self.decisions))

    def project(self, projection: type[Projected] | Projected, *key: IdValue) -> Projected:
        """The state of a projection as of now: `project(Course("c1"))` or `project(Course, "c1")`."""
        return self.take(decide.project(decide.instance(projection, key), self.decisions))

    def explain(self, command: Command[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Print what the command would read, and what its append would be checked against; nothing is executed."""
        explanation = self.take(explain.explain(bind(command, args, kwargs)))
        print(explanation)  # noqa: T201  (that is what it is for)
        return explanation

    def boundary(self, *projections: *Ts) -> Boundary[*Ts]:
        """A decision by hand: `with store.boundary(Course("c1")) as b: … b.append(event)`.

        `b.states` are the folded projections; leaving the block appends once, if nothing that they depend
        on changed meanwhile.
        """
        self.check_usable()
        return Boundary(self.take, decide.instances(projections))

    @overload
    def decide(  # type: ignore[overload-overlap]  # a generator is an iterable that also returns a value
        self, boundary: Query | Iterable[str], decide: DecideValue[R], **options: Unpack[DecideOptions]
    ) -> Executed[R]: ...
    @overload
    def decide(
        self, boundary: Query | Iterable[str], decide: Decide, **options: Unpack[DecideOptions]
    ) -> Executed[None]: ...
    def decide(
        self,
        boundary: Query | Iterable[str],
        decide: Decide | DecideValue[Any],
        *,
        tag_with: TagWith | None = None,
        stream: Route | None = None,
        condition: Query | None = None,
        attempts: int = ATTEMPTS,
    ) -> Executed[Any]:
        """Read the boundary, let the function decide on its events, append; if somebody was faster, again.

        The boundary is a set of tags (events with any of them), the name of a stream, or a query. The function
        returns or yields events, or returns a `Decision` with a value. `tag_with(event)` gives more tags to each.
        `stream` is where they go, a name or a function of the sorted tags; left out, it is the stream of the
        boundary, and for tags `stream_for(tags)`. `condition` is a narrower query than the one that is read.
        """
        refuse_writes()
        return self.take(
            untyped.decide(
                boundary, decide, tag_with=tag_with, stream=stream, condition=condition, attempts=attempts
            )
        )

    def take(self, steps: Steps[T]) -> T:
        """Take the steps of a decision."""
        self.check_usable()
        return drive(steps, self._perform)

    def _perform(self, step: Step) -> Answer:
        match step:
            case ReadEvents():
                page = self.read_page(step.query, step.span, first_size(step.limit))
                if page.rest is None or step.limit is not None:
                    return page
                # In one snapshot: between two pages a retag could bring an event in, or take one out.
                return self.read_page(step.query, step.span, ALL_IN_ONE_PAGE)
            case Append():
                return only(self.sequencer.run((self.request(step.request),)))
            case TellMissingTags():
                tell(step, strict=self.strict_tags)
                return None
            case Pause():
                time.sleep(step.seconds)
                return None
            case Ask():
                return step.of(self.engine)  # type: ignore[no-any-return]

    def head(self) -> int:
        """The last position, 0 if the log is empty."""
        self.check_usable()
        return self.engine.head()

    def exists(self, query: Query, after: int = 0) -> bool:
        """Whether a matching event has a position greater than `after`."""
        self.check_usable()
        return self.engine.exists(check_query(query), check_position(after, "after"))

    def count(self, query: Query | None = None, after: int = 0) -> int:
        """How many matching events have a position greater than `after`."""
        self.check_usable()
        return self.engine.count(query_or_all(query), check_position(after, "after"))

    def event(self, which: int | UUID) -> SequencedEvent:
        """The event at a position, or with an id, with its present tags; `NotFound` if there is none."""
        self.check_usable()
        return event_of(self.engine, which)

    def check(self, condition: AppendCondition, *, conflicts: int = 20) -> Check:
        """Say what an append under the condition would meet now, without appending: a dry run in one snapshot.

        If it would be refused, you get the first conflict, and the first `conflicts` of all of them.
        """
        self.check_usable()
        return self.engine.check(check_condition(condition), check_most(conflicts))

    def tracked(self, source: str) -> int | None:
        """The last position of a source that an append came with (`tracking=`), or None."""
        self.check_usable()
        return self.engine.tracked(check_source(source))

    def position_at(self, when: datetime) -> int:
        """The last position with `recorded_at <= when`, 0 if none."""
        self.check_usable()
        return self.engine.position_at(to_microseconds(when))

    def stats(self) -> Stats:
        """Figures about the log: its uuid, head, number of appends and refusals, size, last check and last backup."""
        self.check_usable()
        return msgspec.structs.replace(self.engine.stats(), max_data_bytes=self.max_data_bytes)

    def subscribe(self, query: Query | None = None, *, after: int = 0) -> Subscription:
        """Return a blocking iterator over the matching events after `after`, then over each new one as it is written.

        It does not look for retags. An event that a retag brings into the query behind the iterator's position is not
        delivered. Use a follower where that matters.
        """
        self.check_usable()
        return Subscription(self, query_or_all(query), check_position(after, "after"))

    def follower(
        self,
        name: str,
        query: Query | None = None,
        after: int = 0,
        *,
        lease: float = LEASE_SECONDS,
        into: str | os.PathLike[str] | None = None,
    ) -> Follower:
        """A named reader whose checkpoint is kept in the log's database: `follower.run(handle)` delivers events to it.

        A new one begins after position `after`. Of all who run it, in any process, one does; another takes over when
        that one stops, or was not heard of for `lease` seconds. `into="local.db"` keeps the checkpoint in a file or a
        PostgreSQL database of yours, whose transaction the handler gets. Over HTTP there is no other way.
        """
        self.check_usable()
        return Follower(self.beside(into), kept_of(name, query_or_all(query), after=after, lease=lease))

    def find_follower(self, name: str) -> Follower:
        """The follower of this name, to look at it or to steer it, which keeps its query; `NotFound` if there is none."""
        self.check_usable()
        return Follower(self, found_in(self.engine, name, lease=LEASE_SECONDS))

    def automation(
        self,
        name: str,
        query: Query | None,
        decide: Decision,
        *,
        ignore: Ignored = (),
        after: int = 0,
        lease: float = LEASE_SECONDS,
        into: str | os.PathLike[str] | None = None,
        **options: Unpack[RunOptions],
    ) -> Worker:
        """A follower whose events lead to commands: `decide(event)` returns a `Call`, several of them, or None.

        Each call is executed once to effect, however often its event is delivered; its events say which one led to
        them. Exceptions of a command that are listed in `ignore` are no failure.
        """
        handle = blocking(Automation(name, decide, ignore), self.execute)
        follower = self.follower(name, query, after, lease=lease, into=into)
        return Worker(follower, handle, in_transaction=False, **run_options(options))

    def outbox(
        self,
        topic: str,
        query: Query | None,
        publisher: str,
        publish: Publisher,
        *,
        after: int = 0,
        lease: float = LEASE_SECONDS,
        into: str | os.PathLike[str] | None = None,
        **options: Unpack[RunOptions],
    ) -> Worker:
        """A follower that publishes the events of a query: one for each topic and publisher, `outbox:topic:publisher`.

        `publish(events)` gets them in order, at least once; or `NdjsonFile(path)`, `Webhook(url, secret=…)`.
        """
        handle = handler_of(publish)
        follower = self.follower(follower_name(topic, publisher), query, after, lease=lease, into=into)
        return Worker(follower, handle, in_transaction=False, **options_of(publish, options))

    def followers(self) -> list[FollowerStatus]:
        """How every follower of this log is."""
        self.check_usable()
        return [status_of(self.engine, row) for row in self.engine.followers()]

    def appends(
        self,
        after: int = 0,
        *,
        until: int | None = None,
        backwards: bool = False,
        limit: int | None = None,
    ) -> Iterator[RecordedAppend]:
        """The recorded appends with `after < first <= until`, in order, or the newest first."""
        self.check_usable()
        return self._appends(check_span(after, until, backwards=backwards), check_limit(limit))

    def _appends(self, span: Span, left: int | None) -> Iterator[RecordedAppend]:
        while page := self.appends_page(span, left):
            yield from page
            span, left = next_appends(span, page), None if left is None else left - len(page)

    @property
    def inspect(self) -> Inspection:
        """Questions about the log itself: which types and tags it has, and which append wrote an event."""
        return Inspection(self)

    def close(self) -> None:
        """Finish what was accepted and release the log; again is harmless, other use raises `StoreClosed`.

        If an interrupt ends it before it is done, the next call goes on.
        """
        if self._closed_because == _FORKED:  # looked at before the lock, which this process may never get
            return
        if current.get() is CLOSING:
            return  # a signal's handler asks while this thread closes it
        refuse_writes()
        doing(CLOSING, self._close)

    def _close(self) -> None:
        with self._closing:
            if self._is_released:
                return
            self.sequencer.close()
            self._closed_because = "the store is closed"
            self.tail.close()
            self.watch.close()
            self.leases.close()
            while self._beside:
                self._beside.popitem()[1].close()
            self.engine.close()
            self._is_released = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __dir__(self) -> list[str]:
        """Return what you may use. Completion shows nothing else."""
        return [name for name in super().__dir__() if name not in MACHINERY]

    def __repr__(self) -> str:
        return f"<EventStore {self.engine.name}{' closed' if self.is_closed else ''}>"

    # What follows is for the async facade and other layers.

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called (or the process forked)."""
        return bool(self._closed_because)

    def check_usable(self) -> None:
        """Raise if the store cannot be used right now.

        It is closed, it was opened before a fork, or this call comes from inside a matcher or a signal handler.
        """
        if self._closed_because:
            raise StoreClosed(self._closed_because)
        if current.get() is not None:
            refuse_calls()

    def check_writable(self) -> None:
        """Raise if the store cannot be written to right now, also because a handler or a command asks."""
        if self._closed_because:
            raise StoreClosed(self._closed_because)
        if current.get() is not None:
            refuse_writes()

    def beside(self, into: str | os.PathLike[str] | None) -> Followed:
        """Return the store with its followers in another database, if one is named. It is closed with the store."""
        if into is None:
            return self
        name = os.path.abspath(into) if place_of(into).engine == "sqlite" else os.fspath(into)
        with self._joining:
            self.check_usable()
            found = self._beside.get(name)
            if found is None:
                found = self._beside[name] = Beside(self, into)
        return found

    def request(self, request: AppendRequest) -> AppendRequest:
        """The request, if this store may take it now."""
        self.check_writable()
        check_size(request.events, self.max_data_bytes)
        if not self.engine.runs_callables:
            request.refuse_callables()
        return request

    def retagging(
        self,
        target: Query | int | Iterable[int],
        add: Iterable[str],
        replace: Replacements | None,
    ) -> Retag:
        """The retag, if this store may take it now."""
        self.check_writable()
        if isinstance(target, Query) and not self.engine.runs_callables:
            target.refuse_callables()
        return Retag(target, add, replace)

    def requests(self, requests: Iterable[AppendRequest]) -> Sequence[AppendRequest]:
        """The requests, if this store may take them all."""
        if isinstance(requests, AppendRequest) or not isinstance(requests, Iterable):
            raise InvalidInput(
                "append_many takes a list of AppendRequests", hint="write [AppendRequest([events])]"
            )
        listed = tuple(requests)
        for request in listed:
            if not isinstance(request, AppendRequest):
                raise InvalidInput(
                    f"append_many takes AppendRequests, not {type(request).__name__}",
                    hint="write AppendRequest([events], condition)",
                )
        self.check_writable()
        return tuple(self.request(request) for request in listed)

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        """A page of a read; raises if the store was closed meanwhile."""
        self.check_usable()
        return self.engine.read_page(query, span, size)

    def deadline(self) -> Deadline:
        """The end of the time in which a read that begins to search now must find events."""
        return Deadline(self.engine.read_seconds)

    def appends_page(self, span: Span, left: int | None) -> list[RecordedAppend]:
        """A page of recorded appends, of so many that are left to read; raises if the store was closed meanwhile."""
        if left == 0:
            return []
        self.check_usable()
        return self.engine.appends_page(span, NEXT_PAGES if left is None else min(left, NEXT_PAGES))

    def leave_to_parent(self) -> None:
        """Never touch the log again: this process is a fork of the one that opened it."""
        self._closed_because = _FORKED
        self.engine.leave_to_parent()
        for beside in self._beside.values():
            beside.engine.leave_to_parent()


def only(outcomes: Sequence[AppendResult | StrandlineError]) -> AppendResult:
    """The outcome of a single request; an error is raised."""
    (outcome,) = outcomes
    if isinstance(outcome, StrandlineError):
        raise outcome
    return outcome


_open_stores: weakref.WeakSet[EventStore] = weakref.WeakSet()
_kept_from_finalizers: list[EventStore] = []


def _after_fork() -> None:
    # A database connection that the parent still uses must not be closed here, so nothing is freed.
    for store in list(_open_stores):
        store.leave_to_parent()
        _kept_from_finalizers.append(store)


_register: Callable[..., None] | None = getattr(os, "register_at_fork", None)
if _register is not None:
    _register(after_in_child=_after_fork)
