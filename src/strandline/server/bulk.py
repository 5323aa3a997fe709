"""`POST …/appends`: lines of append requests in, as many lines of outcomes out, in the same order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping

from ..append import AppendRequest
from ..errors import AppendConditionFailed, InvalidInput, StrandlineError
from .bodies import AppendBody, decoder_of, request_of
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


async def _append(
    exchange: Exchange, lines: list[bytes | StrandlineError], metadata: Mapping[str, str]
) -> bytes:
    """Append what the lines ask for in one transaction, and return the lines to answer."""
    answers: list[object] = [_request(line, metadata) for line in lines]
    wanted = [index for index, answer in enumerate(answers) if isinstance(answer, AppendRequest)]
    requests = [answer for answer in answers if isinstance(answer, AppendRequest)]
    outcomes = await _outcomes(exchange, requests)
    for index, outcome in zip(wanted, outcomes, strict=True):
        answers[index] = outcome
    _count(exchange, answers)
    return b"".join(outcome_line(answer, exchange) for answer in answers)


def _count(exchange: Exchange, answers: list[object]) -> None:
    exchange.service.metrics.log(exchange.log).bulk_appends.add(len(answers))
    for answer in answers:
        exchange.count_append(answer)


def _request(line: bytes | StrandlineError, metadata: Mapping[str, str]) -> AppendRequest | Exception:
    if isinstance(line, StrandlineError):
        return line
    try:
        return request_of(_decode(line), metadata)
    except Exception as error:  # noqa: BLE001 - a bad line is answered in its place
        return error


async def _outcomes(exchange: Exchange, requests: list[AppendRequest]) -> list[object]:
    if not requests:
        return []
    try:
        outcomes = await exchange.store.append_many(requests)
        return [
            await with_conflicts(exchange.store, outcome, request.condition)
            if isinstance(outcome, AppendConditionFailed)
            else outcome
            for request, outcome in zip(requests, outcomes, strict=True)
        ]
    except InvalidInput as error:  # nothing is written: find the request that the store refuses
        if len(requests) == 1:
            return [error]
        return [outcome for request in requests for outcome in await _outcomes(exchange, [request])]
    except StrandlineError as error:
        return [error] * len(requests)
