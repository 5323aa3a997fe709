"""One pass over events in the order of the log: it folds them into the states of their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ...domain.folding import Fold
from ...domain.member import check_key
from ...domain.projection import Projection
from ...errors import FollowerFailed, InvalidInput, StrandlineError
from ...event import SequencedEvent
from .columns import SEPARATOR


class Folded(NamedTuple):
    """The state of a key, the position of the last event in it, and how many there were."""

    number: int
    state: Projection
    position: int
    events: int


class Pass:
    """Folds the events of one projection after the other, each in the order of the log.

    It keeps the states of one projection's keys, and no events; only for `last_only` the newest of each key.
    """

    def __init__(self, folds: Sequence[Fold]) -> None:
        self._folds = folds
        self._number = 0
        self._states: dict[str, _State] = {}

    def feed(self, number: int, keys: Iterable[str], events: Iterable[SequencedEvent]) -> Iterator[Folded]:
        """Take the next events of a projection, each with a key that it belongs to; gives the states of the one before."""
        if number != self._number:
            yield from self.end()
            if number < self._number:
                raise _out_of_order()
            self._number = number
        fold, states = self._folds[number], self._states
        for key, event in zip(keys, events, strict=False):
            one = states.get(key)
            if one is None:
                one = states[key] = _State(fold.projection(*split_key(key)))
            elif event.position <= one.position:
                raise _out_of_order()
            one.position = event.position
            one.events += 1
            if fold.is_last_only:
                one.last = event
            else:
                _apply(fold, key, one.projection, event)

    def end(self) -> Iterator[Folded]:
        """There are no more events: gives the states in the order of their keys, and keeps none."""
        fold, states, self._states = self._folds[self._number], self._states, {}
        for key in sorted(states):
            one = states[key]
            if one.last is not None:
                _apply(fold, key, one.projection, one.last)
            check_key(one.projection, split_key(key))
            yield Folded(self._number, one.projection, one.position, one.events)


class _State:
    """What is kept of a key."""

    __slots__ = ("events", "last", "position", "projection")

    def __init__(self, projection: Any) -> None:
        self.projection = projection
        self.position = 0
        self.events = 0
        self.last: SequencedEvent | None = None


def split_key(text: str) -> tuple[str, ...]:
    """The values of a key that is a text."""
    return tuple(text.split(SEPARATOR)) if text else ()


def _apply(fold: Fold, key: str, state: Any, event: SequencedEvent) -> None:
    try:
        fold.apply(state, event)
    except StrandlineError:
        raise
    except Exception as error:
        name = f"{fold.projection.__name__}{split_key(key)}"
        raise FollowerFailed(
            f"{name} could not take event {event.position} ({event.type}): {type(error).__name__}: {error}",
            hint="correct the handler, then call it again",
        ) from error


def _out_of_order() -> InvalidInput:
    return InvalidInput(
        "the events did not come in the order of positions",
        hint="write TABLE(…) PARTITION BY key ORDER BY position",
    )
