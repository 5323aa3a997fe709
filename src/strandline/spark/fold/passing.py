"""One pass over events in the order of the log: it folds them into the states of their keys."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import ge
from typing import Any, NamedTuple, NoReturn

from ...domain.event import DomainEvent, quick_decoder, reader
from ...domain.event_shape import event_shape
from ...domain.folding import Fold, note_where, read_all
from ...domain.member import check_key
from ...domain.projection import Projection
from ...errors import FollowerFailed, InvalidInput, StrandlineError
from ...event import SequencedEvent
from .columns import SEPARATOR

Keyed = tuple[Sequence[int], Sequence[str]]
"""Keys of a projection, each after the place of an event that belongs to it."""


class Events(NamedTuple):
    """Events column by column, which is all that most projections take; `whole` makes the one at a place."""

    positions: Sequence[int]
    types: Sequence[str]
    data: Sequence[bytes]
    has_metadata: bool
    whole: Callable[[int], SequencedEvent]


class Folded(NamedTuple):
    """The state of a key, and the position of the last event in it."""

    number: int
    state: Projection
    position: int


class Pass:
    """Folds the events of several projections at once, in the order of the log.

    It keeps the states of their keys, and no events; only for `last_only` the newest of each key. `events` counts what
    was folded, once for each key.
    """

    def __init__(self, folds: Sequence[Fold]) -> None:
        self.events = 0
        self._folds = folds
        self._states: list[dict[str, _State]] = [{} for _ in folds]
        self._position = 0
        # An event is read once for all projections that know it by the same class, if none can change it for another.
        classes = {
            name: cls
            for fold in reversed(folds)
            if not fold.is_last_only
            for name, cls in fold.classes.items()
            if event_shape(cls).is_fixed
        }
        self._handlers = [fold.handlers(classes) for fold in folds]
        looked_at = {name for fold in folds for name in fold.looks_at}
        self._readers = {name: reader(cls, looks=name in looked_at) for name, cls in classes.items()}
        unread = dict.fromkeys((name for fold in folds for name in fold.types), _unread)
        self._decoders: dict[str, Any] = unread | {
            name: quick_decoder(cls, looks=name in looked_at) for name, cls in classes.items()
        }

    def feed(self, events: Events, keyed: Sequence[Keyed]) -> None:
        """Take the next events, and for each projection the keys that they belong to."""
        positions = [self._position, *events.positions]
        if any(map(ge, positions, events.positions)):
            raise _out_of_order()
        self._position = positions[-1]
        told = list(zip(events.positions, events.types, self._typed(events), strict=True))
        for number, (places, keys) in enumerate(keyed):
            self.events += len(keys)
            self._fold(number, events, zip(keys, places, map(told.__getitem__, places), strict=True))

    def _typed(self, events: Events) -> Sequence[DomainEvent | None]:
        decoders = self._decoders
        if not events.has_metadata:
            with contextlib.suppress(Exception):  # one by one it will be found which they are, and why
                return [decoders[name](data) for name, data in zip(events.types, events.data, strict=True)]
        return read_all(map(events.whole, range(len(events.positions))), self._readers)

    def _fold(self, number: int, events: Events, told: Iterable[tuple[str, int, Told]]) -> None:
        fold, states, handlers = self._folds[number], self._states[number], self._handlers[number]
        is_last_only = fold.is_last_only
        for key, place, (position, name, typed) in told:
            one = states.get(key)
            if one is None:
                one = states[key] = _State(fold.state(split_key(key)))
            one.position = position
            if is_last_only:
                one.last = events.whole(place)
                continue
            handle = handlers[name]
            try:
                if handle is None or typed is None:
                    fold.apply(one.projection, events.whole(place))
                else:
                    handle(one.projection, typed)
            except Exception as error:  # noqa: BLE001
                _tell(fold, key, events.whole(place), error)

    def end(self) -> Iterator[Folded]:
        """There are no more events: gives the states, those of a projection in the order of their keys, and keeps none."""
        for number, fold in enumerate(self._folds):
            states, self._states[number] = self._states[number], {}
            for key in sorted(states):
                one = states[key]
                if one.last is not None:
                    try:
                        fold.apply(one.projection, one.last)
                    except Exception as error:  # noqa: BLE001
                        _tell(fold, key, one.last, error)
                check_key(one.projection, split_key(key))
                yield Folded(number, one.projection, one.position)


Told = tuple[int, str, DomainEvent | None]


class _State:
    """What is kept of a key."""

    __slots__ = ("last", "position", "projection")

    def __init__(self, projection: Any) -> None:
        self.projection = projection
        self.position = 0
        self.last: SequencedEvent | None = None


def _unread(data: bytes) -> None:
    """Nobody takes it as a typed event that others take too."""


def split_key(text: str) -> tuple[str, ...]:
    """The values of a key that is a text."""
    return tuple(text.split(SEPARATOR)) if text else ()


def _tell(fold: Fold, key: str, event: SequencedEvent, error: Exception) -> NoReturn:
    note_where(error, fold.projection, event)
    if isinstance(error, StrandlineError):
        raise error
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
