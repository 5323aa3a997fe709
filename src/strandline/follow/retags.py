"""Noticing retags that change what was already delivered (the rule of `strandline.retag`)."""

from __future__ import annotations

from collections.abc import Iterator

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
    any_can_matter = any(item.looks_at_tags for item in query.items)
    if judged >= head or start >= end or not (named or any_can_matter):
        return None
    for retag in events(engine, _RETAGS, Span(judged, head)):
        for change in changes_of(retag):
            can_matter = any_can_matter or not named.isdisjoint((*change.removed, *change.added))
            if start < change.position <= end and can_matter and _matters(engine, query, retag, change):
                return retag
    return None


def _matters(engine: Engine, query: Query, retag: SequencedEvent, change: Change) -> bool:
    event, new = _as_of(engine, change.position, retag.position)
    return meaning_changed(query, event, change.undo(new), new)


def _as_of(engine: Engine, position: int, retag: int) -> tuple[SequencedEvent, tuple[str, ...]]:
    """The event at a position, and the tags that it had right after a retag."""
    page = engine.read_page(Query.all(), Span(position - 1), 1)
    if not page.events or page.events[0].position != position:
        raise CorruptLog(f"there is no event at position {position}, but a retag changed it")
    (event,) = page.events
    tags = event.tags
    for change in reversed(list(_changes(engine, position, Span(retag, page.head)))):
        tags = change.undo(tags)
    return event, tags


def _changes(engine: Engine, position: int, span: Span) -> Iterator[Change]:
    if span.until is not None and span.after < span.until:
        for retag in events(engine, _RETAGS, span):
            yield from (change for change in changes_of(retag) if change.position == position)
