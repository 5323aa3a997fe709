"""Compression: bodies are unpacked as they arrive, answers are packed as clients accept it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from ..errors import InvalidInput, PayloadTooLarge
from .problem import AtField, UnsupportedCoding


def _import_zstd() -> Any:
    """Return the module for zstd. It comes with the extra `server`, which an application that mounts this may lack."""
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return import_module(name)
    return None


zstd = _import_zstd()
WORTH_PACKING = 1_024
STEP_BYTES = 256 * 1024
"""So much is unpacked at a time before other requests have their turn."""
INLINE_BYTES = 32 * 1024
"""Less than this is packed by the event loop itself: to hand it to a thread would take longer."""
UNPACKED_RATIO = 200
HEADER_BYTES = 256
"""Longer lists of codings are not read to their end."""
MAX_WINDOW_LOG = 23
"""Windows of 8 MiB are what RFC 9659 allows for zstd."""
CODINGS = ("zstd", "gzip") if zstd is not None else ("gzip",)
"""What this server can pack and unpack, the better one first."""
_GZIP_LEVEL = 4
_ALIASES = {"x-gzip": "gzip"}


class Packer(Protocol):
    """Packs an answer piece by piece."""

    def pack(self, piece: bytes) -> bytes:
        """Return a piece packed, in such a way that a reader can unpack all of it at once."""
        ...

    def end(self) -> bytes:
        """Return the end of the packed answer."""
        ...


class _Gzip:
    def __init__(self, *, is_live: bool) -> None:
        # A live stream stays open for long: 32 KiB of memory for each instead of 256.
        self._compress = (
            zlib.compressobj(_GZIP_LEVEL, wbits=16 + 12, memLevel=5)
            if is_live
            else zlib.compressobj(_GZIP_LEVEL, wbits=31)
        )

    def pack(self, piece: bytes) -> bytes:
        return self._compress.compress(piece) + self._compress.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        return self._compress.flush()


class _Zstd:
    def __init__(self, *, is_live: bool) -> None:
        size = 12 if is_live else 17
        self._compressor = zstd.ZstdCompressor(
            options={
                zstd.CompressionParameter.compression_level: 1,
                zstd.CompressionParameter.window_log: size,
                zstd.CompressionParameter.hash_log: size - 1,
                zstd.CompressionParameter.chain_log: size - 1,
            }
        )

    def pack(self, piece: bytes) -> bytes:
        packed: bytes = self._compressor.compress(piece, self._compressor.FLUSH_BLOCK)
        return packed

    def end(self) -> bytes:
        packed: bytes = self._compressor.flush()
        return packed


_PACKERS: dict[str, Callable[..., Packer]] = {"gzip": _Gzip, "zstd": _Zstd}


def packer(coding: str, *, is_live: bool = False) -> Packer:
    """Return a packer. One for a live stream is thrifty with memory."""
    return _PACKERS[coding](is_live=is_live)


async def pack(packer: Packer, piece: bytes) -> bytes:
    """Pack a piece, a long one in a thread."""
    return packer.pack(piece) if len(piece) < INLINE_BYTES else await asyncio.to_thread(packer.pack, piece)


def accepted_coding(accept_encoding: bytes | None) -> tuple[str | None, bool]:
    """Return the coding to pack an answer with, and whether the client refuses one that is not packed."""
    return (None, False) if accept_encoding is None else _accepted(accept_encoding[:HEADER_BYTES])


@lru_cache(maxsize=256)
def _accepted(header: bytes) -> tuple[str | None, bool]:
    weights = dict(_weights(header))
    others = weights.get("*", 0.0)
    best = max(CODINGS, key=lambda coding: weights.get(coding, others))
    weight = weights.get(best, others)
    plain = weights.get("identity", 0.0 if weights.get("*") == 0.0 else None)
    if weight <= 0 or (plain or 0.0) > weight:
        return None, False
    return best, plain == 0.0


def _weights(header: bytes) -> Iterator[tuple[str, float]]:
    for choice in header.decode("latin-1").lower().split(","):
        name, _, parameters = choice.partition(";")
        coding = name.strip()
        if coding:
            yield _ALIASES.get(coding, coding), weight_of(parameters)


def weight_of(parameters: str) -> float:
    """Return the weight `q` among the parameters of one choice of an `Accept…` header."""
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def unpacked(pieces: AsyncIterator[bytes], content_encoding: bytes | None, free: int) -> AsyncIterator[bytes]:
    """Yield what the pieces of a body contain, at most 256 KiB at a time.

    Beyond `free` bytes, a body may contain at most 200 times as much as was sent.
    """
    name = (content_encoding or b"identity").decode("latin-1").strip().lower()
    coding = _ALIASES.get(name, name)
    if coding == "identity":
        return pieces
    if coding not in CODINGS:
        raise UnsupportedCoding(
            f"the body is packed as {coding!r:.40}", hint=f"send it plain, or as {' or '.join(CODINGS)}"
        )
    return _unpacked(pieces, _UNPACKERS[coding], coding, free)


async def _unpacked(
    pieces: AsyncIterator[bytes], make: Callable[[], _Unpacker], coding: str, free: int
) -> AsyncIterator[bytes]:
    unpacker = make()
    sent = content = 0
    try:
        async for piece in pieces:
            sent += len(piece)
            for step in unpacker.steps(piece):
                content += len(step)
                if content > free and content > sent * UNPACKED_RATIO:
                    raise _bomb(content, sent)
                yield step
                await asyncio.sleep(0)
    except unpacker.errors as error:
        raise AtField(InvalidInput(f"the body is not {coding}: {error}", hint=_AGAIN), "$") from error
    if not unpacker.is_complete:
        raise AtField(InvalidInput(f"the {coding} body is cut off", hint=_AGAIN), "$")


class _Unpacker(Protocol):
    errors: type[Exception]
    is_complete: bool

    def steps(self, piece: bytes) -> Iterator[bytes]:
        """Yield what a piece contains, bit by bit."""
        ...


class _Gunzip:
    """Unpacks gzip members, one after another."""

    errors: type[Exception] = zlib.error

    def __init__(self) -> None:
        self._member: Any = None
        self.is_complete = False

    def steps(self, piece: bytes) -> Iterator[bytes]:
        rest = piece
        while rest:
            if self._member is None:
                self._member, self.is_complete = zlib.decompressobj(wbits=31), False
            step = self._member.decompress(rest, STEP_BYTES)
            if step:
                yield step
            rest = self._member.unconsumed_tail
            if self._member.eof:
                rest, self._member, self.is_complete = self._member.unused_data, None, True
            elif not rest:
                yield from self._held_back()

    def _held_back(self) -> Iterator[bytes]:
        """Yield what was taken in already but did not fit into a step."""
        while not self._member.eof and (step := self._member.decompress(b"", STEP_BYTES)):
            yield step
        if self._member.eof:
            self._member, self.is_complete = None, True


class _Unzstd:
    """Unpacks zstd frames, one after another."""

    errors: type[Exception] = zlib.error if zstd is None else zstd.ZstdError

    def __init__(self) -> None:
        self._frame: Any = None
        self.is_complete = False

    def steps(self, piece: bytes) -> Iterator[bytes]:
        rest = piece
        while rest or (self._frame is not None and not self._frame.needs_input):
            if self._frame is None:
                options = {zstd.DecompressionParameter.window_log_max: MAX_WINDOW_LOG}
                self._frame, self.is_complete = zstd.ZstdDecompressor(options=options), False
            step = self._frame.decompress(rest, STEP_BYTES)
            rest = b""
            if step:
                yield step
            if self._frame.eof:
                rest, self._frame, self.is_complete = self._frame.unused_data, None, True


_UNPACKERS: dict[str, Callable[[], _Unpacker]] = {"gzip": _Gunzip, "zstd": _Unzstd}
_AGAIN = "send the body again, packed once"


def _bomb(content: int, sent: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"the body contains {content // sent} times as many bytes as it has",
        hint=f"send it plain: one that is packed may contain {UNPACKED_RATIO} times as much",
    )
