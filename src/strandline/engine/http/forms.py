"""The JSON forms of the protocol: what is asked, written down, and what is answered, read."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from ...append import AppendCondition, AppendRequest, AppendResult, Check
from ...event import TRACKING, SequencedEvent, encode_metadata, encode_sorted, raw_tags_of, to_microseconds
from ...query import Query
from ...retag import Retag
from .. import Page, Span, Stats, Usage

_NO_METADATA = b"{}"


class EventForm(msgspec.Struct, gc=False):
    """An event of the log."""

    position: int
    id: UUID
    type: str
    recorded_at: datetime
    tags: list[str] = []
    stream: str | None = None
    subject: str | None = None
    key: str | None = None
    metadata: msgspec.Raw = msgspec.Raw(_NO_METADATA)
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data_base64: str | None = None
    tracking: tuple[str, int] | None = None

    def event(self) -> SequencedEvent:
        """Return the event."""
        data = self.data
        return SequencedEvent(
            self.position,
            self.type,
            base64.b64decode(self.data_base64 or "") if data is msgspec.UNSET else bytes(data),
            raw_tags_of(tuple(self.tags), self.key),
            self.stream,
            self.subject,
            self.id.bytes,
            self._metadata(),
            to_microseconds(self.recorded_at),
        )

    def _metadata(self) -> bytes | None:
        metadata = bytes(self.metadata)
        if self.tracking is not None:
            source, position = self.tracking
            given: dict[str, str] = msgspec.json.decode(metadata)
            return encode_metadata({**given, TRACKING: f"{position} {source}"})
        return None if metadata == _NO_METADATA else metadata


class NextForm(msgspec.Struct):
    """The read that goes on where a page ends."""

    after: int = 0
    until: int | None = None
    backwards: bool = False


class PageForm(msgspec.Struct):
    """A page of a read."""

    events: list[EventForm]
    head: int
    next: NextForm | None = None

    def page(self) -> Page:
        """Return the page."""
        more = self.next
        rest = None if more is None else Span(more.after, more.until, more.backwards)
        return Page([each.event() for each in self.events], self.head, rest)


class EndForm(msgspec.Struct):
    """The end of a stream of lines."""

    head: int


class LineForm(msgspec.Struct):
    """A line of a stream: an event, the end, or a problem."""

    event: EventForm | None = None
    end: EndForm | None = None
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class CheckForm(msgspec.Struct):
    """What an append would meet."""

    holds: bool
    head: int
    conflict: EventForm | None = None
    part: int | None = None
    item: int | None = None
    conflicts: list[EventForm] = []
    complete: bool = True
    condition: dict[str, Any] | None = None

    def check(self) -> Check:
        """Return what an append would meet."""
        return Check(
            self.holds,
            self.head,
            None if self.conflict is None else self.conflict.event(),
            self.part,
            self.item,
            tuple(each.event() for each in self.conflicts),
            self.complete,
            None if self.condition is None else AppendCondition.from_fields(self.condition),
        )


class UsageForm(msgspec.Struct):
    """A type or a tag with its figures."""

    count: int
    first: int
    last: int
    type: str = ""
    tag: str = ""

    def usage(self) -> Usage:
        """Return the figures."""
        return Usage(self.type or self.tag, self.count, self.first, self.last)


class UsagesForm(msgspec.Struct):
    """A page of types or of tags."""

    types: list[UsageForm] = []
    tags: list[UsageForm] = []


class HeadForm(msgspec.Struct):
    """The last position."""

    head: int


class PositionForm(msgspec.Struct):
    """A position."""

    position: int


class ExistsForm(msgspec.Struct):
    """Whether an event matches."""

    exists: bool


class CountForm(msgspec.Struct):
    """How many events match."""

    count: int


class LogForm(msgspec.Struct):
    """Figures about a log."""

    stats: Stats


class LogsForm(msgspec.Struct):
    """The names of logs."""

    logs: list[str]


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder. It is made when a module is loaded, by one thread: see domain/codec.py."""
    return msgspec.json.Decoder(kind)


RESULT = decoder(AppendResult)


def read_body(query: Query, span: Span, limit: int | None) -> bytes:
    """Return the body of a read."""
    return encode_sorted(
        {
            "query": _query(query),
            "after": span.after,
            "until": span.until,
            "backwards": span.backwards,
            "limit": limit,
        }
    )


def select_body(query: Query, after: int) -> bytes:
    """Return the body of a count, or of the question whether there is an event."""
    return encode_sorted({"query": _query(query), "after": after})


def check_body(condition: AppendCondition, conflicts: int) -> bytes:
    """Return the body of a dry run."""
    return encode_sorted({"condition": _condition(condition), "conflicts": conflicts})


def append_body(request: AppendRequest) -> bytes:
    """Return the body of an append, which is one line."""
    body: dict[str, Any] = {"events": [msgspec.Raw(event.to_line()) for event in request.events]}
    if request.condition is not None:
        body["condition"] = _condition(request.condition)
    if request.unless_exists is not None:
        body["unless_exists"] = _query(request.unless_exists)
    if request.tracking is not None:
        body["tracking"] = request.tracking
    return encode_sorted(body)


def retag_body(retag: Retag) -> bytes:
    """Return the body of a retag."""
    body: dict[str, Any] = {"add": retag.add}
    if isinstance(retag.target, Query):
        body["query"] = _query(retag.target)
    else:
        body["positions"] = retag.target
    if retag.replace:
        # The tags go as values behind their prefix.
        body["replace"] = {
            prefix: sorted(tag.removeprefix(f"{prefix}:") for tag in tags)
            for prefix, tags in retag.replace.items()
        }
    return encode_sorted(body)


def _query(query: Query) -> msgspec.Raw:
    query.refuse_callables()
    return msgspec.Raw(query.to_json().encode())


def _condition(condition: AppendCondition) -> msgspec.Raw:
    for part in condition.parts:
        part.fail_if_events_match.refuse_callables()
    return msgspec.Raw(condition.to_json().encode())
