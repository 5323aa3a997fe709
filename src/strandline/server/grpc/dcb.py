"""UmaDB's service on one log. Each of its methods is one call of the public API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from google.protobuf.message import DecodeError

from ...aio import AsyncEventStore, AsyncRead
from ...errors import Forbidden, InvalidInput, StrandlineError
from ...subscription import AsyncSubscription
from ..callers import Caller
from ..exchange import Service
from ..limits import open_log
from ..problem import ShuttingDown
from ..tokens import Access
from .answers import Packing, batch_size_of, read_answer, subscribe_answer
from .appending import append
from .messages import umadb
from .method import Answer, Answers, Method
from .refusals import Refusal, Status
from .requests import BEYOND_ALL, condition_of, events_of, tracking_of, visible_query_of

SERVICE = "umadb.v1.DCB"
OLD_SERVICE = "umadb.UmaDBService"
WAIT_SECONDS = 3_600.0
MOST_AT_ONCE = 2_000
Unary = Callable[[AsyncEventStore, Any], Awaitable[Any]]
Stream = Callable[[AsyncEventStore, Any], Awaitable[AsyncGenerator[bytes]]]


class Dcb:
    """Answers the calls of UmaDB's clients."""

    def __init__(self, service: Service, log: str) -> None:
        self._service = service
        self._log = log
        self._counts = service.metrics.log(log)
        self._subscriptions = set[AsyncSubscription]()

    def methods(self) -> Mapping[str, Method]:
        """Return the methods by their paths, the old paths included."""
        methods = {
            "Read": Method(answers=self._streamed("Read", "read", self._read)),
            "Subscribe": Method(answers=self._streamed("Subscribe", "read", self._subscribe), is_live=True),
            "Append": Method(self._answered("Append", "append", self._append)),
            "Head": Method(self._answered("Head", "metadata", self._head)),
            "GetTrackingInfo": Method(self._answered("GetTrackingInfo", "read", self._tracked)),
        }
        services = (SERVICE, OLD_SERVICE)
        return {f"/{service}/{name}": method for service in services for name, method in methods.items()}

    def end_subscriptions(self) -> None:
        """End all subscriptions, as if their clients had seen all there is."""
        for subscription in list(self._subscriptions):
            subscription.stop()

    def _answered(self, name: str, access: Access, call: Unary) -> Answer:
        request = umadb.request(name)

        async def answer(authorization: bytes | None, body: bytes) -> bytes:
            caller = await self._admit(authorization, access)
            message = decode(request, body)
            reply = await call(await open_log(self._service.logs, self._log, caller), message)
            return bytes(reply.SerializeToString())

        return answer

    def _streamed(self, name: str, access: Access, call: Stream) -> Answers:
        request = umadb.request(name)

        async def answers(authorization: bytes | None, body: bytes) -> AsyncGenerator[bytes]:
            caller = await self._admit(authorization, access)
            message = decode(request, body)
            stream = await call(await open_log(self._service.logs, self._log, caller), message)
            return stream if caller.token is None else self._service.callers.while_valid(caller, stream)

        return answers

    async def _admit(self, authorization: bytes | None, access: Access) -> Caller:
        caller = await self._service.callers.holder(authorization)
        caller.check(access)
        if self._service.is_draining:
            raise ShuttingDown("the server is shutting down")
        if self._service.read_only and access == "append":
            raise Forbidden("this server is read-only", hint="send changes to a server that takes them")
        return caller

    async def _append(self, store: AsyncEventStore, request: Any) -> Any:
        try:
            result = await append(store, events_of(request), condition_of(request), tracking_of(request))
        except StrandlineError as error:
            self._counts.add(error)
            raise
        if result.count:
            self._counts.add(result)
        return umadb.AppendResponse(position=result.last if result.count else 0)

    async def _head(self, store: AsyncEventStore, request: Any) -> Any:
        return umadb.HeadResponse(position=await store.head() or None)

    async def _tracked(self, store: AsyncEventStore, request: Any) -> Any:
        return umadb.TrackingResponse(position=await store.tracked(request.source))

    async def _read(self, store: AsyncEventStore, request: Any) -> AsyncGenerator[bytes]:
        if request.subscribe:
            raise InvalidInput("a read does not wait for new events", hint="call Subscribe")
        query = visible_query_of(request.query)
        if request.HasField("limit") and request.limit == 0:
            return _nothing()
        if not request.backwards:
            read = store.read(query, after=max(request.start - 1, 0), limit=request.limit or None)
            return _answers(await read, request, None)
        until = request.start if request.HasField("start") else None
        head = None if until is None else await store.head()
        read = store.read(query, until=until, backwards=True, limit=request.limit or None)
        return _answers(await read, request, head)

    async def _subscribe(self, store: AsyncEventStore, request: Any) -> AsyncGenerator[bytes]:
        if request.after == BEYOND_ALL:
            return _nothing()
        subscription = store.subscribe(visible_query_of(request.query), after=request.after)
        return self._live(subscription, batch_size_of(request))

    async def _live(self, subscription: AsyncSubscription, size: int) -> AsyncGenerator[bytes]:
        packing = Packing(size)
        self._subscriptions.add(subscription)
        self._counts.live_streams += 1
        if self._service.is_draining:
            subscription.stop()
        try:
            async for batch in subscription.batches(WAIT_SECONDS, min(size, MOST_AT_ONCE)):
                for events in packing.add(batch.events):
                    yield subscribe_answer(events)
                if batch.events:
                    yield subscribe_answer(packing.rest())
        finally:
            subscription.stop()
            self._subscriptions.discard(subscription)
            self._counts.live_streams -= 1


async def _answers(read: AsyncRead, request: Any, head: int | None) -> AsyncGenerator[bytes]:
    """Yield the answers to a read. Each says the head, or with a limit its last position."""
    has_limit, packing = request.HasField("limit"), Packing(batch_size_of(request))
    head, is_empty = read.head if head is None else head, True
    async for page in read.pages():
        for events in packing.add(page):
            is_empty = False
            yield read_answer(events, events[-1].position if has_limit else head)
    rest = packing.rest()
    if has_limit:
        head = rest[-1].position if rest else 0
    if rest or is_empty:
        yield read_answer(rest, head or None)


async def _nothing() -> AsyncGenerator[bytes]:
    no_answers: tuple[bytes, ...] = ()
    for answer in no_answers:
        yield answer


def decode(request: Any, body: bytes) -> Any:
    """Return the message of a request."""
    try:
        return request.FromString(body)
    except DecodeError as error:
        raise Refusal(Status.INTERNAL, f"the request is not a {request.DESCRIPTOR.name}: {error}") from error
