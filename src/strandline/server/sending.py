"""Answers on their way to the client."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from .calls import trace_headers
from .exchange import SECURITY_HEADERS, Answer, Exchange, Headers, Send, Stream


async def send_answer(exchange: Exchange, answer: Answer, send: Send) -> None:
    """Send an answer that is there at once."""
    headers = _headers(exchange, answer.content_type, answer.headers)
    if answer.status != 204:  # which has no content anyway
        headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if exchange.is_head else answer.body})


async def send_stream(exchange: Exchange, stream: Stream, send: Send) -> None:
    """Send an answer piece by piece, as long as the client listens.

    An error on the way is raised, so that the server closes the connection before the end of the answer.
    """
    headers = _headers(exchange, stream.content_type, stream.headers)
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async with aclosing(stream.pieces):
        if not exchange.is_head and not await _send_pieces(exchange, stream, send):
            return
    await send({"type": "http.response.body", "body": b""})


async def _send_pieces(exchange: Exchange, stream: Stream, send: Send) -> bool:
    """Send the pieces, and return whether the client has stayed."""
    if stream.reads_body:
        async for piece in stream.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        return True
    gone = asyncio.create_task(exchange.wait_until_gone())
    try:
        async for piece in stream.pieces:
            if gone.done():
                return False
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    finally:
        gone.cancel()
    return True


def _headers(exchange: Exchange, content_type: bytes, more: Headers) -> Headers:
    form = [(b"content-type", content_type)] if content_type else []
    return [*form, *SECURITY_HEADERS, *trace_headers(exchange), *more]
