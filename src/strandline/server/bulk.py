"""`POST …/appends`: lines of append requests in, as many lines of outcomes out, in the same order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

from msgspec import Struct

from ..append import AppendRequest, AppendResult
from ..errors import AppendConditionFailed, InvalidInput, StrandlineError
from .bodies import AppendBody, at_append_field, decoder_of, request_of
from .conflicts import with_conflicts
from .exchange import Exchange, Gone, too_large
from .formats import outcome_line

REQUESTS_AT_ONCE = 1_000
UNSENT_BYTES = 64 * 1024 * 1024
PAUSE_SECONDS = 1.0
_decode = decoder_of(AppendBody)


async def append_lines(exchange: Exchange, metadata: Mapping[str, str]) -> AsyncGenerator[bytes]:
    """Yield the outcomes of the lines of a body.

    A client may send all of its lines before it reads an answer, so outcomes wait here while the body still comes. A
    proxy may stop passing the body on as soon as the answer begins (nginx does when the body comes fast). So behind one
    the answer waits until the body is complete, or until the client seems to wait for it.
    """
    outcomes = _Outcomes()
    reading = asyncio.create_task(_append_all(exchange, metadata, outcomes))
    try:
        if exchange.came_by_proxy:
            await outcomes.pause()
        while piece := await outcomes.take():
            yield piece
        await reading
    finally:
        reading.cancel()


class _Outcomes:
    """The outcomes that the client has not read yet."""

    def __init__(self) -> None:
        self._unsent: list[bytes] = []
        self.size = 0
        self._is_complete = False
        self._changed = asyncio.Condition()
        self.is_idle = True
        """Whether every line that has come is answered."""

    async def put(self, piece: bytes) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.size < UNSENT_BYTES)
            self._unsent.append(piece)
            self.size += len(piece)
            self._changed.notify_all()

    async def end(self) -> None:
        async with self._changed:
            self._is_complete = True
            self._changed.notify_all()

    async def pause(self) -> None:
        """Return when there are outcomes, and the client has sent nothing more for a while."""
        async with self._changed:
            while not self._is_complete and self.size < UNSENT_BYTES:
                try:
                    async with asyncio.timeout(PAUSE_SECONDS):
                        await self._changed.wait()
                except TimeoutError:
                    if self.size and self.is_idle:
                        return

    async def take(self) -> bytes:
        """Return what is there, as soon as something is. Nothing means the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._unsent or self._is_complete)
            piece = b"".join(self._unsent)
            self._unsent, self.size = [], 0
            self._changed.notify_all()
            return piece


async def _append_all(exchange: Exchange, metadata: Mapping[str, str], outcomes: _Outcomes) -> None:
    try:
        async for lines in _lines_of(exchange, outcomes):
            outcomes.is_idle = False
            for start in range(0, len(lines), REQUESTS_AT_ONCE):
                chunk = lines[start : start + REQUESTS_AT_ONCE]
                await outcomes.put(await _append(exchange, chunk, metadata))
            outcomes.is_idle = True
    except Gone:
        pass
    except StrandlineError as error:  # the rest of the body did not arrive
        await outcomes.put(outcome_line(error, exchange))
    except Exception as error:  # noqa: BLE001 - the last line says it
        await outcomes.put(outcome_line(error, exchange))
    finally:
        await outcomes.end()


async def _lines_of(exchange: Exchange, outcomes: _Outcomes) -> AsyncIterator[list[bytes | StrandlineError]]:
    """Yield the complete lines of each piece of the body. A line that is too long becomes an error."""
    rest: list[bytes] = []
    size = 0
    most = exchange.limits.line_bytes
    async for piece in exchange.body_pieces():
        first, *others = piece.split(b"\n")
        size += len(first)
        if size <= most:
            rest.append(first)
        else:
            rest.clear()
        if others:
            whole = b"".join(rest) if size <= most else too_large(most)
            yield [whole, *(line if len(line) <= most else too_large(most) for line in others[:-1])]
            rest, size = [others[-1]], len(others[-1])
        exchange.hold_only(min(size, most) + outcomes.size)
    if size:
        yield [b"".join(rest) if size <= most else too_large(most)]


class _Asked(Struct, gc=False):
    """A line that asks for an append."""

    body: AppendBody
    request: AppendRequest


async def _append(
    exchange: Exchange, lines: list[bytes | StrandlineError], metadata: Mapping[str, str]
) -> bytes:
    """Append what the lines ask for in one transaction, and return the lines to answer."""
    asked = [_asked(line, metadata) for line in lines]
    outcomes = iter(await _outcomes(exchange, [each for each in asked if isinstance(each, _Asked)]))
    answers = [next(outcomes) if isinstance(each, _Asked) else each for each in asked]
    _count(exchange, answers)
    return b"".join(outcome_line(answer, exchange) for answer in answers)


def _count(exchange: Exchange, answers: Sequence[object]) -> None:
    exchange.service.metrics.log(exchange.log).bulk_appends.add(len(answers))
    for answer in answers:
        exchange.count_append(answer)


def _asked(line: bytes | StrandlineError, metadata: Mapping[str, str]) -> _Asked | Exception:
    if isinstance(line, StrandlineError):
        return line
    try:
        body = _decode(line)
        return _Asked(body, request_of(body, metadata))
    except Exception as error:  # noqa: BLE001 - a bad line is answered in its place
        return error


async def _outcomes(exchange: Exchange, asked: list[_Asked]) -> list[object]:
    if not asked:
        return []
    try:
        outcomes = await exchange.store.append_many([each.request for each in asked])
    except InvalidInput as error:  # nothing is written: find the one that the store refuses
        if len(asked) == 1:
            return [at_append_field(error, asked[0].body)]
        half = len(asked) // 2
        return [*await _outcomes(exchange, asked[:half]), *await _outcomes(exchange, asked[half:])]
    except StrandlineError as error:
        return [error] * len(asked)
    return [
        outcome if isinstance(outcome, AppendResult) else await _refusal(exchange, each, outcome)
        for each, outcome in zip(asked, outcomes, strict=True)
    ]


async def _refusal(exchange: Exchange, asked: _Asked, outcome: StrandlineError) -> Exception:
    if isinstance(outcome, AppendConditionFailed):
        return await with_conflicts(exchange.store, outcome, asked.request.condition)
    return at_append_field(outcome, asked.body) if isinstance(outcome, InvalidInput) else outcome
