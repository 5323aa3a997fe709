"""What a projection class declares: its key, its state and its handlers."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..errors import InvalidInput
from ..event import SequencedEvent
from ..names import an
from ..query import Query, QueryItem
from ..tag_id import TagId
from .annotations import (
    Names,
    Unresolved,
    callers,
    is_class_var,
    meant,
    name_of,
    names_of,
    own_annotations,
    place,
    resolve,
    text_of,
)
from .clashes import refuse_clashes
from .event import DomainEvent, quick_decoder, reader
from .event_shape import FIELD, event_shape, without_colon
from .handlers import Handler, handlers_of
from .missing_tags import UnreachedHandler
from .usual import native

if TYPE_CHECKING:
    from .projection import Projection

ATOMS = (str, bytes, int, float, bool, type(None), datetime, UUID, Decimal, Enum)
_CHANGING = (list, dict, set, bytearray, deque)
_PLAIN = (str, int, bool, float, type(None))
_MISSING = object()
put = object.__setattr__

Reading = tuple[
    type[DomainEvent] | None,
    Callable[[SequencedEvent], DomainEvent],
    Callable[[bytes], DomainEvent] | None,
]
"""The class of an event, if others may be handed the same one, and its readers."""

Way = tuple[str, Handler, Reading, Reading]
"""The type of an event, what takes it, and how it is read for who looks at it, and for who does not."""


class Shape:
    """What a projection class declares, worked out once."""

    def __init__(self, cls: type[Projection], here: Names | None = None) -> None:
        self.projection = cls
        fields = _fields(cls, here)
        self.is_final = not any(isinstance(kind, str) for kind in fields.values())
        self.fields = {name: Any if isinstance(kind, str) else kind for name, kind in fields.items()}
        self.key: list[tuple[str, type[TagId]]] = []
        self.state: list[tuple[str, Any, bool]] = []
        for name, kind in self.fields.items():
            self._add_field(cls, name, kind)
        self.handlers: dict[str, tuple[Handler, type[DomainEvent]]] = {}
        for handler in handlers_of(cls, here):
            for event in handler.classes:
                self._add_handler(cls, handler, event)
        self.unreached = [*self._unreached(cls)]
        """What there is to say of handlers that no event reaches."""
        for message in self.unreached:
            warnings.warn(message, UnreachedHandler, stacklevel=callers())
        refuse_clashes(name_of(cls), (), self.tag_kinds)
        self._types = tuple(sorted(self.handlers))
        self._guarded = tuple(name for name in self._types if self.handlers[name][0].conflicts)
        self.is_guarded_whole = self._guarded == self._types
        self.sees_recorded = any(handler.takes_recorded for handler, _ in self.handlers.values())
        self.is_proven_by_appends = self.is_guarded_whole and not self.sees_recorded
        """Whether an accepted append proves that nothing else changed the state: not if some of its events
        spoil no decision, nor if a handler takes the recorded event, which is not known before it is read."""
        self.is_read_at_once = not cls._last_only and cls._snapshot_every is None
        """Whether to read its events is all that it takes to begin."""
        self.key_names = tuple([name for name, _ in self.key])
        self.kinds = tuple([kind for _, kind in self.key])
        self._beginnings = tuple([f"{kind.prefix}:" for kind in self.kinds])
        self._is_plain = all(
            kind.tag is TagId.tag and kind.__new__ is TagId.__new__ and kind.__init__ is TagId.__init__
            for kind in self.kinds
        )
        self.atoms = {*_PLAIN, *(kind for _, kind in self.key)}
        """Classes whose values are never copied; those that states are seen to have are added."""
        self.layout = (
            *(cls, self._is_plain, self.key_names, self.kinds, self._beginnings, self.state, self._types),
            *(self.is_guarded_whole, cls._snapshot_every is not None, self.atoms),
        )
        """What native code needs of it."""

    @functools.cached_property
    def ways(self) -> list[Way]:
        """What to do with events of each type."""
        return [
            (
                name,
                handler,
                (cls if event_shape(cls).is_fixed else None, reader(cls), quick_decoder(cls)),
                (None, reader(cls, looks=False), quick_decoder(cls, looks=False)),
            )
            for name, (handler, cls) in self.handlers.items()
        ]

    @property
    def events(self) -> list[type[DomainEvent]]:
        """The event classes that it handles."""
        return [event for _, event in self.handlers.values()]

    @property
    def tag_kinds(self) -> set[type[TagId]]:
        """The kinds of id in its key, and in the events that it handles."""
        kinds = {kind for _, kind in self.key}
        return kinds.union(*(event_shape(event).tag_kinds for event in self.events))

    def is_atom(self, value: object) -> bool:
        """Whether a value of a state needs no copy."""
        if _is_atom(value):
            self.atoms.add(type(value))
            return True
        return False

    def key_of(self, projection: Projection) -> tuple[TagId, ...]:
        """The values of a projection's key fields."""
        names = self.key_names
        if len(names) == 1:  # as most have
            return (getattr(projection, names[0]),)
        return tuple([getattr(projection, name) for name in names])

    def fill(self, state: Projection, key: tuple[TagId, ...]) -> None:
        """Give a new state its key, and its other fields the values that they begin with."""
        if native is not None:
            native.fill_state(state, self.key_names, key, self.state)
            return
        # Without a look at vars(state) Python keeps the fields of an object in it, and not in a dict beside it.
        for name, value in zip(self.key_names, key, strict=True):
            put(state, name, value)
        for name, default, is_immutable in self.state:
            put(state, name, default if is_immutable else copy.deepcopy(default))

    def query(self, key: tuple[TagId, ...]) -> Query:
        """The events of a key: one item."""
        if native is not None and self._is_plain:
            plain: Query | None = native.query_of_key(self._types, key, self.kinds, self._beginnings)
            if plain is not None:
                return plain
        return Query((QueryItem(self._types, [value.tag for value in key]),))

    def guard_item(self, key: Sequence[TagId]) -> QueryItem | None:
        """Those that spoil a decision."""
        return QueryItem(self._guarded, [value.tag for value in key]) if self._guarded else None

    def _add_field(self, cls: type[Projection], name: str, kind: Any) -> None:
        from .projection import Projection

        if hasattr(Projection, name):
            raise InvalidInput(
                f"{name_of(cls)}.{name} hides what every projection has under that name",
                hint=f"give the field another name: {name}_id or {name}_",
            )
        default = inspect.getattr_static(cls, name, _MISSING)
        if isinstance(default, FIELD):
            raise InvalidInput(
                f"{name_of(cls)}.{name} has a field(…) as its default",
                hint=f"write the value itself, {name}: list[str] = []; each projection gets a copy",
            )
        if hasattr(default, "__on__"):
            raise InvalidInput(
                f"{place(default)} has the name of a field", hint=f"give the method another name: on_{name}"
            )
        if isinstance(default, property):
            return  # it says itself what it is
        if default is not _MISSING:
            self.state.append((name, default, _is_immutable(default, f"{name_of(cls)}.{name}")))
        elif isinstance(kind, type) and issubclass(kind, TagId) and kind is not TagId:
            self.key.append((name, kind))
        else:
            raise InvalidInput(
                f"{name_of(cls)}.{name} has no default, and is not a TagId",
                hint=f"give it the value that it has before the first event: {name}: {text_of(kind)} = …; "
                f"if it is the key, a kind of TagId: class {name_of(cls).rpartition('.')[2]}Id(TagId): ...",
            )

    def _unreached(self, cls: type[Projection]) -> Iterator[str]:
        """The handlers whose events have no field for an id of the key. Only tags given by hand lead to them."""
        for handler, event in self.handlers.values():
            if event.to_event is not DomainEvent.to_event:  # it may add tags
                continue
            carried = {kind.prefix for kind in event_shape(event).tag_kinds}
            for name, kind in self.key:
                if kind.prefix not in carried:
                    yield (
                        f"{name_of(cls)}.{handler.name} is never called: {event.__name__} has no field of the type"
                        f" {kind.__name__}, so it has no tag of {an(name_of(cls))}; write {name}: {kind.__name__} in"
                        f" {event.__name__}, or leave the handler out"
                    )

    def _add_handler(self, cls: type[Projection], handler: Handler, event: type[DomainEvent]) -> None:
        known = self.handlers.get(event.event_type)
        if known is not None:
            refuse_clashes(name_of(cls), (known[1], event), ())
            raise InvalidInput(
                f"{name_of(cls)} handles {event.event_type} twice: in {known[0].name} and {handler.name}",
                hint="handle it in one method",
            )
        self.handlers[event.event_type] = (handler, event)


def _is_atom(value: object) -> bool:
    # A mere object is compared by what it is: MISSING = object().
    return isinstance(value, ATOMS) or type(value) is object


def _is_immutable(default: object, where: str) -> bool:
    """Whether all projections may have the same one; a tuple may have a list in it."""
    try:
        return _is_atom(default) or copy.deepcopy(default) is default
    except Exception as error:
        raise InvalidInput(
            f"the default of {where} cannot be copied: {error}",
            hint="each projection gets a copy: write None",
        ) from error


def declare(cls: type[Projection], here: Names) -> None:
    """Work out what a new class declares; or when it is first used, if it names what is not defined yet."""
    with contextlib.suppress(Unresolved):
        shape = Shape(cls, here)
        if shape.is_final:
            cls.__shape__ = shape
            return
    cls.__here__ = here  # type: ignore[attr-defined]


def shape_of(cls: type[Projection]) -> Shape:
    """What a projection class declares."""
    known = cls.__shape__
    if known is None or known.projection is not cls:  # not known, or that of a base class
        known = Shape(cls, cls.__dict__.get("__here__"))
        cls.__shape__ = known
        cls.__here__ = None  # type: ignore[attr-defined]
    return known


def _fields(cls: type[Projection], here: Names | None) -> dict[str, Any]:
    """The types of the fields, those of base classes first."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in own_annotations(base).items():
            kind = annotation
            if isinstance(annotation, str):
                names = names_of(base, here if base is cls else None)
                kind = _resolved(
                    annotation, names, f"{name_of(base)}.{name}", is_needed=not hasattr(cls, name)
                )
                base.__annotations__[name] = kind  # known from now on, also to subclasses elsewhere
            if not is_class_var(kind) and (hasattr(cls, name) or not name.startswith("_")):
                found[name] = meant(kind)
    _refuse_shared(cls, found)
    return found


def _refuse_shared(cls: type[Projection], fields: dict[str, Any]) -> None:
    """Refuse a list, say, that all states would change together, because it is no field."""
    for base in cls.__mro__:
        for name, value in tuple(vars(base).items()):
            if name in fields or name.startswith("__") or _is_said_to_be_shared(cls, name):
                continue
            is_constant = name.startswith("_") or name[:1].isupper() or not hasattr(base, "__shape__")
            line = None if is_constant else without_colon(name, value)
            if line is not None:
                raise InvalidInput(
                    f"{name_of(base)}.{name} is no field, for it has no type",
                    hint=f"write {line}; if it is a constant, {name}: ClassVar = …",
                )
            if isinstance(value, _CHANGING):
                kind = type(value).__name__
                raise InvalidInput(
                    f"{name_of(base)}.{name} is one {kind} for all states: without a type it is no field",
                    hint=f"annotate it: {name}: {kind}[…] = …; if it is a constant, {name}: ClassVar = …",
                )


def _is_said_to_be_shared(cls: type[Projection], name: str) -> bool:
    return any(is_class_var(own_annotations(base).get(name)) for base in cls.__mro__)


def _resolved(annotation: str, names: Names, where: str, *, is_needed: bool) -> Any:
    try:
        return resolve({"field": annotation}, names, where)["field"]
    except Unresolved:
        if is_needed:
            raise
        return annotation  # what type a state has matters to its snapshots only, and may be known then
