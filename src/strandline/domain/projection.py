"""Projections: state folded from the events that belong to a key."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar, overload

from ..errors import InvalidInput
from ..event import SequencedEvent
from ..names import check_flag, counted
from ..query import Query
from ..tag_id import IdValue, TagId
from .annotations import name_of, names_here
from .event import DomainEvent
from .handlers import check_events, mark, refuse_lost
from .shape import Shape, declare, shape_of
from .usual import native

H = TypeVar("H", bound=Callable[..., None])


@overload
def on(handler: H, /) -> H: ...
@overload
def on(*events: type[DomainEvent], conflicts: bool = True) -> Callable[[H], H]: ...
def on(*arguments: Any, conflicts: bool = True) -> Any:
    """Mark a method of a projection that takes events: those that its parameter is annotated with.

    `@on(A, B)` names them, if an annotation cannot. With `conflicts=False` the events change the
    state, but do not spoil a decision that was made without them.
    """
    check_flag(conflicts, "conflicts")
    body = sys._getframe(1).f_locals
    if len(arguments) == 1 and inspect.isfunction(arguments[0]):
        return mark(arguments[0], (), body, conflicts=conflicts)
    classes = check_events(arguments, "@on takes event classes, not", "write @on or @on(CourseDefined)")

    return lambda handler: mark(handler, classes, body, conflicts=conflicts)


class Projection:
    """State that is folded from events. TagId fields without a default are its key, all others have defaults.

    Built from its key alone, `Course("c1")`; the fields are the state. `class X(Projection,
    last_only=True)` is folded from its newest event only, but guards all of them. `class X(Projection,
    snapshot_every=1000, version=2)` is kept in the log's database after so many events, for who reads it next;
    a new version, after a change of what it computes, begins anew.
    """

    __shape__: ClassVar[Shape | None] = None

    _last_only: ClassVar[bool] = False
    _version: ClassVar[int] = 1
    _snapshot_every: ClassVar[int | None] = None

    def __init_subclass__(
        cls,
        *,
        last_only: bool | None = None,
        version: int | None = None,
        snapshot_every: int | None = None,
        **unknown: object,
    ) -> None:
        super().__init_subclass__()
        if unknown or type(last_only) not in {bool, type(None)} or type(version) not in {int, type(None)}:
            raise InvalidInput(
                f"{name_of(cls)} has options that a projection has not",
                hint="there are last_only=True, version=2 and snapshot_every=1000",
            )
        refuse_own_beginning(cls)
        _refuse_hiding(cls)
        refuse_lost(cls)
        if last_only is not None:
            cls._last_only = last_only
        if version is not None:
            cls._version = _whole(version, cls)
        if snapshot_every is not None:
            cls._snapshot_every = _every(snapshot_every, cls)
        declare(cls, names_here())

    def __init__(self, *key: IdValue) -> None:
        if native is not None and native.begin_state(self, key):
            return
        shape = shape_of(type(self))
        if not shape.handlers:
            raise InvalidInput(
                f"{name_of(type(self))} handles no event",
                hint="add a method: @on def opened(self, event: Opened)",
            )
        if len(key) != len(shape.key):
            expected = ", ".join(f"{name}: {kind.__name__}" for name, kind in shape.key)
            raise InvalidInput(
                f"{type(self).__name__} is built from ({expected}), not from {counted(len(key), 'value')}",
                hint=f"write {type(self).__name__}({', '.join(repr(name) for name, _ in shape.key)})",
            )
        kinds = shape.kinds
        if len(key) == 1:  # as most have
            shape.fill(self, (kinds[0](key[0]),))
        else:
            shape.fill(self, tuple([kind(value) for kind, value in zip(kinds, key, strict=True)]))

    def _key(self) -> tuple[TagId, ...]:
        """The values of its key fields."""
        return shape_of(type(self)).key_of(self)

    def query(self) -> Query:
        """The events that it is folded from."""
        return shape_of(type(self)).query(self._key())

    def apply(self, event: SequencedEvent) -> None:
        """Take an event that belongs to it into the state; one of a type that it does not handle changes nothing."""
        handled = shape_of(type(self)).handlers.get(event.type)
        if handled is None:
            return
        handler, cls = handled
        recorded = (event,) if handler.takes_recorded else ()
        getattr(self, handler.name)(cls.from_event(event), *recorded)

    def _fresh(self) -> Self:
        """The same key, with nothing folded yet."""
        twin, shape = object.__new__(type(self)), shape_of(type(self))
        shape.fill(twin, shape.key_of(self))
        return twin

    def _copy(self) -> Self:
        """A state of its own: changing one does not change the other."""
        if native is not None and (plain := native.copy_plain(self)) is not None:
            return plain  # type: ignore[no-any-return]
        cls: type[Self] = type(self)
        shape = shape_of(cls)
        twin = object.__new__(cls)
        fields = twin.__dict__
        fields.update(self.__dict__)
        copied: dict[int, Any] = {}  # for all fields: what two of them share, they share in the copy too
        for name, value in self.__dict__.items():
            if value.__class__ not in shape.atoms and not shape.is_atom(value):
                fields[name] = copy.deepcopy(value, copied)
        return twin

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
        )


def refuse_own_beginning(cls: type[Projection]) -> None:
    """Refuse a class that begins its states in its own way: they are also made without that, from their key."""
    if vars(cls).get("__slots__"):
        raise InvalidInput(
            f"{name_of(cls)} has __slots__: its fields have values in the class that states begin with",
            hint="leave __slots__ away",
        )
    if cls.__init__ is not Projection.__init__ or cls.__new__ is not object.__new__:
        raise InvalidInput(
            f"{name_of(cls)} has an __init__ of its own: a state begins with the defaults of its fields",
            hint="write fields with defaults, seen: set[str] = set(), and no __init__, __new__ or @dataclass",
        )


def _refuse_hiding(cls: type[Projection]) -> None:
    """Refuse what takes the place of something that the library calls; `query` and `apply` are for users."""
    for name in vars(Projection):
        owner = next(base for base in cls.__mro__ if name in vars(base))
        if (
            name.startswith("_")
            and not name.startswith("__")
            and (owner is cls or not issubclass(owner, Projection))
        ):
            raise InvalidInput(
                f"{name_of(owner)}.{name} hides what every projection has under that name",
                hint=f"give it another name: {name.strip('_')}_",
            )


def _whole(version: int, cls: type[Projection]) -> int:
    if version < 1:
        raise InvalidInput(
            f"the version of {name_of(cls)} is a whole number from 1, not {version}",
            hint=f"write class {cls.__name__}(Projection, version=2) for the second",
        )
    return version


def _every(events: int, cls: type[Projection]) -> int:
    if isinstance(events, bool) or not isinstance(events, int) or events < 1 or cls._last_only:
        raise InvalidInput(
            f"{name_of(cls)} cannot have a snapshot every {events!r:.40} events",
            hint="write a whole number from 1, as in snapshot_every=1000; what is last_only needs none",
        )
    return events
