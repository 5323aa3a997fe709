"""What a transport needs to know of a method: bytes in, bytes out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

from msgspec import Struct

Answer = Callable[[bytes | None, bytes], Awaitable[bytes]]
Answers = Callable[[bytes | None, bytes], Awaitable[AsyncGenerator[bytes]]]
"""Both take the header `authorization` and the request. What they raise is the whole answer."""


class Method(Struct, frozen=True):
    """A method that can be called: with one answer, or with a stream of them.

    The headers of a live stream are sent before there is an answer, because clients wait for them.
    """

    answer: Answer | None = None
    answers: Answers | None = None
    is_live: bool = False
