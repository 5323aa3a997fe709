"""The calls behind the routes. Each is one call of the public API, and its answer."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from uuid import UUID

from .. import Usage
from ..aio import AsyncAppends
from ..errors import AppendConditionFailed, InvalidInput, NotFound
from ..names import check_name
from .bodies import (
    AppendBody,
    AppendsParameters,
    AtParameters,
    CheckBody,
    EventsParameters,
    NamesParameters,
    ReadBody,
    RetagBody,
    SelectBody,
    at_append_field,
    checked_condition_of,
    path_in_retag,
    path_of_after,
    query_of,
    query_of_parameters,
    request_of,
    target_of,
    time_of,
)
from .bulk import append_lines
from .conflicts import with_conflicts
from .exchange import Answer, Exchange, Headers, Stream, encode
from .formats import Asked, answer_events, error_line
from .problem import AtField, ShuttingDown, raw_condition, raw_event

_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


async def append(exchange: Exchange) -> Answer:
    """Append events atomically.

    With a `condition`, only if no event that matches it is newer than its `after`. Events with ids of your own make the
    append safe to repeat: the same append again is answered with 200 and `duplicate`.
    """
    body: AppendBody = exchange.body
    request = request_of(body, metadata_of(exchange))
    try:
        result = await exchange.store.append(
            request.events,
            request.condition,
            unless_exists=request.unless_exists,
            tracking=request.tracking,
        )
    except AppendConditionFailed as error:
        exchange.count_append(error)
        raise await with_conflicts(exchange.store, error, request.condition) from error
    except InvalidInput as error:
        raise at_append_field(error, body) from error
    exchange.count_append(result)
    return Answer(encode(result), 200 if result.duplicate else 201)


async def append_many(exchange: Exchange) -> Stream:
    """Append what each line asks for.

    Each line is the body of one append, as for `POST …/events`, and is answered by one line in the same order: its result or
    a problem. A line that is refused does not stop the others. Any number of lines may come.
    """
    return Stream(append_lines(exchange, metadata_of(exchange)), reads_body=True)


async def read_by_parameters(exchange: Exchange) -> Answer | Stream:
    """Read the events that the parameters ask for.

    `type`, `tag`, `exclude_type`, `stream`, `subject` and `where` make one item of a query. `query` stands alone.
    """
    parameters: EventsParameters = exchange.parameters
    until = parameters.until
    query = query_of_parameters(parameters)
    if parameters.at is not None:
        position = await exchange.store.position_at(time_of(parameters.at))
        until = position if until is None else min(until, position)
    asked = Asked(
        query, after=parameters.after, until=until, limit=parameters.limit, backwards=parameters.backwards
    )
    return await answer_events(exchange, asked)


async def read(exchange: Exchange) -> Answer | Stream:
    """Read the events of a query.

    The answer is a page, or a stream if you accept one, and hands over the `condition` to append with.
    """
    body: ReadBody = exchange.body
    asked = Asked(
        query_of(body.query),
        after=body.after,
        until=body.until,
        limit=body.limit,
        backwards=body.backwards,
    )
    return await answer_events(exchange, asked)


async def exists(exchange: Exchange) -> Answer:
    """Tell whether an event matches."""
    body: SelectBody = exchange.body
    return Answer(encode({"exists": await exchange.store.exists(query_of(body.query), body.after)}))


async def count(exchange: Exchange) -> Answer:
    """Count the events that match."""
    body: SelectBody = exchange.body
    return Answer(encode({"count": await exchange.store.count(query_of(body.query), body.after)}))


async def check(exchange: Exchange) -> Answer:
    """Tell what an append under a condition would meet.

    Nothing is written.
    """
    body: CheckBody = exchange.body
    try:
        found = await exchange.store.check(checked_condition_of(body), conflicts=body.conflicts)
    except InvalidInput as error:
        raise AtField(error, path_of_after(body.condition)) from error
    fields = {
        "holds": found.holds,
        "head": found.head,
        "conflict": None if found.conflict is None else raw_event(found.conflict),
        "part": found.part,
        "item": found.item,
        "conflicts": [raw_event(event) for event in found.conflicts],
        "complete": found.complete,
        "condition": raw_condition(found.condition),
    }
    return Answer(encode(fields))


async def event_at(exchange: Exchange) -> Answer:
    """Return the event at a position."""
    return Answer((await exchange.store.event(position_in_path(exchange))).to_line())


async def event_with_id(exchange: Exchange) -> Answer:
    """Return the event with an id.

    It tells whether an append with an unknown outcome was written.
    """
    text = exchange.path["id"]
    try:
        event_id = UUID(text)
    except ValueError as error:
        raise AtField(
            InvalidInput(f"{text!r:.40} is not a UUID", hint="give the event's id"), "/id"
        ) from error
    return Answer((await exchange.store.event(event_id)).to_line())


async def tracked(exchange: Exchange) -> Answer:
    """Return the last position of an upstream source that an append tracked.

    Go on behind it: a position that does not increase is refused.
    """
    source = exchange.path["source"]
    try:
        position = await exchange.store.tracked(source)
    except InvalidInput as error:
        raise AtField(error, "/source") from error
    if position is None:
        raise NotFound(f"no append has tracked {source!r:.80}", hint="begin at the source's first position")
    return Answer(encode({"position": position}))


async def types(exchange: Exchange) -> Answer:
    """List the types of events with their counts.

    In the order of their names, with the positions of the first and the last event of each.
    """
    return await _names(exchange, "type", exchange.store.inspect.types)


async def tags(exchange: Exchange) -> Answer:
    """List the tags of events with their counts.

    In the order of their names, with the positions of the first and the last event of each.
    """
    return await _names(exchange, "tag", exchange.store.inspect.tags)


async def _names(exchange: Exchange, kind: str, names: Callable[..., Awaitable[list[Usage]]]) -> Answer:
    parameters: NamesParameters = exchange.parameters
    _check_names(parameters)
    found = await names(parameters.prefix, after=parameters.after, limit=parameters.limit)
    rows = [{kind: each.name, "count": each.count, "first": each.first, "last": each.last} for each in found]
    is_full = len(found) == parameters.limit
    behind = await names(parameters.prefix, after=found[-1].name, limit=1) if is_full else []
    return Answer(encode({f"{kind}s": rows, "next": found[-1].name if behind else None}))


def _check_names(parameters: NamesParameters) -> None:
    for name, kind in {"prefix": "prefix", "after": "name"}.items():
        text = getattr(parameters, name)
        try:
            if text:
                check_name(text, kind, InvalidInput)
        except InvalidInput as error:
            raise AtField(error, f"?{name}") from error


async def head(exchange: Exchange) -> Answer:
    """Return the last position. A header says how large the data of an event may be."""
    limit = b"%d" % exchange.store.max_data_bytes
    fields = {"head": await exchange.store.head()}
    return Answer(encode(fields), headers=[(b"strandline-max-data-bytes", limit)])


async def position_at(exchange: Exchange) -> Answer:
    """Return the last position at a time."""
    parameters: AtParameters = exchange.parameters
    return Answer(encode({"position": await exchange.store.position_at(time_of(parameters.at))}))


async def describe(exchange: Exchange) -> Answer:
    """Return figures about the log."""
    stats = await exchange.store.stats()
    fields = {"log": exchange.log, "uuid": stats.log, "engine": stats.engine}
    return Answer(encode({**fields, "head": stats.head, "stats": stats}))


async def retag(exchange: Exchange) -> Answer:
    """Change the tags of events.

    Open decisions that depend on one of the events are refused afterwards.
    """
    body: RetagBody = exchange.body
    try:
        result = await exchange.store.retag(target_of(body), add=body.add, replace=body.replace)
    except InvalidInput as error:
        raise AtField(error, path_in_retag(body)) from error
    exchange.count_append(result)
    return Answer(encode(result), 201)


async def appends(exchange: Exchange) -> Stream:
    """List the recorded appends.

    With the conditions under which they were taken, one per line. The last line is `{"end": {"head"}}` or `{"error"}`.
    """
    asked: AppendsParameters = exchange.parameters
    head = await exchange.store.head()
    until = head if asked.until is None else min(head, asked.until)
    found = exchange.store.appends(asked.after, until=until, backwards=asked.backwards, limit=asked.limit)
    return Stream(_append_lines(exchange, found, head))


async def append_holding(exchange: Exchange) -> Answer:
    """Return the recorded append that wrote a position."""
    append = await exchange.store.inspect.recorded(position_in_path(exchange))
    return Answer(append.to_json().encode())


async def logs(exchange: Exchange) -> Answer:
    """List the logs that the token may see."""
    names = exchange.service.logs.names
    return Answer(encode({"logs": [name for name in names if exchange.caller.may_see(name)]}))


async def metrics(exchange: Exchange) -> Answer:
    """Return the metrics of the server, for Prometheus."""
    accept = (exchange.header(b"accept") or b"").decode("latin-1")
    page, content_type = await exchange.service.scrape.page(accept)
    return Answer(page, content_type=content_type.encode())


async def healthz(exchange: Exchange) -> Answer:
    """Answer that the server is alive."""
    return Answer(encode({"status": "alive"}))


async def readyz(exchange: Exchange) -> Answer:
    """Answer 200 if every log answers and the server is not about to end."""
    if exchange.service.is_draining:
        raise ShuttingDown("the server is shutting down")
    for name in exchange.service.logs.names:
        store = await exchange.service.logs.store(name)
        await store.head()
    return Answer(encode({"status": "ready"}))


def metadata_of(exchange: Exchange) -> dict[str, str]:
    """Return the metadata that appended events get from the headers of the request."""
    parent = traceparent_of(exchange)
    if parent is None or exchange.header(b"strandline-trace") != b"store":
        return {}
    return {"traceparent": parent.decode()}


def traceparent_of(exchange: Exchange) -> bytes | None:
    """Return the trace that the request belongs to, if its header is valid."""
    parent = exchange.header(b"traceparent")
    return parent if parent is not None and _TRACEPARENT.fullmatch(parent) else None


def trace_headers(exchange: Exchange) -> Headers:
    """Return the header that names the trace in the answer."""
    parent = traceparent_of(exchange)
    return [] if parent is None else [(b"traceparent", parent)]


async def _append_lines(exchange: Exchange, appends: AsyncAppends, head: int) -> AsyncGenerator[bytes]:
    try:
        async for append in appends:
            yield append.to_json().encode() + b"\n"
        yield encode({"end": {"head": head}}) + b"\n"
    except Exception as error:  # noqa: BLE001 - the last line says it
        yield error_line(error, exchange)


def position_in_path(exchange: Exchange) -> int:
    """Return the position that the path names."""
    text = exchange.path["position"]
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        reason = InvalidInput(f"{text!r:.40} is not a position", hint="positions are 1, 2, 3 …")
        raise AtField(reason, "/position")
    return int(text)
