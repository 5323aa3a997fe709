"""The bodies and parameters of requests: their fields and types, and the values that they become.

These classes are the only description of a request. Decoding uses them, and so does the API description.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ..append import AppendCondition, AppendRequest
from ..codec import decode_data
from ..errors import InvalidEvent, InvalidInput, InvalidQuery, PayloadTooLarge, StrandlineError
from ..event import Event
from ..names import check_tracking
from ..query import Query, QueryItem
from ..retag import Retag
from .problem import AtField, wrong_shape

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
Position = Annotated[int, Meta(ge=0, description="A position of the log, or 0.")]
Limit = Annotated[int, Meta(ge=1, description="At most so many events.")]
Format = Literal["json", "ndjson", "csv", "arrow", "sse"]
_JSON_HINT = "/openapi.json describes the fields of every request"


class Body(Struct, forbid_unknown_fields=True):
    """A JSON object of a request. Unknown fields are refused."""


class ItemBody(Body):
    """An item of a query: an event matches if it has one of the types and all of the tags."""

    types: list[str] = []
    tags: list[str] = []
    exclude_types: list[str] = []
    stream: str | None = None
    subject: str | None = None
    where: dict[str, Any] | None = None
    key: str | None = None


class QueryBody(Body):
    """A query: its items are joined by OR. `{"items": [{}]}` matches every event."""

    items: list[ItemBody]


class PartBody(Body):
    """A part of an append condition: no event that matches may be newer than `after`."""

    fail_if_events_match: QueryBody
    after: Position = 0


class ConditionBody(Body):
    """An append condition: `fail_if_events_match` and `after`, or several `parts`."""

    fail_if_events_match: QueryBody | UnsetType = UNSET
    after: Position | UnsetType = UNSET
    parts: list[PartBody] | UnsetType = UNSET


class EventBody(Body):
    """An event to append. `data` is any JSON value. Other bytes go into `data_base64` instead."""

    type: str
    data: Raw | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    tags: list[str] = []
    id: str | None = None
    metadata: dict[str, str] = {}
    stream: str | None = None
    subject: str | None = None
    key: str | None = None
    position: int | None = (
        None  # ignored, as by Event.from_json: a line that was read can be appended elsewhere
    )
    recorded_at: str | None = None  # ignored
    tracking: tuple[str, int] | None = None  # ignored


class AppendBody(Body):
    """One append."""

    events: list[EventBody]
    condition: ConditionBody | None = None
    unless_exists: QueryBody | None = None
    stream: str | None = None
    tracking: tuple[str, int] | None = None


class ReadBody(Body):
    """A read of the events with positions in `(after, until]`."""

    query: QueryBody | None = None
    after: Position = 0
    until: Position | None = None
    limit: Limit | None = None
    backwards: bool = False


class SelectBody(Body):
    """A query, and the position after which it counts."""

    query: QueryBody | None = None
    after: Position = 0


class CheckBody(Body):
    """A condition to try, and how many of the conflicts to list."""

    condition: ConditionBody
    conflicts: Annotated[int, Meta(ge=0, le=10_000)] = 20


class RetagBody(Body):
    """A retag of the events of a query, or of those at some positions."""

    query: QueryBody | UnsetType = UNSET
    positions: list[Position] | UnsetType = UNSET
    add: list[str] = []
    replace: dict[str, list[str]] | None = None


class LeaseBody(Body):
    """A lease of the next events of a follower. A new follower needs its query, and may begin after a position."""

    query: QueryBody | None = None
    after: Position = 0
    batch: Annotated[int, Meta(ge=1, le=1_000)] = 500
    wait: Annotated[float, Meta(ge=0, le=60)] = 0.0
    seconds: Annotated[float, Meta(ge=0.01, le=86_400)] = 30.0


class AckBody(Body):
    """An acknowledgement of leased events: of all, or of those up to a position."""

    token: str
    position: Position | None = None


class GiveUpBody(Body):
    """A leased event that its consumer could not handle, and why."""

    token: str
    position: Position
    error: str


class ResetBody(Body):
    """Where a follower is to go on: after a position, or after what was recorded up to a time."""

    position: Position | UnsetType = UNSET
    at: str | UnsetType = UNSET


class LoginBody(Body):
    """What the page to log in sends."""

    csrf: str
    token: str


class LogoutBody(Body):
    """What the button to log out sends."""

    csrf: str = ""


class NoParameters(Body):
    """A request without parameters."""


class FormatParameters(Body):
    """The form of the answer, for clients that cannot set `Accept`."""

    format: Format | None = None


class EventsParameters(FormatParameters):
    """A read by parameters. `query` is the JSON of a query, instead of the fields of one item."""

    type: list[str] = []
    tag: list[str] = []
    exclude_type: list[str] = []
    stream: str | None = None
    subject: str | None = None
    where: str | None = None
    query: str | None = None
    after: Position = 0
    until: Position | None = None
    limit: Limit | None = None
    backwards: bool = False
    at: str | None = None


class NamesParameters(Body):
    """A page of names: those that begin with `prefix` and come behind `after`."""

    prefix: str = ""
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100


class AppendsParameters(Body):
    """The recorded appends that begin in `(after, until]`."""

    after: Position = 0
    until: Position | None = None
    limit: Limit | None = None
    backwards: bool = False


class AtParameters(Body):
    """A time with its zone, as in `2026-11-19T12:00:00Z`."""

    at: str


def decoder_of(kind: type[T]) -> Callable[[bytes], T]:
    """Return a function that decodes a body, or raises the 422 with the path of the field."""
    decode = msgspec.json.Decoder(kind).decode

    def decoded(body: bytes) -> T:
        try:
            return decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
            raise wrong_shape(error, hint=_JSON_HINT) from error

    return decoded


def form_decoder_of(kind: type[S]) -> Callable[[bytes], S]:
    """Return a function that decodes the body that a form in a page sends."""

    def decoded(body: bytes) -> S:
        try:
            pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError as error:
            reason = InvalidInput(f"the body is not a form: {error}", hint="send name=value pairs in UTF-8")
            raise AtField(reason, "$") from error
        return parameters_of(kind, pairs)

    return decoded


def parameters_of(kind: type[S], given: list[tuple[str, str]]) -> S:
    """Return the parameters of a request, or raise the 422 with the name of the parameter."""
    if kind is NoParameters and not given:
        return kind()
    repeatable = _repeatable(kind)
    values: dict[str, Any] = {}
    for name, value in given:
        if name in repeatable:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise AtField(InvalidInput(f"{name} is given twice", hint=f"give {name} once"), f"?{name}")
        else:
            values[name] = value
    try:
        return msgspec.convert(values, kind, strict=False)
    except (msgspec.MsgspecError, ValueError) as error:
        problem = wrong_shape(error, hint=_JSON_HINT)
        problem.path = problem.path.replace("$.", "?", 1)
        raise problem from error


@cache
def _repeatable(kind: type[Struct]) -> frozenset[str]:
    return frozenset(each.name for each in msgspec.structs.fields(kind) if each.default_factory is list)


def checked_condition_of(body: CheckBody) -> AppendCondition:
    """Return the condition that a check is about."""
    condition = condition_of(body.condition)
    assert condition is not None
    return condition


def query_of(body: QueryBody | None, path: str = "$.query") -> Query:
    """Return the query of a body; without one, every event."""
    if body is None:
        return Query.all()
    items = [_item_of(item, f"{path}.items[{index}]") for index, item in enumerate(body.items)]
    return _at(f"{path}.items", lambda: Query(items))


def condition_of(body: ConditionBody | None, path: str = "$.condition") -> AppendCondition | None:
    """Return the condition of a body."""
    if body is None:
        return None
    if body.parts is not UNSET:
        if body.fail_if_events_match is not UNSET or body.after is not UNSET:
            raise AtField(InvalidInput("a condition has parts or a query, not both", hint=_CONDITION), path)
        parts = [_part_of(part, f"{path}.parts[{index}]") for index, part in enumerate(body.parts)]
        return _at(f"{path}.parts", lambda: AppendCondition.all_of(*parts))
    if body.fail_if_events_match is UNSET:
        field = f"{path}.fail_if_events_match"
        raise AtField(InvalidInput("a condition lacks its fail_if_events_match", hint=_CONDITION), field)
    after = 0 if body.after is UNSET else body.after
    return _part_of(PartBody(body.fail_if_events_match, after), path)


def request_of(body: AppendBody, metadata: Mapping[str, str]) -> AppendRequest:
    """Return the append that a body asks for, with this metadata added to each event."""
    events = [_event_of(event, f"$.events[{index}]") for index, event in enumerate(body.events)]
    if metadata:
        events = [event.with_metadata(metadata) for event in events]
    condition = condition_of(body.condition)
    unless_exists = None if body.unless_exists is None else query_of(body.unless_exists, "$.unless_exists")
    if body.tracking is not None:
        _at("$.tracking", lambda: check_tracking(body.tracking))
    path = "$.events" if body.stream is None else "$.stream"
    return _at(path, lambda: AppendRequest(events, condition, body.stream, unless_exists, body.tracking))


def at_append_field(error: InvalidInput, body: AppendBody) -> Exception:
    """Return the error with the path of the field because of which a store refused an append."""
    if type(error) is InvalidInput:
        return AtField(error, path_of_after(body.condition))
    return AtField(error, "$.events") if isinstance(error, PayloadTooLarge) else error


def path_of_after(body: ConditionBody | None) -> str:
    """Return the path of the highest `after` of a condition: the one that is beyond the head if one is."""
    if body is None or body.parts is UNSET:
        return "$" if body is None else "$.condition.after"
    positions = [part.after for part in body.parts]
    return f"$.condition.parts[{positions.index(max(positions))}].after"


def place_of(body: ResetBody) -> int | datetime:
    """Return where a follower is to go on."""
    if body.position is not UNSET and body.at is UNSET:
        return body.position
    if body.at is not UNSET and body.position is UNSET:
        return time_of(body.at, "$.at")
    raise AtField(InvalidInput("a reset has a position or a time", hint="give position or at"), "$.position")


def time_of(text: str, path: str = "?at") -> datetime:
    """Return the time that a field or a parameter gives."""
    try:
        when = datetime.fromisoformat(text)
        if when.utcoffset() is None:
            raise ValueError("it has no time zone")
    except ValueError as error:
        # In a query string a plus sign means a space.
        hint = "write 2026-11-19T12:00:00Z" + (", with + as %2B" if path.startswith("?") else "")
        raise AtField(InvalidInput(f"{text!r:.40} is not a time: {error}", hint=hint), path) from error
    return when


def target_of(body: RetagBody) -> Query | list[int]:
    """Return what a retag is about."""
    if body.query is not UNSET and body.positions is UNSET:
        return query_of(body.query)
    if body.positions is not UNSET and body.query is UNSET:
        return body.positions
    raise AtField(InvalidInput("a retag has a query or positions", hint="give one of them"), "$.query")


def path_in_retag(body: RetagBody) -> str:
    """Return the path of the field because of which a retag was refused."""
    for name, value in {"add": body.add, "replace": body.replace}.items():
        blamed = _blamed(partial(Retag, []), {}, name, value) if value else None
        if blamed is not None:
            return f"$.{blamed[0]}"
    if not body.add and not body.replace:
        return "$.add"
    return "$.query" if body.positions is UNSET else "$.positions"


def query_of_parameters(parameters: EventsParameters) -> Query:
    """Return the query that the parameters ask for: one item, or `query`."""
    fields: dict[str, Any] = {
        "types": parameters.type,
        "tags": parameters.tag,
        "exclude_types": parameters.exclude_type,
        "stream": parameters.stream,
        "subject": parameters.subject,
        "where": _where_of(parameters.where),
    }
    given = {name: value for name, value in fields.items() if value not in (None, [])}
    if parameters.query is None:
        try:
            return Query.of(QueryItem(**given))
        except InvalidInput as error:
            raise _blame(error, QueryItem, given, {}, "?", _PARAMETERS) from error
    if given:
        reason = InvalidQuery("query stands alone", hint=f"leave out {', '.join(given)}, or query")
        raise AtField(reason, "?query")
    try:
        body = _decode_query(parameters.query.encode())
    except AtField as error:
        error.path = "?query" + error.path.removeprefix("$")
        raise
    return query_of(body, "?query")


def _where_of(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        return _decode_where(text.encode())
    except AtField as error:
        error.path = "?where"
        raise


def _part_of(body: PartBody, path: str) -> AppendCondition:
    query = query_of(body.fail_if_events_match, f"{path}.fail_if_events_match")
    return AppendCondition(query, body.after)


def _item_of(body: ItemBody, path: str) -> QueryItem:
    excluded = body.exclude_types or ()
    try:
        return QueryItem(body.types, body.tags, excluded, body.stream, body.subject, body.where, body.key)
    except InvalidInput as error:
        raise _blame(error, QueryItem, _given(body), {}, f"{path}.") from error


def _event_of(body: EventBody, path: str) -> Event:
    data = _data_of(body, path)
    try:
        event = Event(
            body.type,
            data,
            tags=body.tags,
            id=body.id,
            metadata=body.metadata or None,
            stream=body.stream,
            subject=body.subject,
        )
    except InvalidInput as error:
        given = {name: value for name, value in _given(body).items() if name in _OF_EVENT}
        raise _blame(error, partial(Event, data=data), given, {"type": "T"}, f"{path}.") from error
    if body.key is None:
        return event
    return _at(f"{path}.key", partial(event.with_key, body.key))


def _data_of(body: EventBody, path: str) -> bytes:
    raw, encoded = body.data, body.data_base64
    if (raw is UNSET) == (encoded is UNSET):
        reason = "has both data and data_base64" if raw is not UNSET else "lacks its data"
        raise AtField(InvalidEvent(f"an event {reason}", hint=_EVENT), f"{path}.data")
    if encoded is not UNSET:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            reason = f"data_base64 is not base64: {error}"
            raise AtField(InvalidEvent(reason, hint=_EVENT), f"{path}.data_base64") from error
    data = bytes(raw)  # type: ignore[arg-type]
    try:
        decode_data(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        reason = f"data is not JSON: {error}"
        raise AtField(InvalidEvent(reason, hint="send other bytes as data_base64"), f"{path}.data") from error
    # A newline would keep the data from being embedded in a line of JSON later.
    return msgspec.json.format(data, indent=-1) if b"\n" in data or b"\r" in data else data


def _given(body: Struct) -> dict[str, Any]:
    fields = msgspec.structs.asdict(body)
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _at(path: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except StrandlineError as error:
        raise AtField(error, path) from error


def _blame(
    error: InvalidInput,
    make: Callable[..., object],
    given: Mapping[str, Any],
    rest: Mapping[str, Any],
    path: str,
    names: Mapping[str, str] | None = None,
) -> AtField:
    """Return why `make(**given)` fails, with the path of the field to blame. It tries each field alone."""
    for name, value in given.items():
        parameter = None if names is None else names.get(name, name)
        field, cause = _blamed(make, rest, name, value) or ("", None)
        if cause is not None:
            return AtField(cause, f"{path}{parameter or field}")
    return AtField(error, path.rstrip("."))


def _blamed(
    make: Callable[..., object], rest: Mapping[str, Any], name: str, value: Any
) -> tuple[str, InvalidInput] | None:
    """Return the field that cannot be, or one of its elements, with the error that it leads to."""
    tries = [(f"{name}[{index}]", [each]) for index, each in enumerate(value)] if type(value) is list else []
    for field, tried in [*tries, (name, value)]:
        try:
            make(**{**rest, name: tried})
        except InvalidInput as error:
            return field, error
    return None


_decode_query = decoder_of(QueryBody)
_decode_where = decoder_of(dict[str, Any])
_PARAMETERS = {"types": "type", "tags": "tag", "exclude_types": "exclude_type"}
_OF_EVENT = frozenset({"type", "tags", "id", "metadata", "stream", "subject"})
_EVENT = 'write {"type": "…", "data": {…}, "tags": ["…"]}'
_CONDITION = 'write {"fail_if_events_match": {"items": […]}, "after": 0}, as a read answers it'
