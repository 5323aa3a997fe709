"""The forms in which events are answered: a page of JSON, or a stream of lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from msgspec import Raw

from ..aio import AsyncEventStore, AsyncRead
from ..errors import StrandlineError
from ..event import SequencedEvent
from ..query import Query
from .exchange import JSON, NDJSON, Answer, Exchange, Stream, encode
from .problem import encode_problem, raw_condition, raw_event

PAGE_EVENTS = 1_000
PAGE_BYTES = 16 * 1024 * 1024
_BY_TYPE = {"application/json": "json", "application/x-ndjson": "ndjson"}
CONTENT_TYPES = {"json": JSON.decode(), "ndjson": NDJSON.decode()}


class Asked:
    """A read as it was asked for."""

    def __init__(
        self, query: Query, *, after: int, until: int | None, limit: int | None, backwards: bool
    ) -> None:
        self.query = query
        self.after = after
        self.until = until
        self.limit = limit
        self.backwards = backwards

    def read(self, store: AsyncEventStore, limit: int | None) -> AsyncRead:
        """Return the read, with this limit."""
        return store.read(
            self.query, after=self.after, until=self.until, backwards=self.backwards, limit=limit
        )


async def answer_events(exchange: Exchange, asked: Asked) -> Answer | Stream:
    """Answer the events of a read in the form that the client asks for."""
    form = exchange.parameters.format or preferred(exchange.header(b"accept"))
    if form == "ndjson":
        read = await asked.read(exchange.store, asked.limit)
        return Stream(_lines(read, exchange.docs))
    return Answer(await _page(exchange.store, asked))


def preferred(accept: bytes | None) -> str:
    """Return the form that an `Accept` header prefers. One that is unknown means JSON."""
    best, best_weight = "json", 0.0
    for choice in (accept or b"").decode("latin-1").split(","):
        media_type, _, parameters = choice.partition(";")
        form = _BY_TYPE.get(media_type.strip().lower())
        weight = _weight(parameters)
        if form is not None and weight > best_weight:
            best, best_weight = form, weight
    return best


def _weight(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


async def _page(store: AsyncEventStore, asked: Asked) -> bytes:
    most = asked.limit or PAGE_EVENTS
    read = await asked.read(store, most + 1)  # one more tells whether there is a next page
    events: list[Raw] = []
    size, last, is_full = 0, 0, False
    async for event in read:
        line = raw_event(event)
        size += len(bytes(line))
        is_full = len(events) == most
        if is_full or (events and size > PAGE_BYTES):
            break
        events.append(line)
        last = event.position
    else:
        return encode(_fields(read, events, None))
    is_whole = is_full and asked.limit is not None
    return encode(_fields(read, events, _next_page(asked, read.head, last), is_whole=is_whole))


def _fields(
    read: AsyncRead, events: list[Raw], next_page: dict[str, Any] | None, *, is_whole: bool = True
) -> dict[str, Any]:
    condition = raw_condition(read.condition if is_whole else None)
    return {"events": events, "head": read.head, "condition": condition, "next": next_page}


def _next_page(asked: Asked, head: int, last: int) -> dict[str, Any]:
    """Return the body of the read that goes on behind `last`, up to the same head."""
    after, until = (asked.after, last - 1) if asked.backwards else (last, head)
    body: dict[str, Any] = {"query": asked.query.to_fields(), "after": after, "until": until}
    if asked.limit is not None:
        body["limit"] = asked.limit
    if asked.backwards:
        body["backwards"] = True
    return body


async def _lines(read: AsyncRead, docs: str) -> AsyncIterator[bytes]:
    """Yield a line per event, and an end or an error as the last line."""
    try:
        async for events in read.pages():
            yield b"".join(map(_event_line, events))
        end = {"end": {"head": read.head, "condition": raw_condition(read.condition)}}
        yield encode(end) + b"\n"
    except Exception as error:  # noqa: BLE001 - the last line says it
        yield error_line(error, docs)


def _event_line(event: SequencedEvent) -> bytes:
    return b'{"event":%b}\n' % event.to_line()


def error_line(error: Exception, docs: str) -> bytes:
    """Return the last line of a stream that failed."""
    return b'{"error":%b}\n' % encode_problem(error, docs=docs)


def outcome_line(outcome: Any, docs: str) -> bytes:
    """Return the line for one append: its result or a problem."""
    if isinstance(outcome, (StrandlineError, Exception)):
        return encode_problem(outcome, docs=docs) + b"\n"
    return encode(outcome) + b"\n"
