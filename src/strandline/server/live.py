"""Live streams: server-sent events that catch up with the log, and go on as it grows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from random import uniform
from time import monotonic
from typing import TYPE_CHECKING

from ..errors import InvalidInput
from ..event import SequencedEvent
from ..names import MAX_POSITION
from ..subscription import AsyncSubscription
from .exchange import EVENT_STREAM, Exchange, Headers, Stream, encode
from .problem import AtField, TooManyStreams, encode_problem

if TYPE_CHECKING:
    from .formats import Asked

BATCH_EVENTS = 100
PIECE_BYTES = 64 * 1024
CHECKPOINT_SECONDS = (0.85, 0.95)
"""Less than the second that is promised. Each stream has a time of its own, so that not all are served at one moment."""
LAST_EVENT_ID = "Last-Event-ID"
_HEADERS: Headers = [(b"x-accel-buffering", b"no")]  # nginx would hold messages back


def live_stream(exchange: Exchange, asked: Asked) -> Stream:
    """Answer the events behind a position, and then each new one, until the client leaves or the server ends."""
    _check_endless(exchange)
    after = _position_of(exchange.header(LAST_EVENT_ID.lower().encode()), asked.after)
    service = exchange.service
    if service.metrics.live_streams >= service.limits.live_streams:
        raise TooManyStreams(f"the server has {service.limits.live_streams:,} live streams already")
    subscription = exchange.store.subscribe(asked.query, after=after)
    pieces = _messages(exchange, subscription, after)
    return Stream(pieces, EVENT_STREAM, _HEADERS, stop=subscription.stop)


def error_message(error: Exception, exchange: Exchange) -> bytes:
    """Return the last message of a stream that failed."""
    exchange.count_problem(error)
    return b"event: error\ndata: %b\n\n" % encode_problem(error, docs=exchange.docs)


async def _messages(
    exchange: Exchange, subscription: AsyncSubscription, position: int
) -> AsyncGenerator[bytes]:
    service = exchange.service
    service.live.add(subscription)
    if service.is_draining:  # since this request came
        subscription.stop()
    seconds, due = uniform(*CHECKPOINT_SECONDS), 0.0
    try:
        async for batch in subscription.batches(seconds, BATCH_EVENTS):
            position = batch.position
            for piece in _pieces(batch.events):
                yield piece
            if not batch.events or monotonic() >= due:
                yield _message(b"checkpoint", position)
                due = monotonic() + seconds
        yield _message(b"end", position)
    except Exception as error:  # noqa: BLE001 - the last message says it
        yield error_message(error, exchange)
    finally:
        service.live.discard(subscription)
        subscription.stop()


def _pieces(events: Sequence[SequencedEvent]) -> Iterator[bytes]:
    """Yield the messages of events, several in a piece unless they are large."""
    messages: list[bytes] = []
    size = 0
    for event in events:
        message = b"event: event\nid: %d\ndata: %b\n\n" % (event.position, event.to_line())
        if messages and size + len(message) > PIECE_BYTES:
            yield b"".join(messages)
            messages, size = [], 0
        messages.append(message)
        size += len(message)
    if messages:
        yield b"".join(messages)


def _message(kind: bytes, position: int) -> bytes:
    """Return a message about a position. Its id is where to go on."""
    return b"event: %b\nid: %d\ndata: %b\n\n" % (kind, position, encode({"position": position}))


def _check_endless(exchange: Exchange) -> None:
    """Refuse what would end a stream, or turn it round."""
    prefix, source = ("?", exchange.parameters) if exchange.body is None else ("$.", exchange.body)
    for name in ("until", "at", "limit", "backwards"):
        value = getattr(source, name, None)
        if value is not None and value is not False:
            raise AtField(
                InvalidInput(
                    f"a live stream has no {name}", hint="leave it out, or ask for application/x-ndjson"
                ),
                f"{prefix}{name}",
            )


def _position_of(last_event_id: bytes | None, after: int) -> int:
    """Return where to begin: where the stream before this one was cut off, or where the request says."""
    if not last_event_id:
        return after
    if last_event_id.isdigit() and len(last_event_id) < 20 and int(last_event_id) <= MAX_POSITION:
        return int(last_event_id)
    raise AtField(
        InvalidInput(
            f"{LAST_EVENT_ID} is {last_event_id.decode('latin-1')!r:.40}, which is no position",
            hint="send the id of the last message of the stream before, or leave the header out",
        ),
        LAST_EVENT_ID,
    )
