"""The calls behind the routes of followers: looked at, steered, and leased to consumers in any language."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any

import msgspec

from ..errors import InvalidInput
from ..follow import AsyncFollower, DeadLetter, InvalidToken, Leased
from .bodies import AckBody, GiveUpBody, LeaseBody, ResetBody, place_of, query_of
from .calls import position_in_path
from .exchange import Answer, Exchange, encode
from .problem import AtField, raw_event


async def list_followers(exchange: Exchange) -> Answer:
    """List the followers."""
    return Answer(encode({"followers": await exchange.store.followers()}))


async def pause(exchange: Exchange) -> Answer:
    """Deliver nothing more, whoever runs the follower, until it is resumed."""
    follower = await _find(exchange)
    await follower.pause()
    return await _status(follower)


async def resume(exchange: Exchange) -> Answer:
    """Let a paused follower go on."""
    follower = await _find(exchange)
    await follower.resume()
    return await _status(follower)


async def reset(exchange: Exchange) -> Answer:
    """Let a follower go on after another position, or after a time."""
    body: ResetBody = exchange.body
    place = place_of(body)
    follower = await _find(exchange)
    try:
        await follower.reset(place)
    except InvalidInput as error:
        raise AtField(error, "$.position") from error
    return await _status(follower)


async def dead_letters(exchange: Exchange) -> Answer:
    """List the events that a follower gave up on."""
    letters = await (await _find(exchange)).dead_letters()
    return Answer(encode({"dead_letters": [_letter(letter) for letter in letters]}))


async def discard(exchange: Exchange) -> Answer:
    """Remove a dead letter."""
    position = position_in_path(exchange)
    follower = await _find(exchange)
    await follower.discard(position)
    return await _status(follower)


async def lease(exchange: Exchange) -> Answer:
    """Take the next events of a follower, with a token to acknowledge them."""
    body: LeaseBody = exchange.body
    follower = await _find(exchange) if body.query is None else _named(exchange, body)
    taking = follower.lease(body.batch, wait=body.wait, seconds=body.seconds)
    try:
        if not body.wait:
            return Answer(_leased(await taking))
        waiting = _one(exchange.unless_over(taking))
        async with aclosing(exchange.service.callers.while_valid(exchange.caller, waiting)) as pieces:
            return Answer(await anext(pieces))
    except InvalidInput as error:
        raise AtField(error, "$.query" if body.query is None else "$.after") from error


async def ack(exchange: Exchange) -> Answer:
    """Acknowledge leased events: all of them, or those up to a position."""
    body: AckBody = exchange.body
    follower = await _find(exchange)
    try:
        return Answer(encode({"position": await follower.ack(body.token, body.position)}))
    except InvalidInput as error:
        raise _at_field(error) from error


async def give_up(exchange: Exchange) -> Answer:
    """Make a dead letter of a leased event, and go on behind it."""
    body: GiveUpBody = exchange.body
    follower = await _find(exchange)
    try:
        position = await follower.give_up(body.token, body.position, body.error)
        return Answer(encode({"position": position}))
    except InvalidInput as error:
        raise _at_field(error) from error


async def _find(exchange: Exchange) -> AsyncFollower:
    try:
        return await exchange.store.find_follower(exchange.path["name"])
    except InvalidInput as error:
        raise AtField(error, "/name") from error


def _named(exchange: Exchange, body: LeaseBody) -> AsyncFollower:
    query = query_of(body.query)
    try:
        return exchange.store.follower(exchange.path["name"], query, body.after)
    except InvalidInput as error:
        raise AtField(error, "/name") from error


async def _one(taking: Awaitable[Leased | None]) -> AsyncGenerator[bytes]:
    yield _leased(await taking)


def _leased(leased: Leased | None) -> bytes:
    if leased is None:
        return encode({"events": [], "position": None, "token": None, "expires": None})
    fields = {"position": leased.position, "token": leased.token, "expires": leased.expires}
    return encode({"events": [raw_event(event) for event in leased.events], **fields})


async def _status(follower: AsyncFollower) -> Answer:
    return Answer(encode(await follower.status()))


def _letter(letter: DeadLetter) -> dict[str, Any]:
    fields = msgspec.structs.asdict(letter)
    del fields["raw_time"]
    return {**fields, "time": letter.time}


def _at_field(error: InvalidInput) -> AtField:
    return AtField(error, "$.token" if isinstance(error, InvalidToken) else "$.position")
