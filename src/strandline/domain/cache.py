"""The decision cache: states that this process folded before, each with the head that it was read at.

A state that is kept never changes: whoever takes one copies it before it folds more events or hands it to a
decision. It is only ever a place to start from; the read of what is newer, or the condition of the append, decides.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ..event import Event, SequencedEvent
from ..query import Query
from . import snapshot
from .boundary import Member, advanced, fold, near, query_of
from .projection import Projection
from .steps import Events, ReadEvents, Steps

DEFAULT_STATES = 10_000

Key = tuple[Any, ...]


class DecisionCache:
    """Keeps the states that were used last, at most so many. Safe to share between threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[Key, Member] = OrderedDict()
        self._lock = threading.Lock()

    def member(self, projection: Projection) -> Member:
        """Where to start from: a state that is kept, or nothing folded yet."""
        key = _key(projection)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        return Member(projection.fresh()) if kept is None else kept.twin()

    def advance(self, members: Sequence[Member], events: Sequence[Event], head: int) -> Steps[None]:
        """Keep the states as they are after our own append: its condition proves that nothing else changed them."""
        for member in members if self._size else ():
            if not member.is_guarded_whole:
                continue
            try:
                after = advanced(member, events, head)
            except Exception:  # noqa: BLE001  (the append is done; who reads these events is told what is wrong)
                after = None
            if after is None:
                self.forget(member)
            else:
                yield from snapshot.save(after)
                self._keep(after)

    def handed_out(self, members: Sequence[Member]) -> list[Projection]:
        """The states for somebody who may change them: copies of those that are kept from now on."""
        return [self._handed_out(member) if self._size else member.state for member in members]

    def forget(self, member: Member) -> None:
        """Begin with the first event the next time."""
        with self._lock:
            self._kept.pop(_key(member.state), None)

    def __len__(self) -> int:
        return len(self._kept)

    def _keep(self, member: Member) -> None:
        key = _key(member.state)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.head < member.head:
                self._kept[key] = member.twin()
                self._kept.move_to_end(key)
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def _handed_out(self, member: Member) -> Projection:
        try:
            copied = member.state.copy()
        except Exception:  # noqa: BLE001  (a state that cannot be copied, for whatever reason, is used once)
            return member.state
        if not member.is_kept:
            member.is_kept = True
            self._keep(member)
        return copied


def catch_up(members: Sequence[Member], cache: DecisionCache) -> Steps[list[SequencedEvent]]:
    """Bring the states to the present, all to the same head; returns the events that were read, in order."""
    seen: dict[int, SequencedEvent] = {}
    head: int | None = None
    waiting = [member for member in members if not member.state.last_only]
    for member in waiting:
        if member.head == 0 and member.state.snapshot_every is not None:
            yield from snapshot.begin(member)
    while waiting:
        group, waiting = near(waiting)
        after = min(member.head for member in group)
        found: Events = yield ReadEvents(query_of(group), after, head)
        head = found.head if head is None else head
        seen.update((event.position, event) for event in found.events)
        misled = [member for member in group if member.is_misled_by(found.events, head)]
        fold(group, found.events)
        for member in group:
            member.head = head
        for member in misled:
            cache.forget(member)
            member.start_again()
        waiting += misled
    for member in members:
        if member.state.last_only:
            member.start_again()
            newest: Events = yield ReadEvents(Query.of(member.item), until=head, newest_only=True)
            head = newest.head if head is None else head
            seen.update((event.position, event) for event in newest.events)
            fold([member], newest.events)
            member.head = head
    for member in members:
        yield from snapshot.save(member)
    return [seen[position] for position in sorted(seen)]


def _key(projection: Projection) -> Key:
    return type(projection), *projection.key()
