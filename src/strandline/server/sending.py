"""Answers on their way to the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from ..errors import Unauthorized
from .calls import trace_headers
from .exchange import EVENT_STREAM, SECURITY_HEADERS, Answer, Exchange, Headers, Message, Send, Stream
from .formats import farewell
from .packing import WORTH_PACKING, Packer, accepted_coding, pack, packer

LARGE_ANSWER = 64 * 1024
_VARY = (b"vary", b"accept, accept-encoding")


async def send_answer(exchange: Exchange, answer: Answer, send: Send) -> None:
    """Send an answer that is there at once."""
    headers = _headers(exchange, answer.content_type, answer.headers)
    body = answer.body
    coding, is_plain_refused = accepted_coding(exchange.header(b"accept-encoding"))
    if (len(body) >= WORTH_PACKING or (body and is_plain_refused)) and _may_pack(answer.content_type):
        headers.append(_VARY)
        if coding is not None:
            headers.append((b"content-encoding", coding.encode()))
            packing = packer(coding)
            body = await pack(packing, body) + packing.end()
    if answer.status != 204:  # which has no content anyway
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if exchange.is_head:
        body = b""
    if len(body) > LARGE_ANSWER:  # to send more, even nothing, waits until the client has taken most of it
        await send({"type": "http.response.body", "body": body, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})


async def send_stream(exchange: Exchange, stream: Stream, send: Send) -> None:
    """Send an answer piece by piece, as long as the client listens.

    An error on the way is raised, so that the server closes the connection before the end of the answer.
    """
    headers = [*_headers(exchange, stream.content_type, stream.headers), _VARY]
    coding, _ = accepted_coding(exchange.header(b"accept-encoding"))
    if coding is not None:
        headers.append((b"content-encoding", coding.encode()))
    start: Message = {"type": "http.response.start", "status": 200, "headers": headers}
    if exchange.caller.token is not None:
        stream.pieces = _while_valid(exchange, stream, stream.pieces)
    async with aclosing(stream.pieces):
        if not stream.reads_body:  # which begins when it has something to say
            await send(start)
        if exchange.is_head:
            await send({"type": "http.response.body", "body": b""})
        elif coding is None:
            await _send_pieces(exchange, stream, send, start)
        else:
            packing = packer(coding, is_live=stream.content_type == EVENT_STREAM)
            await _send_pieces(exchange, stream, send, start, packing)


async def _send_pieces(
    exchange: Exchange, stream: Stream, send: Send, start: Message, packing: Packer | None = None
) -> None:
    """Send the pieces and the end of the answer, as long as the client stays."""
    has_begun = not stream.reads_body
    # A stream that reads the body notices by itself that the client has left.
    gone = None if stream.reads_body else asyncio.create_task(exchange.wait_until_gone())
    if gone is not None and (stop := stream.stop) is not None:
        gone.add_done_callback(lambda _: stop())
    try:
        async for piece in stream.pieces:
            if gone is not None and gone.done():
                return
            if not has_begun:
                await send(start)
                has_begun = True
            packed = piece if packing is None else await pack(packing, piece)
            await send({"type": "http.response.body", "body": packed, "more_body": True})
    finally:
        if gone is not None:
            gone.cancel()
    if not has_begun:
        await send(start)
    await send({"type": "http.response.body", "body": b"" if packing is None else packing.end()})


async def _while_valid(
    exchange: Exchange, stream: Stream, pieces: AsyncGenerator[bytes]
) -> AsyncGenerator[bytes]:
    """Yield pieces as long as the caller's token is valid, and then why there are no more."""
    try:
        async with aclosing(exchange.service.callers.while_valid(exchange.caller, pieces)) as allowed:
            async for piece in allowed:
                yield piece
    except Unauthorized as error:
        last_words = farewell(stream.content_type, error, exchange)
        if not last_words:
            raise
        yield last_words


def _may_pack(content_type: bytes) -> bool:
    """Return whether an answer may be packed. A page with a secret and a visitor's words would tell by its length."""
    return not content_type.startswith(b"text/html")


def _headers(exchange: Exchange, content_type: bytes, more: Headers) -> Headers:
    form = [(b"content-type", content_type)] if content_type else []
    return [*form, *SECURITY_HEADERS, *trace_headers(exchange), *more]
