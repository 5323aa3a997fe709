"""Typed events: a class per type, whose TagId fields are its tags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform
from uuid import UUID

import msgspec
from msgspec import inspect as shapes

from ..errors import InvalidEvent
from ..event import Event, SequencedEvent
from ..tag_id import TagId
from . import codec

if TYPE_CHECKING:
    from msgspec import StructMeta
else:
    StructMeta = type(msgspec.Struct)

VERSION = "version"  # the name of the version in an event's metadata; left out for the first

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
U = TypeVar("U", bound=Upcast)


def upcast(version: int) -> Callable[[U], U]:
    """Mark a function on an event class that turns the data of `version` into that of the next one."""

    def mark(function: U) -> U:
        function.__upcasts__ = version  # type: ignore[attr-defined]
        return function

    return mark


def _function(member: Any) -> Any:
    return member.__func__ if isinstance(member, staticmethod) else member


class EventMeta(StructMeta):
    """Makes event classes: frozen, with keyword arguments only, and with `type=` and `version=`."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        type: str | None = None,
        version: int = 1,
        **_: Any,
    ) -> Any:
        found = {
            function.__upcasts__: function
            for function in map(_function, namespace.values())
            if hasattr(function, "__upcasts__")
        }
        cls: Any = super().__new__(mcs, name, bases, namespace, frozen=True, kw_only=True)
        cls.event_type = name if type is None else type
        cls.event_version = version
        cls.event_upcasts = found
        missing = set(range(1, version)) - found.keys() if bases and bases != (msgspec.Struct,) else set()
        if missing:
            raise InvalidEvent(
                f"{name} has version {version}, but nothing turns version {min(missing)} into the next",
                hint=f"add to the class: @staticmethod @upcast({min(missing)}) def … (data: dict) -> dict",
            )
        return cls

    def __init__(self, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, namespace)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class DomainEvent(msgspec.Struct, frozen=True, kw_only=True, metaclass=EventMeta):
    """A fact with typed fields. Those whose type is a TagId (or a list of them, or None) are its tags.

    `class CourseDefined(DomainEvent, type="course-defined", version=2)` overrides the name of the type,
    which is the name of the class, and says that data of version 1 is to be upcast.
    """

    event_type: ClassVar[str]
    event_version: ClassVar[int]
    event_upcasts: ClassVar[dict[int, Upcast]]

    if TYPE_CHECKING:

        def __init_subclass__(cls, type: str | None = None, version: int = 1) -> None: ...

    def tags(self) -> tuple[str, ...]:
        """The tags of its TagId fields."""
        return tuple(tag for name in tag_fields(type(self)) for tag in _tags_of(getattr(self, name)))

    def to_event(
        self,
        *,
        tags: Iterable[str] = (),
        id: UUID | str | None = None,
        metadata: Mapping[str, str] | None = None,
        stream: str | None = None,
        subject: str | None = None,
    ) -> Event:
        """The event to write, with more tags if given."""
        cls = type(self)
        if cls.event_version > 1:
            metadata = {**(metadata or {}), VERSION: str(cls.event_version)}
        return Event(
            cls.event_type,
            codec.encode(self),
            tags=(*self.tags(), *tags),
            id=id,
            metadata=metadata,
            stream=stream,
            subject=subject,
        )

    @classmethod
    def from_event(cls, event: Event | SequencedEvent) -> Self:
        """The typed form of an event of the log, older versions upcast."""
        if event.type != cls.event_type:
            raise InvalidEvent(
                f"a {event.type} is not a {cls.__name__} ({cls.event_type})", hint="look at event.type first"
            )
        version = 1 if cls.event_version == 1 else _version_of(event)
        try:
            if version == cls.event_version:
                decoded: Self = _decoder(cls).decode(event.data)
                return decoded
            return cls._upcast(event, version)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidEvent(
                f"the data of this {event.type} does not fit {cls.__name__}: {error}",
                hint=f"give the new field of {cls.__name__} a default, or a new version with an upcast",
            ) from error

    @classmethod
    def _upcast(cls, event: Event | SequencedEvent, version: int) -> Self:
        if version > cls.event_version:
            raise InvalidEvent(
                f"this {event.type} has version {version}, {cls.__name__} knows up to {cls.event_version}",
                hint="it was written by a newer program: install that one",
            )
        data = event.json()
        for step in range(version, cls.event_version):
            data = cls.event_upcasts[step](data)
        converted: Self = codec.convert(data, cls)
        return converted


def tag_fields(cls: type[DomainEvent]) -> tuple[str, ...]:
    """The fields of an event class that are tags."""
    known: tuple[str, ...] | None = cls.__dict__.get("__tag_fields__")
    if known is None:
        known = tuple(field.name for field in _fields(cls) if any(_tag_ids(field.type)))
        type.__setattr__(cls, "__tag_fields__", known)
    return known


def tag_id_classes(cls: type[DomainEvent]) -> set[type[TagId]]:
    """The kinds of tags that events of a class have."""
    return {kind for field in _fields(cls) for kind in _tag_ids(field.type)}


def _decoder(cls: type[DomainEvent]) -> msgspec.json.Decoder[Any]:
    known: msgspec.json.Decoder[Any] | None = cls.__dict__.get("__decoder__")
    if known is None:
        known = codec.decoder(cls)
        type.__setattr__(cls, "__decoder__", known)
    return known


def _fields(cls: type[DomainEvent]) -> tuple[shapes.Field, ...]:
    try:
        shape = shapes.type_info(cls)
    except NameError as error:
        raise InvalidEvent(
            f"an annotation of {cls.__name__} cannot be resolved: {error}",
            hint="define the types that it names at the top of the module",
        ) from error
    assert isinstance(shape, shapes.StructType)
    return shape.fields


def _tag_ids(shape: shapes.Type) -> Iterator[type[TagId]]:
    match shape:
        case shapes.CustomType(cls=kind) if isinstance(kind, type) and issubclass(kind, TagId):
            yield kind
        case shapes.UnionType(types=types):
            for inner in types:
                yield from _tag_ids(inner)
        case (
            shapes.ListType(item_type=inner)
            | shapes.SetType(item_type=inner)
            | shapes.VarTupleType(item_type=inner)
            | shapes.FrozenSetType(item_type=inner)
        ):
            yield from _tag_ids(inner)
        case shapes.TupleType(item_types=types):
            for inner in types:
                yield from _tag_ids(inner)


def _tags_of(value: Any) -> Iterator[str]:
    if isinstance(value, TagId):
        yield value.tag
    elif isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from _tags_of(inner)
    elif value is not None:
        raise InvalidEvent(
            f"{value!r:.80} is in the place of a TagId", hint='write the type: course=CourseId("c1")'
        )


def _version_of(event: Event | SequencedEvent) -> int:
    return int(event.metadata.get(VERSION, "1"))
