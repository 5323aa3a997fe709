"""The answers as the description of the API shows them. Tests hold them against real answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ..follow import FollowerStatus
from .bodies import ConditionBody, ReadBody

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Id = Annotated[str, Meta(extra_json_schema={"format": "uuid"})]


class AppendAnswer(Struct):
    """What was appended, or what an earlier append with the same events had written."""

    first: int
    last: int
    count: int
    duplicate: bool


class RetagAnswer(AppendAnswer):
    """Where the `$retagged` events are that say what was changed."""

    changed: int


class EventAnswer(Struct):
    """An event of the log, with its present tags. It has `data` or `data_base64`."""

    position: int
    id: Id
    type: str
    tags: list[str]
    stream: str | None
    subject: str | None
    metadata: dict[str, str]
    recorded_at: Time
    data: Any | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    tracking: tuple[str, int] | UnsetType = UNSET


class PageAnswer(Struct):
    """A page of events."""

    events: list[EventAnswer]
    head: int
    condition: ConditionBody | None
    next: ReadBody | None


class ProblemAnswer(Struct):
    """A problem document (RFC 9457). The fields after `retry` are there where they have something to say."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    retry: Literal["no", "same", "decide"]
    path: str | UnsetType = UNSET
    written: bool | UnsetType | None = UNSET
    tracked: int | UnsetType = UNSET
    part: ConditionBody | UnsetType = UNSET
    conflict: EventAnswer | UnsetType = UNSET
    conflicts: list[EventAnswer] | UnsetType = UNSET
    complete: bool | UnsetType = UNSET
    condition: ConditionBody | UnsetType | None = UNSET


class EndOfEvents(Struct):
    """The facts at the end of a stream of events."""

    head: int
    condition: ConditionBody


class EventLine(Struct, forbid_unknown_fields=True):
    """A line of a stream with an event."""

    event: EventAnswer


class EndLine(Struct, forbid_unknown_fields=True):
    """The last line of a stream of events that is complete."""

    end: EndOfEvents


class ErrorLine(Struct, forbid_unknown_fields=True):
    """The last line of a stream that failed."""

    error: ProblemAnswer


class CheckAnswer(Struct):
    """What an append under a condition would meet now."""

    holds: bool
    head: int
    conflict: EventAnswer | None
    part: int | None
    item: int | None
    conflicts: list[EventAnswer]
    complete: bool
    condition: ConditionBody | None


class ExistsAnswer(Struct):
    """Whether an event matches."""

    exists: bool


class CountAnswer(Struct):
    """How many events match."""

    count: int


class HeadAnswer(Struct):
    """The last position of the log."""

    head: int


class PositionAnswer(Struct):
    """A position."""

    position: int


class StatsAnswer(Struct):
    """Figures about a log."""

    engine: str
    log: Id
    schema: int
    head: int
    appends: int
    refused: int
    types: int
    tags: int
    size_bytes: int
    now: Time
    record_conditions: bool
    max_data_bytes: int
    last_check: Time | None
    last_backup: Time | None


class LogAnswer(Struct):
    """A log and figures about it."""

    log: str
    uuid: Id
    engine: str
    head: int
    stats: StatsAnswer


class RecordedAppendAnswer(Struct):
    """An append as the log has recorded it."""

    first: int
    last: int
    condition: ConditionBody | None
    status: Literal["unconditional", "recorded", "not_recorded", "not_auditable"]
    recorded_at: Time


class EndOfAppends(Struct):
    """The facts at the end of the recorded appends."""

    head: int


class AppendsEndLine(Struct, forbid_unknown_fields=True):
    """The last line of the recorded appends, if they are complete."""

    end: EndOfAppends


class TypeUsage(Struct):
    """How a type is used."""

    type: str
    count: int
    first: int
    last: int


class TagUsage(Struct):
    """How a tag is used."""

    tag: str
    count: int
    first: int
    last: int


class TypesAnswer(Struct):
    """A page of types, in the order of their names."""

    types: list[TypeUsage]
    next: str | None


class TagsAnswer(Struct):
    """A page of tags, in the order of their names."""

    tags: list[TagUsage]
    next: str | None


class FollowersAnswer(Struct):
    """The followers of a log."""

    followers: list[FollowerStatus]


class DeadLetterAnswer(Struct):
    """An event that a follower gave up on."""

    follower: str
    position: int
    error: str
    traceback: str
    attempts: int
    time: Time


class DeadLettersAnswer(Struct):
    """The events that a follower gave up on, in order."""

    dead_letters: list[DeadLetterAnswer]


class LeaseAnswer(Struct):
    """Leased events. Without events, there is nothing to deliver."""

    events: list[EventAnswer]
    position: int | None
    token: str | None
    expires: Time | None


class LogsAnswer(Struct):
    """The names of the logs."""

    logs: list[str]


class StatusAnswer(Struct):
    """How the server is."""

    status: str
