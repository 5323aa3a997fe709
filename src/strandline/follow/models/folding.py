"""Folding a batch of events into the rows of a read model."""

from __future__ import annotations

from collections.abc import Sequence

from ...domain.folding import Fold, Key
from ...domain.member import check_key
from ...domain.projection import Projection
from ...engine import Engine, Span
from ...engine.audit import events as all_events
from ...engine.following import Transaction
from ...event import SequencedEvent
from ...names import RETAGGED
from ...query import Query
from ...retag import changes_of
from .table import Table

_RETAGS = Query.types(RETAGGED)


class Folding:
    """The handler of a read model's follower. Retags are delivered like events: the keys they touch are folded anew.

    `tags_since`: everything in the table was read when the log had this head, or later; so older retags are in it.
    """

    def __init__(self, projection: type[Projection], table: Table, engine: Engine) -> None:
        self._projection = projection
        self._fold = Fold(projection)
        self._table = table
        self._engine = engine
        self.tags_since = 0

    def __call__(self, events: Sequence[SequencedEvent], tx: Transaction) -> None:
        """Take a batch into the table."""
        retags = [event for event in events if event.type == RETAGGED and event.position > self.tags_since]
        anew = self._touched_by(retags) if retags else set()
        news: dict[Key, list[SequencedEvent]] = {}
        for event in events:
            if event.type != RETAGGED:
                for key in self._fold.keys(event.tags):
                    if key not in anew:
                        news.setdefault(key, []).append(event)
        found = {} if self._fold.is_last_only else self._table.load(tx, news)
        changed = []
        for key, of_key in news.items():
            state, position = found.get(key) or (self._projection(*key), 0)
            for event in of_key[-1:] if self._fold.is_last_only else of_key:
                if (
                    event.position > position
                ):  # else it is in the row already: somebody has reset the follower
                    self._fold.apply(state, event)
            check_key(state, key)
            changed.append((state, max(position, of_key[-1].position)))
        gone = set()
        for key in anew:
            state, position = self._folded(key, events[-1].position)
            if position:
                changed.append((state, position))
            else:
                gone.add(key)
        self._table.save(tx, changed)
        self._table.remove(tx, gone)

    def _touched_by(self, retags: Sequence[SequencedEvent]) -> set[Key]:
        """The keys that have or had one of the retagged events.

        What was folded so far was found by the tags at some moment since; so all that the event has had since count.
        """
        delivered = {change.position for retag in retags for change in changes_of(retag)}
        tags: dict[int, set[str]] = {position: set() for position in delivered}
        for retag in all_events(self._engine, _RETAGS, Span(retags[0].position - 1)):
            for change in changes_of(retag):
                if change.position in delivered:
                    tags[change.position].update(change.removed, change.added)
        touched: set[Key] = set()
        for position, changed in tags.items():
            for event in self._engine.read_page(Query.all(), Span(position - 1, position), 1).events:
                if event.type in self._fold.types:
                    touched.update(self._fold.keys({*event.tags, *changed}))
        return touched

    def _folded(self, key: Key, until: int) -> tuple[Projection, int]:
        """The state of a key up to a position, from the log; position 0 if there is no event."""
        state, position = self._projection(*key), 0
        newest_first = self._fold.is_last_only
        for event in all_events(
            self._engine, Projection.query(state), Span(0, until, backwards=newest_first)
        ):
            self._fold.apply(state, event)
            position = event.position
            if newest_first:
                break
        check_key(state, key)
        return state, position
