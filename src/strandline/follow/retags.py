"""Noticing retags that change what was already delivered (the rule of `strandline.retag`)."""

from __future__ import annotations

from ..engine import Engine, Span
from ..engine.audit import events
from ..errors import CorruptLog
from ..event import SequencedEvent
from ..names import RETAGGED
from ..query import Query
from ..retag import Change, changes_of, meaning_changed

_RETAGS = Query.types(RETAGGED)


def disturbing_retag(
    engine: Engine, query: Query, delivered: tuple[int, int], judged: int, head: int
) -> SequencedEvent | None:
    """The first retag in `(judged, head]` by which an event of the positions `delivered` enters or leaves the query."""
    start, end = delivered
    named = {tag for item in query.items for tag in item.tags}
    any_can_matter = any(item.may_look_at_tags for item in query.items)
    if judged >= head or start >= end or not (named or any_can_matter):
        return None
    tags = _Tags(engine, judged)
    for retag in events(engine, _RETAGS, Span(judged, head)):
        for change in changes_of(retag):
            can_matter = any_can_matter or not named.isdisjoint((*change.removed, *change.added))
            if start < change.position <= end and can_matter and tags.matter(query, change, retag.position):
                return retag
    return None


class _Tags:
    """Which tags events had right after a retag; later retags are looked up once for all of them."""

    def __init__(self, engine: Engine, since: int) -> None:
        self._engine = engine
        self._known = since
        self._changes: dict[int, list[tuple[int, Change]]] = {}

    def matter(self, query: Query, change: Change, retag: int) -> bool:
        """Whether an event entered or left the query by a change."""
        event, new = self._as_of(change.position, retag)
        return meaning_changed(query, event, change.undo(new), new)

    def _as_of(self, position: int, retag: int) -> tuple[SequencedEvent, tuple[str, ...]]:
        """The event at a position, and the tags that it had right after a retag."""
        page = self._engine.read_page(Query.all(), Span(position - 1), 1)
        if not page.events or page.events[0].position != position:
            raise CorruptLog(f"there is no event at position {position}, but a retag changed it")
        (event,) = page.events
        self._look_up(page.head)
        tags = event.tags
        for later, change in reversed(self._changes.get(position, ())):
            if retag < later <= page.head:
                tags = change.undo(tags)
        return event, tags

    def _look_up(self, head: int) -> None:
        if self._known < head:
            for retag in events(self._engine, _RETAGS, Span(self._known, head)):
                for change in changes_of(retag):
                    self._changes.setdefault(change.position, []).append((retag.position, change))
            self._known = head
