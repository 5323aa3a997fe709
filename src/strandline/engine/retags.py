"""The conflict rule of retags for readers that keep what they made of events: followers, streams, other libraries."""

from __future__ import annotations

from collections.abc import Sequence

from ..event import SequencedEvent
from ..names import RETAGGED
from ..query import Query
from ..retag import RetagHistory
from . import Engine, Span
from .audit import events

_RETAGS = Query.types(RETAGGED)


def concerning_retag(
    engine: Engine, query: Query, read: tuple[int, int], judged: int, head: int
) -> SequencedEvent | None:
    """Return the first retag in `(judged, head]` of an event in the range `read` that the query matches before or after it.

    A reader whose query matches the retag itself reads it like any other event, so that is not returned.
    """
    start, end = read
    if judged >= head or start >= end:
        return None
    history = _History(engine, judged)
    for retag in history.retags:
        if retag.position > head:
            break
        if query.matches(retag):
            continue
        positions = [position for position in history.changed_by(retag) if start < position <= end]
        if any(history.concern(query, event, retag) for event in history.events_at(positions)):
            return retag
    return None


class _History:
    """The retags since a position, and the tags of events as of each."""

    def __init__(self, engine: Engine, since: int) -> None:
        self._engine = engine
        self._known = since
        self._changes = RetagHistory(())
        self.retags = self._newer()

    def changed_by(self, retag: SequencedEvent) -> Sequence[int]:
        """Return the positions of the events that a retag changed."""
        return self._changes.by_retag[retag.position]

    def concern(self, query: Query, event: SequencedEvent, retag: SequencedEvent) -> bool:
        """Return whether what this retag did to the event concerns the query."""
        return self._changes.concern(query, event, retag.position)

    def events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        """Return the events at these positions, with no tags that come from a retag we do not know."""
        while positions:
            found = self._engine.events_at(positions)
            if not self._newer():
                return found
        return []

    def _newer(self) -> list[SequencedEvent]:
        retags = list(events(self._engine, _RETAGS, Span(self._known)))
        for retag in retags:
            self._changes.add(retag)
            self._known = retag.position
        return retags
