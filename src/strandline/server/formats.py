"""The forms in which events are answered: a page of JSON, or a stream of lines, rows or columns."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from ..aio import AsyncEventStore, AsyncRead
from ..codec import decode_data
from ..errors import StrandlineError
from ..event import SequencedEvent
from ..lines import encode_event_lines, encode_lines, id_texts
from ..query import Query
from ..reading import require_arrow
from .exchange import EVENT_STREAM, JSON, NDJSON, Answer, Exchange, Headers, Stream, encode
from .live import error_message, live_stream
from .packing import weight_of
from .problem import encode_problem, raw_condition

if TYPE_CHECKING:
    from pyarrow import RecordBatch

PAGE_EVENTS = 1_000
PAGE_BYTES = 16 * 1024 * 1024
CONTENT_TYPES = {
    "json": JSON.decode(),
    "ndjson": NDJSON.decode(),
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
    "sse": EVENT_STREAM.decode(),
}
_BY_TYPE = {kind: form for form, kind in CONTENT_TYPES.items()}
CONDITION_BYTES = 4_096
"""Proxies and clients often take no more than 8 KiB of headers."""
LINES_AT_ONCE = 500
"""So many events are encoded before other requests have their turn."""
COLUMNS = ("position", "id", "type", "tags", "stream", "subject", "data", "metadata", "recorded_at")
_FORMULA = ("=", "+", "-", "@", "'")
_END_OF_ARROW = b"\xff\xff\xff\xff\0\0\0\0"


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
    if form == "json":
        return Answer(await _page(exchange.store, asked))
    if form == "sse":
        return live_stream(exchange, asked)
    if form == "arrow":
        await asyncio.to_thread(require_arrow)  # to load it takes a while
    read = await asked.read(exchange.store, asked.limit)
    if form == "ndjson":
        return Stream(_lines(read, exchange))
    pieces = _rows(read) if form == "csv" else _columns(read)
    headers = [*_download_headers(form), *_condition_headers(read)]
    return Stream(pieces, CONTENT_TYPES[form].encode(), headers)


def preferred(accept: bytes | None) -> str:
    """Return the form that an `Accept` header prefers. One that is unknown means JSON."""
    best, best_weight = "json", 0.0
    for choice in (accept or b"").decode("latin-1").split(","):
        media_type, _, parameters = choice.partition(";")
        form = _BY_TYPE.get(media_type.strip().lower())
        weight = weight_of(parameters)
        if form is not None and weight > best_weight:
            best, best_weight = form, weight
    return best


async def _page(store: AsyncEventStore, asked: Asked) -> bytes:
    most = asked.limit or PAGE_EVENTS
    read = await asked.read(store, most + 1)  # one more tells whether there is a next page
    lines: list[bytes] = []
    size = last = 0
    async for events in read.pages():
        for event, line in zip(events, encode_lines(events).split(b"\n"), strict=False):
            size += len(line)
            is_full = len(lines) == most
            if is_full or (lines and size > PAGE_BYTES):
                next_page = _next_page(asked, read.head, last)
                return _encode_page(read, lines, next_page, is_whole=is_full and asked.limit is not None)
            lines.append(line)
            last = event.position
    return _encode_page(read, lines, None, is_whole=True)


def _encode_page(
    read: AsyncRead, lines: list[bytes], next_page: dict[str, Any] | None, *, is_whole: bool
) -> bytes:
    events = Raw(b"[%b]" % b",".join(lines))
    condition = raw_condition(read.condition if is_whole else None)
    return encode({"events": events, "head": read.head, "condition": condition, "next": next_page})


def _next_page(asked: Asked, head: int, last: int) -> dict[str, Any]:
    """Return the body of the read that goes on behind `last`, up to the same head."""
    after, until = (asked.after, last - 1) if asked.backwards else (last, head)
    body: dict[str, Any] = {"query": asked.query.to_fields(), "after": after, "until": until}
    if asked.limit is not None:
        body["limit"] = asked.limit
    if asked.backwards:
        body["backwards"] = True
    return body


async def _lines(read: AsyncRead, exchange: Exchange) -> AsyncGenerator[bytes]:
    """Yield a line per event, and an end or an error as the last line."""
    try:
        async for events in read.pages():
            for start in range(0, len(events), LINES_AT_ONCE):
                yield encode_event_lines(events[start : start + LINES_AT_ONCE])
        end = {"end": {"head": read.head, "condition": raw_condition(read.condition)}}
        yield encode(end) + b"\n"
    except Exception as error:  # noqa: BLE001 - the last line says it
        yield error_line(error, exchange)


async def _rows(read: AsyncRead) -> AsyncGenerator[bytes]:
    """Yield the events as CSV (RFC 4180). An error cuts the answer off, for CSV has no other sign of it."""
    yield _csv([COLUMNS])
    async for events in read.pages():
        for start in range(0, len(events), LINES_AT_ONCE):
            some = events[start : start + LINES_AT_ONCE]
            yield _csv(map(_row, some, id_texts(some)))


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _row(event: SequencedEvent, id: str) -> tuple[object, ...]:
    return (
        event.position,
        id,
        _cell(event.type),
        msgspec.json.encode(event.tags).decode(),
        _cell(event.stream),
        _cell(event.subject),
        _data_cell(event.data),
        msgspec.json.encode(event.metadata).decode(),
        event.recorded_at.isoformat(),
    )


def _cell(text: str | None) -> str | None:
    """Return text that a spreadsheet does not take for a formula: one apostrophe at its beginning is not part of it."""
    return f"'{text}" if text is not None and text.startswith(_FORMULA) else text


def _data_cell(data: bytes) -> str:
    """Return JSON as it is, for no JSON begins a formula. Other bytes begin with `base64:`."""
    try:
        decode_data(data)
        return data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f"base64:{base64.b64encode(data).decode()}"


async def _columns(read: AsyncRead) -> AsyncGenerator[bytes]:
    """Yield the events as an Arrow stream. An error cuts the answer off before the mark of its end."""
    is_first = True
    async for batch in read.arrow():
        if is_first:
            yield _schema(batch, read)
        is_first = False
        yield batch.serialize().to_pybytes()
    yield _END_OF_ARROW


def _schema(batch: RecordBatch, read: AsyncRead) -> bytes:
    facts = {"head": str(read.head), "condition": read.condition.to_json()}
    schema: bytes = batch.schema.with_metadata(facts).serialize().to_pybytes()
    return schema


def _download_headers(form: str) -> Headers:
    return [(b"content-disposition", b'attachment; filename="events.%b"' % form.encode())]


def _condition_headers(read: AsyncRead) -> Headers:
    """Return the head and the condition as headers, for forms that have no other place for them."""
    fields = msgspec.json.decode(read.condition.to_json())
    condition = json.dumps(fields, separators=(",", ":")).encode()  # in ASCII
    headers = [(b"strandline-head", b"%d" % read.head)]
    if len(condition) <= CONDITION_BYTES:
        return [*headers, (b"strandline-condition", condition)]
    return [*headers, (b"strandline-condition-too-long", b"%d" % len(condition))]


def error_line(error: Exception, exchange: Exchange) -> bytes:
    """Return the last line of a stream that failed."""
    return b'{"error":%b}\n' % _problem(error, exchange)


def farewell(content_type: bytes, error: Exception, exchange: Exchange) -> bytes:
    """Return what tells the reader of a stream why it ends. Nothing, if its form has no place for that."""
    if content_type == EVENT_STREAM:
        return error_message(error, exchange)
    return error_line(error, exchange) if content_type == NDJSON else b""


def outcome_line(outcome: Any, exchange: Exchange) -> bytes:
    """Return the line for one append: its result or a problem."""
    if isinstance(outcome, (StrandlineError, Exception)):
        return _problem(outcome, exchange) + b"\n"
    return encode(outcome) + b"\n"


def _problem(error: Exception, exchange: Exchange) -> bytes:
    exchange.count_problem(error)
    return encode_problem(error, docs=exchange.docs)
