"""The decision cache: states that this process folded before, each with the head that it was read at.

A state that is kept never changes: whoever takes one copies it before it folds more events or hands it to a
decision. It is only ever a place to start from; the read of what is newer, or the condition of the append, decides.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Sequence

from ..engine import Page, Span
from ..errors import InvalidInput
from ..event import SequencedEvent
from . import snapshot
from .boundary import Written, advanced, begin, fold, near, query_of
from .member import Member, Name, Uncopyable, name_of
from .projection import Projection
from .steps import ReadEvents, Steps

DEFAULT_STATES = 10_000


def check_states(size: object) -> int:
    """How many states to keep."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise InvalidInput(
            f"the decision cache has a whole number of states, not {size!r:.40}",
            hint="write 0 to keep none",
        )
    return size


class DecisionCache:
    """Keeps the states that were used last, at most so many. Safe to share between threads."""

    def __init__(self, size: int) -> None:
        self._size = check_states(size)
        self.keeps_states = size > 0
        self._kept: OrderedDict[Name, Member] = OrderedDict()

    def members(self, projections: list[Projection]) -> list[Member]:
        """Where to start from: states that are kept, or nothing folded yet."""
        if not (self._kept and projections):
            return begin(projections)
        return [self.member(projection) for projection in projections]

    def member(self, projection: Projection) -> Member:
        """Where to start from: a state that is kept, or nothing folded yet."""
        kept = self._kept.get(name_of(projection))
        return Member.begin(projection) if kept is None else kept.twin()

    def advance(self, members: Sequence[Member], events: list[Written], head: int) -> Steps[None]:
        """Keep the states as they are after our own append: its condition proves that nothing else changed them."""
        for member in members:
            if not (member.is_kept and member.shape.is_proven_by_appends):
                continue
            try:
                after = advanced(member, events, head)
            except Exception:  # noqa: BLE001, S112  (the append is done; who reads these events is told what is wrong)
                continue
            if after.unsaved and snapshot.is_due(after):
                # The append is done: also who has warnings raised must hear of that, or he would do it again.
                with contextlib.suppress(snapshot.SnapshotFailed):
                    yield from snapshot.save(after)
            self._keep(after)

    def handed_out(self, members: Sequence[Member]) -> list[Projection]:
        """The states for somebody who may change them: copies of those that are kept from now on."""
        if not self.keeps_states:
            return [member.state for member in members]
        return [self._handed_out(member) for member in members]

    def forget(self, member: Member) -> None:
        """Begin with the first event the next time."""
        self._kept.pop(member.name, None)

    def __len__(self) -> int:
        return len(self._kept)

    def _keep(self, member: Member) -> None:
        """Keep a member that nobody else has."""
        # Without a lock: no step leaves anything half done, and what another thread does between two of them costs
        # a read at worst. So a signal's handler that uses the store never waits for whom it interrupted.
        name = member.name
        kept = self._kept.get(name)
        if kept is None or kept.head < member.head:
            self._kept[name] = member
        try:
            self._kept.move_to_end(name)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        except KeyError:  # somebody else was faster
            pass

    def _handed_out(self, member: Member) -> Projection:
        try:
            copied = member.copied_state()
        except Uncopyable:
            if member.is_kept:
                raise
            return member.state  # it is used once
        member.is_kept = True
        if not member.is_own:
            self._keep(member.twin())
        return copied


def up_to_date(members: Sequence[Member], cache: DecisionCache) -> Steps[list[Projection]]:
    """The states as of now, for somebody who may change them."""
    try:
        yield from catch_up(members, cache)
        return cache.handed_out(members)
    except Uncopyable:  # our own append led to it, so nobody has tried to copy it before
        for member in members:
            cache.forget(member)
            member.start_again()
    yield from catch_up(members, cache)
    return cache.handed_out(members)


def only_read(members: Sequence[Member]) -> ReadEvents | None:
    """The read that brings all states to the present by itself; None if it takes more than that."""
    for member in members:
        if member.head or not member.shape.is_read_at_once:
            return None
    return ReadEvents(query_of(members))


def take(members: list[Member], page: Page) -> None:
    """Bring the states to the present by what `only_read` has found."""
    fold(members, page.events)
    for member in members:
        member.head = page.head


def catch_up(
    members: Sequence[Member], cache: DecisionCache, seen: list[SequencedEvent] | None = None
) -> Steps[None]:
    """Bring the states to the present, all to the same head; `seen` is given the events they were folded from."""
    head: int | None = None
    waiting = [member for member in members if not member.state._last_only]
    for member in waiting if seen is None else ():  # who wants to see all events cannot begin later
        if member.head == 0 and member.state._snapshot_every is not None:
            yield from snapshot.begin(member)
    while waiting:
        lowest, group, waiting = near(waiting)
        found: Page = yield ReadEvents(query_of(group), Span(lowest, head))
        head = found.head if head is None else head
        if _start_again_if_misled(group, found.events, head, cache):
            waiting += group
            continue
        if seen is not None:
            seen += found.events
        fold(group, found.events)
        for member in group:
            member.head = head
    for member in members:
        if member.state._last_only:
            head = yield from _look_at_newest(member, head, seen)
        elif member.unsaved and snapshot.is_due(member):
            yield from snapshot.save(member)


def _start_again_if_misled(
    members: Sequence[Member], events: Sequence[SequencedEvent], head: int, cache: DecisionCache
) -> bool:
    """Let those members start again that a retag misled, before their handlers meet what is newer; whether there are any."""
    misled = [member for member in members if member.head and member.is_misled_by(events, head)]
    for member in misled:
        cache.forget(member)
        member.start_again()
    return bool(misled)


def _look_at_newest(member: Member, head: int | None, seen: list[SequencedEvent] | None) -> Steps[int]:
    """Fold a state from its newest event up to a head, or the present, which is returned."""
    found: Page = yield ReadEvents(member.query, Span(until=head, backwards=True), limit=1)
    if seen is not None:
        seen += found.events
    member.start_again()
    fold([member], found.events)
    member.head = found.head if head is None else head
    return member.head
