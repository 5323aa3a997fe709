"""The engine over HTTP: a log that a Strandline server keeps.

It asks what the protocol of engines asks, by the routes of docs/http.md. What the server answers is what its own store
said, so positions, conflicts and errors mean the same as there. Nothing is kept here but idle connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn
from urllib.parse import quote
from uuid import UUID

import msgspec

from ...append import MAX_APPEND_BYTES, AppendCondition, Check, RecordedAppend
from ...errors import Forbidden, InvalidInput, NotFound, Unavailable
from ...event import SequencedEvent, from_microseconds, to_microseconds
from ...names import MAX_POSITION, RETAGGED
from ...query import Query
from ...retag import RetagHistory
from .. import Batch, Outcome, Page, Snapshot, Span, Stats, Usage
from ..following import DeadLetter, FollowerRow, Transaction
from ..threads import Bell
from . import forms
from .address import Address
from .client import NDJSON, RECONNECT_SECONDS, Client, Request
from .forms import decoder
from .problems import decode_problem
from .submission import Submission

LARGEST_PAGE = 10_000
"""A page with more events comes as lines."""
ALL = 2**31 - 1
POLL_SECONDS = 0.05
TRIES = 5
_LIMIT = b"strandline-max-data-bytes"
_RETAGS = Query.types(RETAGGED)

_HEAD, _POSITION, _PAGE = decoder(forms.HeadForm), decoder(forms.PositionForm), decoder(forms.PageForm)
_EXISTS, _COUNT, _CHECK = decoder(forms.ExistsForm), decoder(forms.CountForm), decoder(forms.CheckForm)
_USAGES, _LOG, _LOGS = decoder(forms.UsagesForm), decoder(forms.LogForm), decoder(forms.LogsForm)
_EVENT, _RAW, _LINE = decoder(forms.EventForm), decoder(msgspec.Raw), decoder(forms.LineForm)


class HttpEngine:
    """A log of a server."""

    name = "http"
    is_shared = True
    is_lost = False
    is_far = True
    read_seconds: float | None = None
    runs_callables = False

    def __init__(self, url: str, *, log: str, token: str | None) -> None:
        self.url, self.log = url, log
        self._client = Client(Address.of(url), token)
        self._path = f"/v1/logs/{quote(log, safe='')}"
        self._submission = Submission(self._client, self._path)
        self._log_id: UUID | None = None
        self._news = Bell()
        try:
            self.max_data_bytes = self._ask_limit()
        except BaseException:
            self._client.close()
            raise
        self._client.patience = RECONNECT_SECONDS

    def _ask_limit(self) -> int:
        """Return the largest data of an event that the server takes. This finds out whether the log is there, too."""
        answer = self._client.send(Request("GET", f"{self._path}/head"))
        try:
            self._submission.saw(self._client.decoded(answer, _HEAD).head)
        except Forbidden:  # a token that may only append
            return MAX_APPEND_BYTES
        limit = answer.headers.get(_LIMIT, b"")
        return int(limit) if limit.isdigit() else MAX_APPEND_BYTES

    def append(self, batch: Batch) -> list[Outcome]:
        return self._submission.send(batch())

    def log_id(self) -> UUID:
        if self._log_id is None:
            self._log_id = self.stats().log
        return self._log_id

    def head(self) -> int:
        found: forms.HeadForm = self._client.get(f"{self._path}/head", _HEAD)
        return self._submission.saw(found.head)

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        if size > LARGEST_PAGE:
            return self._read_at_once(query, span, size)
        body = forms.read_body(query, span, size)
        found: forms.PageForm = self._client.post(f"{self._path}/read", body, _PAGE)
        self._submission.saw(found.head)
        return found.page()

    async def read_page_awaited(self, query: Query, span: Span, size: int) -> Page | None:
        return None

    def _read_at_once(self, query: Query, span: Span, size: int = ALL) -> Page:
        """Return many events as of one moment.

        The server reads page by page. So a retag meanwhile may have brought an event in, or taken one out. Then all is
        read again.
        """
        for _ in range(TRIES):
            head = 0 if span.until is None else self.head()
            page = self._read_lines(query, span, size)
            if not self.exists(_RETAGS, max(head, page.head)):
                return page
        raise Unavailable(
            f"events are retagged all the time, so {TRIES} reads of all events never saw one state of the log",
            hint="read again when the retags are done",
        )

    def _read_lines(self, query: Query, span: Span, size: int) -> Page:
        body = forms.read_body(query, span, size)
        answer = self._client.send(Request("POST", f"{self._path}/read", body, NDJSON))
        if answer.status != 200 or answer.content_type != NDJSON:
            raise self._client.error_of(answer)
        try:
            *events, last = map(_LINE.decode, answer.body.splitlines())
            if last.error is not msgspec.UNSET:
                problem = decode_problem(bytes(last.error))
                raise self._client.stranger("an unknown error") if problem is None else problem.error()
            found, head = [line.event.event() for line in events], last.end.head
            rest = span.rest(head, found[-1].position) if len(found) == size else None
            return Page(found, head, rest)
        except (msgspec.MsgspecError, UnicodeError, ValueError, AttributeError) as error:
            raise self._client.stranger(f"lines that do not end as they should: {error}") from error

    def exists(self, query: Query, after: int) -> bool:
        body = forms.select_body(query, after)
        found: forms.ExistsForm = self._client.post(f"{self._path}/exists", body, _EXISTS)
        return found.exists

    def count(self, query: Query, after: int) -> int:
        body = forms.select_body(query, after)
        found: forms.CountForm = self._client.post(f"{self._path}/count", body, _COUNT)
        return found.count

    def check(self, condition: AppendCondition, most: int) -> Check:
        body = forms.check_body(condition, most)
        found: forms.CheckForm = self._client.post(f"{self._path}/check", body, _CHECK)
        return found.check()

    def tracked(self, source: str) -> int | None:
        try:
            found: forms.PositionForm = self._client.get(
                f"{self._path}/tracking/{quote(source, safe='')}", _POSITION
            )
        except NotFound:
            self.exists(Query.all(), MAX_POSITION)  # raises if it is the log that is not there
            return None
        return found.position

    def now(self) -> int:
        return to_microseconds(self.stats().now)

    def position_at(self, microseconds: int) -> int:
        when = from_microseconds(microseconds).isoformat().replace("+00:00", "Z")
        found: forms.PositionForm = self._client.get(f"{self._path}/positions?at={when}", _POSITION)
        return found.position

    def appends_page(self, span: Span, size: int) -> list[RecordedAppend]:
        until = "" if span.until is None else f"&until={span.until}"
        backwards = "&backwards=true" if span.backwards else ""
        path = f"{self._path}/appends?after={span.after}&limit={size}{until}{backwards}"
        answer = self._client.send(Request("GET", path, accept=NDJSON))
        if answer.status != 200 or answer.content_type != NDJSON:
            raise self._client.error_of(answer)
        *appends, last = answer.body.splitlines() or [b""]
        if not last.startswith(b'{"end"'):
            raise self._client.stranger("a list of appends that does not end as it should")
        return [RecordedAppend.from_json(line) for line in appends]

    def append_holding(self, position: int) -> RecordedAppend | None:
        try:
            found = self._client.get(f"{self._path}/appends/{position}", _RAW)
        except NotFound:
            self.exists(Query.all(), MAX_POSITION)
            return None
        return RecordedAppend.from_json(bytes(found))

    def types_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        return [each.usage() for each in self._names("types", prefix, after, size).types]

    def tags_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        return [each.usage() for each in self._names("tags", prefix, after, size).tags]

    def _names(self, kind: str, prefix: str, after: str, size: int) -> forms.UsagesForm:
        asked = f"prefix={quote(prefix, safe='')}&after={quote(after, safe='')}&limit={size}"
        found: forms.UsagesForm = self._client.get(f"{self._path}/{kind}?{asked}", _USAGES)
        return found

    def events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        found = (self._event(str(position)) for position in sorted(set(positions)))
        return [event for event in found if event is not None]

    def events_with_ids(self, ids: Sequence[bytes]) -> list[SequencedEvent]:
        found = (self._event(f"id/{UUID(bytes=each)}") for each in set(ids))
        events = sorted((event for event in found if event is not None), key=lambda event: event.position)
        if not events:
            return []
        history = RetagHistory(self._read_at_once(_RETAGS, Span(events[0].position)).events)
        return [event.with_present_tags(history.tags(event, event.position)) for event in events]

    def _event(self, path: str) -> SequencedEvent | None:
        try:
            found: forms.EventForm = self._client.get(f"{self._path}/events/{path}", _EVENT)
        except NotFound:
            return None
        return found.event()

    def stats(self) -> Stats:
        found: forms.LogForm = self._client.get(f"{self._path}/", _LOG)
        return msgspec.structs.replace(found.stats, engine=self.name)

    def load_snapshot(self, projection: str, key: str) -> Snapshot | None:
        return None

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Nothing is kept: snapshots may be lost at any time, and the decision cache is here."""

    def transaction(self) -> Transaction:
        raise _no_tables()

    def followers(self, name: str | None = None) -> list[FollowerRow]:
        raise _no_tables()

    def dead_letters(self, follower: str) -> list[DeadLetter]:
        raise _no_tables()

    def count_dead_letters(self, follower: str) -> int:
        raise _no_tables()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> NoReturn:
        raise _no_tables()

    def pause(self) -> None:
        self._news.wait(POLL_SECONDS)

    def leave_to_parent(self) -> None:
        """The connections are the parent's; nothing is sent over them."""

    def close(self) -> None:
        self._client.close()
        self._news.ring()


def logs(url: str, token: str | None) -> list[str]:
    """Return the names of the logs of a server that the token may see."""
    client = Client(Address.of(url), token)
    try:
        found: forms.LogsForm = client.get("/v1/logs", _LOGS)
    finally:
        client.close()
    return found.logs


def _no_tables() -> InvalidInput:
    return InvalidInput(
        "followers and read models need a database, and that of the server is not yours",
        hint='name one of your own: store.follower(name, query, into="local.db"), model.run(store, into="local.db")',
    )
