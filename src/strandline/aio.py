"""The store for asyncio: the same methods, awaited. Appends are futures of the sequencer, reads come in pages, short ones
by the loop itself and others through a few threads, and waiting costs no thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload
from uuid import UUID

from .activity import refuse_writes
from .append import AppendCondition, AppendRequest, AppendResult, Check, RecordedAppend, check_position
from .awaiting import MayBeAwaited
from .domain import decide, explain, untyped
from .domain.command import Command, Executed, bind
from .domain.drive import drive_async
from .domain.explain import Explanation
from .domain.missing_tags import tell
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
from .domain.unit import AsyncBoundary
from .domain.untyped import Decide, DecideOptions, DecideValue
from .engine import Page, Span, Stats, Usage
from .engine.lists import in_lists
from .engine.threads import typed
from .errors import StrandlineError
from .event import SequencedEvent
from .follow import AsyncFollower, AsyncWorker, FollowerStatus
from .follow.asynchronous import TRANSACTIONS_AT_ONCE
from .follow.automation import Automation, Decision, Ignored, awaiting, run_options
from .follow.beside import AsyncBeside
from .follow.lease import LEASE_SECONDS
from .follow.outbox import Publisher, follower_name, handler_of, options_of
from .follow.worker import RunOptions
from .inspection import NAMES
from .lines import encode_lines
from .query import Query
from .reading import (
    ALL_IN_ONE_PAGE,
    NEXT_PAGES,
    check_limit,
    check_query,
    check_span,
    first_size,
    next_appends,
    next_deadline,
    next_page,
    query_or_all,
    require_arrow,
)
from .retag import Replacements
from .store import (
    MACHINERY,
    ConnectOptions,
    EventsToAppend,
    EventStore,
    P,
    Projected,
    R,
    Ts,
    connect,
    only,
)
from .subscription import AsyncSubscription
from .tag_id import IdValue

if TYPE_CHECKING:
    from pyarrow import RecordBatch

T = TypeVar("T")
READ_THREADS = 4


class AsyncEventStore:
    """`EventStore` for asyncio. `read = await store.read(query)`, then `async for event in read`."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self._threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="strandline-read")
        # Pages, and calls that may take long, have threads of their own, so that short look-ups never wait for them.
        self._page_threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="strandline-page")
        self._long_threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="strandline-long-read")
        self.transactions = asyncio.Semaphore(TRANSACTIONS_AT_ONCE)

    async def append(
        self,
        events: EventsToAppend,
        condition: AppendCondition | None = None,
        *,
        stream: str | None = None,
        unless_exists: Query | None = None,
        tracking: tuple[str, int] | None = None,
    ) -> AppendResult:
        """See `EventStore.append`. Cancelled, it was written or it was not; to repeat it is safe."""
        request = self.store.request(AppendRequest(events, condition, stream, unless_exists, tracking))
        return only(await self.store.sequencer.run_async((request,)))

    async def append_many(self, requests: Iterable[AppendRequest]) -> list[AppendResult | StrandlineError]:
        """See `EventStore.append_many`."""
        checked = self.store.requests(requests)
        return await self.store.sequencer.run_async(checked) if checked else []

    async def retag(
        self,
        query_or_positions: Query | int | Iterable[int],
        *,
        add: Iterable[str] = (),
        replace: Replacements | None = None,
    ) -> AppendResult:
        """See `EventStore.retag`."""
        retag = self.store.retagging(query_or_positions, add, replace)
        return only(await self.store.sequencer.run_async((retag,)))

    async def execute(self, command: Command[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Executed[R]:
        """See `EventStore.execute`."""
        refuse_writes()
        return await self.take(decide.execute(bind(command, args, kwargs), self.store.decisions))

    async def project(self, projection: type[Projected] | Projected, *key: IdValue) -> Projected:
        """See `EventStore.project`."""
        return await self.take(decide.project(decide.instance(projection, key), self.store.decisions))

    async def explain(self, command: Command[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """See `EventStore.explain`."""
        explanation = await self.take(explain.explain(bind(command, args, kwargs)))
        print(explanation)  # noqa: T201
        return explanation

    def boundary(self, *projections: *Ts) -> AsyncBoundary[*Ts]:
        """See `EventStore.boundary`: `async with store.boundary(Course("c1")) as b:`."""
        self.store.check_usable()
        return AsyncBoundary(self.take, decide.instances(projections))

    @overload
    async def decide(  # type: ignore[overload-overlap]  # a generator is an iterable that also returns a value
        self, boundary: Query | Iterable[str], decide: DecideValue[R], **options: Unpack[DecideOptions]
    ) -> Executed[R]: ...
    @overload
    async def decide(
        self, boundary: Query | Iterable[str], decide: Decide, **options: Unpack[DecideOptions]
    ) -> Executed[None]: ...
    async def decide(
        self,
        boundary: Query | Iterable[str],
        decide: Decide | DecideValue[Any],
        **options: Unpack[DecideOptions],
    ) -> Executed[Any]:
        """See `EventStore.decide`."""
        refuse_writes()
        return await self.take(untyped.decide(boundary, decide, **options))

    async def take(self, steps: Steps[T]) -> T:
        """Take the steps of a decision."""
        self.store.check_usable()
        return await drive_async(steps, self._perform)

    async def _perform(self, step: Step) -> Answer:
        match step:
            case ReadEvents():
                page = await self.read_page(step.query, step.span, first_size(step.limit))
                if page.rest is None or step.limit is not None:
                    return page
                # In one snapshot: between two pages a retag could bring an event in, or take one out.
                return await self.read_page(step.query, step.span, ALL_IN_ONE_PAGE)
            case Append():
                return only(await self.store.sequencer.run_async((self.store.request(step.request),)))
            case TellMissingTags():
                tell(step, strict=self.store.strict_tags)
                return None
            case Pause():
                await asyncio.sleep(step.seconds)
                return None
            case Ask():
                return await self.in_thread(step.of, self.store.engine)

    def read(
        self,
        query: Query | None = None,
        *,
        after: int = 0,
        until: int | None = None,
        backwards: bool = False,
        limit: int | None = None,
    ) -> AsyncRead:
        """See `EventStore.read`; await it for `read.head`, or iterate at once."""
        self.store.check_usable()
        span = check_span(after, until, backwards=backwards)
        return AsyncRead(self, query_or_all(query), span, check_limit(limit))

    async def read_page(self, query: Query, span: Span, size: int) -> Page:
        """A page of a read, in one of the reading threads unless the engine can do without."""
        self.store.check_usable()
        page = await self.store.engine.read_page_awaited(query, span, size)
        if page is not None:
            return page
        run = self.in_long_thread if query.has_where or size > NEXT_PAGES else self.in_page_thread
        return await run(self.store.read_page, query, span, size)

    async def head(self) -> int:
        """See `EventStore.head`."""
        return await self.in_thread(self.store.head)

    async def exists(self, query: Query, after: int = 0) -> bool:
        """See `EventStore.exists`."""
        run = self.in_long_thread if check_query(query).has_where else self.in_page_thread
        return await run(self.store.exists, query, after)

    async def count(self, query: Query | None = None, after: int = 0) -> int:
        """See `EventStore.count`."""
        return await self.in_long_thread(self.store.count, query, after)

    async def event(self, which: int | UUID) -> SequencedEvent:
        """See `EventStore.event`."""
        return await self.in_thread(self.store.event, which)

    async def check(self, condition: AppendCondition, *, conflicts: int = 20) -> Check:
        """See `EventStore.check`."""
        return await self.in_long_thread(partial(self.store.check, condition, conflicts=conflicts))

    async def tracked(self, source: str) -> int | None:
        """See `EventStore.tracked`."""
        return await self.in_thread(self.store.tracked, source)

    async def position_at(self, when: datetime) -> int:
        """See `EventStore.position_at`."""
        return await self.in_thread(self.store.position_at, when)

    async def stats(self) -> Stats:
        """See `EventStore.stats`."""
        return await self.in_long_thread(self.store.stats)

    def subscribe(self, query: Query | None = None, *, after: int = 0) -> AsyncSubscription:
        """See `EventStore.subscribe`: `async for event in store.subscribe(query)`."""
        self.store.check_usable()
        return AsyncSubscription(self, query_or_all(query), check_position(after, "after"))

    def follower(
        self,
        name: str,
        query: Query | None = None,
        after: int = 0,
        *,
        lease: float = LEASE_SECONDS,
        into: str | os.PathLike[str] | None = None,
    ) -> AsyncFollower:
        """See `EventStore.follower`: `await follower.run(handle)`, where `handle` may be async."""
        followed = self if into is None else AsyncBeside(self, self.store.beside(into))
        return AsyncFollower(followed, self.store.follower(name, query, after, lease=lease, into=into))

    async def find_follower(self, name: str) -> AsyncFollower:
        """See `EventStore.find_follower`."""
        return AsyncFollower(self, await self.in_thread(self.store.find_follower, name))

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
    ) -> AsyncWorker:
        """See `EventStore.automation`: `await automation.run()`."""
        handle = awaiting(Automation(name, decide, ignore), self.execute)
        follower = self.follower(name, query, after, lease=lease, into=into)
        return AsyncWorker(follower, handle, in_transaction=False, **run_options(options))

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
    ) -> AsyncWorker:
        """See `EventStore.outbox`; `publish` may be async."""
        handle = handler_of(publish)
        follower = self.follower(follower_name(topic, publisher), query, after, lease=lease, into=into)
        return AsyncWorker(follower, handle, in_transaction=False, **options_of(publish, options))

    async def followers(self) -> list[FollowerStatus]:
        """See `EventStore.followers`."""
        return await self.in_long_thread(self.store.followers)

    def appends(
        self,
        after: int = 0,
        *,
        until: int | None = None,
        backwards: bool = False,
        limit: int | None = None,
    ) -> AsyncAppends:
        """See `EventStore.appends`: `async for append in store.appends()`."""
        self.store.check_usable()
        return AsyncAppends(self, check_span(after, until, backwards=backwards), check_limit(limit))

    @property
    def max_data_bytes(self) -> int:
        """How large the data of an event may be."""
        return self.store.max_data_bytes

    @property
    def inspect(self) -> AsyncInspection:
        """See `EventStore.inspect`: `await store.inspect.types()`."""
        return AsyncInspection(self)

    async def close(self) -> None:
        """See `EventStore.close`."""
        await asyncio.to_thread(self.store.close)
        self._threads.shutdown(wait=False)
        self._page_threads.shutdown(wait=False)
        self._long_threads.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __dir__(self) -> list[str]:
        """Return what you may use. Completion shows nothing else."""
        return [name for name in super().__dir__() if name not in MACHINERY]

    def __repr__(self) -> str:
        return f"<Async{repr(self.store)[1:]}"

    async def in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a short look-up in one of the reading threads."""
        return await self._in(self._threads, call, *arguments)

    async def in_page_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call that reads a page in one of the threads for pages."""
        return await self._in(self._page_threads, call, *arguments)

    async def in_long_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call that may read for long in one of the threads for such calls."""
        return await self._in(self._long_threads, call, *arguments)

    async def _in(self, threads: ThreadPoolExecutor, call: Callable[..., T], *arguments: Any) -> T:
        self.store.check_usable()
        run = contextvars.copy_context().run  # whoever asks knows whether a handler does
        with typed():
            answer = asyncio.get_running_loop().run_in_executor(threads, run, call, *arguments)
        return await answer


class AsyncRead(MayBeAwaited[SequencedEvent]):
    """The events of a read, in pages: iterate over it, as often as you like."""

    def __init__(
        self, store: AsyncEventStore, query: Query, span: Span, limit: int | None, first: Page | None = None
    ) -> None:
        self._store = store
        self._span = span
        self._limit = limit
        self._first = first
        self.query = query

    @property
    def head(self) -> int:
        """See `Read.head`; known once the read was awaited."""
        if self._first is None:
            raise AttributeError("the read has not begun: write `read = await store.read(…)`")
        return self._first.head

    @property
    def condition(self) -> AppendCondition:
        """See `Read.condition`."""
        return AppendCondition(self.query, after=self.head)

    async def _begin(self) -> None:
        await self._first_page()

    async def _first_page(self) -> Page:
        if self._first is None:
            self._first = await self._page(self._span, first_size(self._limit))
        return self._first

    async def _page(self, span: Span, size: int) -> Page:
        return await self._store.read_page(self.query, span, size)

    async def __aiter__(self) -> AsyncIterator[SequencedEvent]:
        async for events in self._pages():
            for event in events:
                yield event

    async def _pages(self) -> AsyncIterator[list[SequencedEvent]]:
        page, left = await self._first_page(), self._limit
        deadline = self._store.store.deadline()
        while True:
            yield page.events
            request = next_page(page, left)
            if request is None:
                return
            span, size, left = request
            deadline = next_deadline(page, deadline, self._store.store)
            page = await self._page(span, size)

    async def all_events(self) -> list[SequencedEvent]:
        """The events as a list: those of one page need not be taken one by one."""
        first = await self._first_page()
        if next_page(first, self._limit) is None:
            return first.events
        return [event async for event in self]

    async def pages(self) -> AsyncIterator[list[SequencedEvent]]:
        """See `Read.pages`."""
        async for page in self._pages():
            for events in in_lists(page):
                yield events

    async def arrow(self) -> AsyncIterator[RecordBatch]:
        """See `Read.arrow`."""
        arrow, is_empty = require_arrow(), True
        async for events in self.pages():
            is_empty = False
            yield arrow.batch_of_events(events)
        if is_empty:
            yield arrow.batch_of_events([])

    async def ndjson(self) -> AsyncIterator[bytes]:
        """See `Read.ndjson`."""
        async for events in self.pages():
            for line in encode_lines(events).splitlines(keepends=True):
                yield line


class AsyncAppends(MayBeAwaited[RecordedAppend]):
    """The recorded appends of a log, in pages."""

    def __init__(self, store: AsyncEventStore, span: Span, limit: int | None) -> None:
        self._store = store
        self._span = span
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[RecordedAppend]:
        span, left = self._span, self._limit
        while page := await self._store.in_long_thread(self._store.store.appends_page, span, left):
            for append in page:
                yield append
            span, left = next_appends(span, page), None if left is None else left - len(page)


class AsyncInspection:
    """See `Inspection`."""

    def __init__(self, store: AsyncEventStore) -> None:
        self._store = store

    async def types(self, prefix: str = "", *, after: str = "", limit: int = NAMES) -> list[Usage]:
        """See `Inspection.types`."""
        inspect = self._store.store.inspect
        return await self._store.in_long_thread(partial(inspect.types, prefix, after=after, limit=limit))

    async def tags(self, prefix: str = "", *, after: str = "", limit: int = NAMES) -> list[Usage]:
        """See `Inspection.tags`."""
        inspect = self._store.store.inspect
        return await self._store.in_long_thread(partial(inspect.tags, prefix, after=after, limit=limit))

    async def recorded(self, position: int) -> RecordedAppend:
        """See `Inspection.recorded`."""
        return await self._store.in_thread(self._store.store.inspect.recorded, position)


class connect_async:  # noqa: N801  (reads as a function: `await connect_async(url)`, `async with connect_async(url)`)
    """Like `connect`: awaitable, and an async context manager."""

    def __init__(self, url: str | os.PathLike[str], **options: Unpack[ConnectOptions]) -> None:
        self._url = url
        self._options = options
        self._store: AsyncEventStore | None = None

    async def _connect(self) -> AsyncEventStore:
        opened = await asyncio.to_thread(lambda: connect(self._url, **self._options))
        return AsyncEventStore(opened)

    def __await__(self) -> Generator[Any, None, AsyncEventStore]:
        return self._connect().__await__()

    if not TYPE_CHECKING:  # type checkers say it themselves

        def __getattr__(self, name: str) -> Any:
            if hasattr(AsyncEventStore, name):
                raise AttributeError(
                    f"the store is not open yet, so it has no {name!r}: write store = await connect_async(…),"
                    " or async with connect_async(…) as store"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    async def __aenter__(self) -> AsyncEventStore:
        self._store = await self._connect()
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()
