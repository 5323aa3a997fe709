"""The memory engine: the executable specification of a log. A list and a loop, no cleverness.

Every other engine must give the same answers, down to the last corner.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID, uuid4

from ..append import AppendCondition, AppendRequest, AppendResult, Check, RecordedAppend, Status
from ..errors import AppendConditionFailed, StrandlineError
from ..event import Event, SequencedEvent, from_microseconds
from ..names import RETAGGED
from ..query import Query
from ..retag import MAX_CHANGES, Retag, Retagged, changes_of, concerns, plan, retag_events
from . import Batch, Outcome, Page, Snapshot, Span, Stats, Usage, Work
from .deadline import Deadline
from .dry_run import outcome_of_check
from .following import DeadLetter, FollowerRow
from .memory_following import MemoryFollowing, MemoryTransaction, no_tables
from .rules import (
    Time,
    check_increases,
    id_conflict,
    is_repeat,
    record_status,
    refuse_beyond_head,
    retag_hint,
)

SHORT_LOG = 1_000  # all of it is looked at by every read


class MemoryEngine:
    """Keeps a log in a list. Nothing survives the process."""

    name = "memory"
    url = "memory:"
    log = "default"
    is_shared = False
    is_lost = False
    is_far = False
    runs_callables = True
    max_data_bytes = None

    def __init__(
        self, time: Time, *, record_conditions: bool = True, read_seconds: float | None = None
    ) -> None:
        self.read_seconds = read_seconds
        self._time = time
        self._record_conditions = record_conditions
        self._uuid = uuid4()
        self._log: list[SequencedEvent] = []
        self._appends: list[RecordedAppend] = []
        self._tags: list[list[tuple[int, tuple[str, ...]]]] = []  # per event: (since position, tags)
        self._refused = 0
        self._tracked: dict[str, int] = {}
        self._snapshots: dict[tuple[str, str], Snapshot] = {}
        self._following = MemoryFollowing()
        self._lock = threading.RLock()  # a signal handler may read while its thread does

    def append(self, batch: Batch) -> list[Outcome]:
        with self._lock:
            before = len(self._log), len(self._appends), self._refused, dict(self._tracked)
            try:
                return [self._outcome(work) for work in batch()]
            except BaseException:
                self._undo(*before)
                raise

    def _undo(self, head: int, appends: int, refused: int, tracked: dict[str, int]) -> None:
        """Forget a batch of which one request failed for a reason that is not an answer."""
        del self._log[head:], self._tags[head:], self._appends[appends:]
        self._refused, self._tracked = refused, tracked
        for index, history in enumerate(self._tags):
            history[:] = [(since, tags) for since, tags in history if since <= head]
            self._log[index] = self._log[index].with_present_tags(history[-1][1])

    def _outcome(self, work: Work) -> Outcome:
        try:
            return self._retag(work) if isinstance(work, Retag) else self._append(work)
        except StrandlineError as error:
            self._refused += isinstance(error, AppendConditionFailed)
            return error

    def _append(self, request: AppendRequest) -> AppendResult:
        repeated = self._repeat(request.events)
        if repeated is not None:
            return repeated
        for event in self._log if request.unless_exists is not None else ():
            if request.unless_exists is not None and request.unless_exists.matches(event):
                return self._result_holding(event.position)
        if request.tracking is not None:
            check_increases(request.tracking, self._tracked.get(request.tracking[0]))
        if request.condition is not None:
            refuse_beyond_head(request.condition, len(self._log))
            for part in request.condition.parts:
                self._check(part)
        result = AppendResult(len(self._log), len(self._log), 0)
        if request.events:
            result = self._write(request.to_write(), request.guard())
        if request.tracking is not None:
            self._tracked.update([request.tracking])
        return result

    def _repeat(self, events: Sequence[Event]) -> AppendResult | None:
        ids = {event.raw_id for event in events}
        found = [event for event in self._log if event.raw_id in ids]
        if not found and len(ids) == len(events):
            return None
        if found:
            result = self._result_holding(found[0].position)
            earlier = [self._as_appended(event) for event in self._log[result.first - 1 : result.last]]
            if is_repeat(events, earlier):
                return result
            raise id_conflict(events, earlier)
        raise id_conflict(events, ())

    def _as_appended(self, event: SequencedEvent) -> SequencedEvent:
        return event.with_present_tags(self._tags[event.position - 1][0][1])

    def _check(self, part: AppendCondition) -> None:
        for event, retagged in self._conflicts(part):
            hint = None if retagged is None else retag_hint(retagged)
            raise AppendConditionFailed(conflict=event, part=part, hint=hint)

    def _conflicts(self, part: AppendCondition) -> Iterator[tuple[SequencedEvent, int | None]]:
        """The events that conflict with a part; of a retag also the position of the event that it changed."""
        query = part.fail_if_events_match
        for event in self._log[part.after :]:
            retagged = self._retagged_position(query, event)
            if retagged is not None or query.matches(event):
                yield event, retagged

    def _retagged_position(self, query: Query, event: SequencedEvent) -> int | None:
        for change in changes_of(event) if event.type == RETAGGED else ():
            new = self._tags_as_of(change.position, event.position)
            old = self._tags_as_of(change.position, event.position - 1)
            if concerns(query, self._log[change.position - 1], old, new):
                return change.position
        return None

    def _tags_as_of(self, position: int, head: int) -> tuple[str, ...]:
        return [tags for since, tags in self._tags[position - 1] if since <= head][-1]

    def _write(self, events: Sequence[Event], guard: AppendCondition | None) -> AppendResult:
        recorded_at = self._time.now(self._log[-1].raw_recorded_at if self._log else 0)
        first = len(self._log) + 1
        for position, event in enumerate(events, first):
            self._log.append(SequencedEvent.of(event, position, recorded_at))
            self._tags.append([(position, event.tags)])
        status: Status = record_status(guard, record_conditions=self._record_conditions)
        kept = guard if status == "recorded" else None
        self._appends.append(
            RecordedAppend(first, len(self._log), kept, status, from_microseconds(recorded_at))
        )
        return AppendResult(first, len(self._log), len(events))

    def _retag(self, retag: Retag) -> Retagged:
        if isinstance(retag.target, Query):
            targets = [e for e in self._log if retag.target.matches(e) and not e.type.startswith("$")]
        else:
            targets = []
            for position in retag.target:
                found = self._log[position - 1] if 1 <= position <= len(self._log) else None
                targets.append(retag.checked(position, found))
        changes = list(plan(retag, targets))
        if not changes:
            return Retagged(len(self._log), len(self._log), 0)
        result = self._write(retag_events([change for _, change, _ in changes]), None)
        for number, (event, _, tags) in enumerate(changes):
            self._log[event.position - 1] = event.with_present_tags(tags)
            self._tags[event.position - 1].append((result.first + number // MAX_CHANGES, tags))
        return Retagged.of(result, len(changes))

    def _result_holding(self, position: int) -> AppendResult:
        holder = next(a for a in self._appends if a.first <= position <= a.last)
        return AppendResult(holder.first, holder.last, holder.last - holder.first + 1, duplicate=True)

    def log_id(self) -> UUID:
        return self._uuid

    def head(self) -> int:
        return len(self._log)

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        with self._lock:
            head = len(self._log) if span.until is None else min(len(self._log), span.until)
            events = self._log[span.after : head]
            if span.backwards:
                events.reverse()
        matching = [event for event in self._in_time(events) if query.matches(event)]
        if len(matching) <= size:
            return Page(matching, head, None)
        page = matching[:size]
        return Page(page, head, span.rest(head, page[-1].position))

    async def read_page_awaited(self, query: Query, span: Span, size: int) -> Page | None:
        if query.has_where or len(self._log) > SHORT_LOG:
            return None
        await asyncio.sleep(0)  # or a task that reads again and again would keep all others from their turn
        return self.read_page(query, span, size)

    def exists(self, query: Query, after: int) -> bool:
        with self._lock:
            events = self._log[after:]
        return any(query.matches(event) for event in self._in_time(events))

    def count(self, query: Query, after: int) -> int:
        with self._lock:
            events = self._log[after:]
        return sum(query.matches(event) for event in self._in_time(events))

    def _in_time(self, events: list[SequencedEvent]) -> Iterable[SequencedEvent]:
        return Deadline(self.read_seconds).each(events)

    def check(self, condition: AppendCondition, most: int) -> Check:
        with self._lock:
            head = len(self._log)
            refusal: tuple[int, SequencedEvent, int | None] | None = None
            conflicts: dict[int, SequencedEvent] = {}
            is_retagged = False
            refuse_beyond_head(condition, head)
            for number, part in enumerate(condition.parts):
                for event, retagged in self._conflicts(part):
                    refusal = refusal or (number, event, retagged)
                    conflicts[event.position] = event
                    is_retagged = is_retagged or retagged is not None
        return outcome_of_check(condition, head, refusal, conflicts, most, is_retagged=is_retagged)

    def tracked(self, source: str) -> int | None:
        with self._lock:
            return self._tracked.get(source)

    def now(self) -> int:
        return self._time.now(0)

    def position_at(self, microseconds: int) -> int:
        with self._lock:
            return sum(event.raw_recorded_at <= microseconds for event in self._log)

    def appends_page(self, span: Span, size: int) -> list[RecordedAppend]:
        with self._lock:
            until = len(self._log) if span.until is None else span.until
            appends = [append for append in self._appends if span.after < append.first <= until]
        return appends[: -size - 1 : -1] if span.backwards else appends[:size]

    def append_holding(self, position: int) -> RecordedAppend | None:
        with self._lock:
            return next((a for a in self._appends if a.first <= position <= a.last), None)

    def types_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        return self._usage(lambda event: (event.type,), prefix, after, size)

    def tags_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        return self._usage(lambda event: event.tags, prefix, after, size)

    def _usage(
        self, names_of: Callable[[SequencedEvent], tuple[str, ...]], prefix: str, after: str, size: int
    ) -> list[Usage]:
        positions: dict[str, list[int]] = {}
        with self._lock:
            for event in self._log:
                for name in names_of(event):
                    positions.setdefault(name, []).append(event.position)
        names = sorted(name for name in positions if name.startswith(prefix) and name > after)
        return [
            Usage(name, len(positions[name]), positions[name][0], positions[name][-1])
            for name in names[:size]
        ]

    def events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        with self._lock:
            return [
                self._log[position - 1] for position in sorted(positions) if 1 <= position <= len(self._log)
            ]

    def events_with_ids(self, ids: Sequence[bytes]) -> list[SequencedEvent]:
        wanted = set(ids)
        with self._lock:
            found = [event for event in self._log if event.raw_id in wanted]
            return [event.with_present_tags(self._tags[event.position - 1][0][1]) for event in found]

    def stats(self) -> Stats:
        with self._lock:
            return Stats(
                engine=self.name,
                log=self._uuid,
                schema=0,
                head=len(self._log),
                appends=len(self._appends),
                refused=self._refused,
                types=len({event.type for event in self._log}),
                tags=len({tag for event in self._log for tag in event.tags}),
                size_bytes=sum(len(event.data) for event in self._log),
                now=from_microseconds(self.now()),
                record_conditions=self._record_conditions,
            )

    def load_snapshot(self, projection: str, key: str) -> Snapshot | None:
        return self._snapshots.get((projection, key))

    def save_snapshot(self, snapshot: Snapshot) -> None:
        with self._lock:
            place = snapshot.projection, snapshot.key
            known = self._snapshots.get(place)
            if known is None or known.version != snapshot.version or known.position < snapshot.position:
                self._snapshots[place] = snapshot

    def transaction(self) -> MemoryTransaction:
        return MemoryTransaction(self._following, self.now)

    def followers(self, name: str | None = None) -> list[FollowerRow]:
        return self._following.kept.followers(name)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        raise no_tables()

    def dead_letters(self, follower: str) -> list[DeadLetter]:
        return self._following.kept.dead_letters(follower)

    def count_dead_letters(self, follower: str) -> int:
        return len(self.dead_letters(follower))

    def pause(self) -> None:
        """Nobody else writes."""

    def leave_to_parent(self) -> None:
        """Nothing is shared."""

    def close(self) -> None:
        """Nothing to release."""
