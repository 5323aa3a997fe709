"""One pass over sorted events: it folds, and gives a state whenever its key ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ...domain.folding import Fold
from ...domain.member import check_key
from ...domain.projection import Projection
from ...errors import FollowerFailed, InvalidInput, StrandlineError
from ...event import SequencedEvent
from .columns import KEY, SEPARATOR
from .rows import sequenced


class Folded(NamedTuple):
    """The state of a key, the position of the last event in it, and how many there were."""

    number: int
    state: Projection
    position: int
    events: int


class Pass:
    """Folds events that come in the order of their keys and positions. Of a key it keeps the state, not the events."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        self._folds = folds
        self._text: str | None = None
        self._number = 0
        self._key: tuple[str, ...] = ()
        self._state: Any = None
        self._last: SequencedEvent | None = None
        self._count = 0

    def feed(self, batch: pa.RecordBatch) -> Iterator[Folded]:
        """Take the next events; gives the states of the keys that ended."""
        fold = self._folds[self._number]
        for text, event in zip(batch.column(KEY).to_pylist(), sequenced(batch), strict=False):
            if text != self._text:
                yield from self.end()
                self._begin(text)
                fold = self._folds[self._number]
            elif event.position <= self._last.position:  # type: ignore[union-attr]
                raise _out_of_order()
            self._last = event
            self._count += 1
            if not fold.is_last_only:
                self._apply(fold, event)

    def end(self) -> Iterator[Folded]:
        """There are no more events of this key."""
        if self._last is None:
            return
        fold, last, self._last = self._folds[self._number], self._last, None
        if fold.is_last_only:
            self._apply(fold, last)
        check_key(self._state, self._key)
        yield Folded(self._number, self._state, last.position, self._count)

    def _begin(self, text: str) -> None:
        if self._text is not None and text < self._text:
            raise _out_of_order()
        self._text, self._count = text, 0
        parts = text.split(SEPARATOR) if text else []
        if len(self._folds) > 1:
            self._number, parts = int(parts[0]), parts[1:]
        self._key = tuple(parts)
        self._state = self._folds[self._number].projection(*parts)

    def _apply(self, fold: Fold, event: SequencedEvent) -> None:
        try:
            fold.apply(self._state, event)
        except StrandlineError:
            raise
        except Exception as error:
            name = f"{fold.projection.__name__}{self._key}"
            raise FollowerFailed(
                f"{name} could not take event {event.position} ({event.type}): {type(error).__name__}: {error}",
                hint="correct the handler, then call it again",
            ) from error


def _out_of_order() -> InvalidInput:
    return InvalidInput(
        "the events did not come in the order of keys and positions",
        hint="write TABLE(…) PARTITION BY key ORDER BY position",
    )
