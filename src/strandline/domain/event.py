"""Typed events: a class per type, whose TagId fields are its tags."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform
from uuid import UUID

import msgspec

from ..callables import never_runs
from ..errors import InvalidEvent, InvalidInput
from ..event import Event, SequencedEvent
from ..names import an, check_own_name, check_tags
from ..tag_id import TagId, as_ids
from . import codec
from .annotations import Unresolved, name_of, names_here, own_annotations
from .event_shape import EventShape, declare_event, event_shape, without_colon, without_type

if TYPE_CHECKING:
    from msgspec import StructMeta
else:
    StructMeta = type(msgspec.Struct)

VERSION = "version"  # the name of the version in an event's metadata; left out for the first
_MARK = f'"{VERSION}":'.encode()

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
U = TypeVar("U", bound=Upcast)


def upcast(version: int) -> Callable[[U], U]:
    """Mark a function on an event class that turns the data of `version` into that of the next one."""
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidEvent(f"a version is a whole number, not {version!r:.40}", hint="write @upcast(1)")

    def mark(function: U) -> U:
        # Also if it is above @staticmethod, which is a thing of its own then.
        own: Any = getattr(function, "__func__", function)
        own.__upcasts__ = version
        return function

    return mark


class EventMeta(StructMeta):
    """Makes event classes: frozen, with keyword arguments only, and with `type=`, `version=` and `stream=`."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        type: str | None = None,
        version: int = 1,
        stream: str | None = None,
        **unknown: Any,
    ) -> Any:
        has_dict = any(not issubclass(base, msgspec.Struct) and base.__dictoffset__ for base in bases)
        try:
            cls: Any = super().__new__(mcs, name, bases, namespace, frozen=True, kw_only=True, gc=has_dict)
        except TypeError as error:
            raise _no_event(name, namespace, error) from error
        if bases == (msgspec.Struct,):  # DomainEvent itself
            return cls
        if unknown:
            raise InvalidEvent(
                f"{name} has an unknown option: {', '.join(unknown)}",
                hint="there are type=, version= and stream=",
            )
        cls.event_type = check_own_name(name if type is None else type, "type", InvalidEvent)
        cls.event_version = version
        cls.event_upcasts = _upcasts(name, version, namespace)
        if stream is not None:
            cls.event_stream = stream
        _refuse_reserved(cls)
        _refuse_untyped(cls, namespace)
        declare_event(cls, names_here())
        return cls

    def __init__(self, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **_: Any) -> None:
        super().__init__(name, bases, namespace)

    if not TYPE_CHECKING:  # for type checkers, the fields are what it takes

        def __call__(cls, *args: Any, **fields: Any) -> Any:  # noqa: N805
            """Make an event. What an id is made of becomes the id."""
            shape = cls.__dict__.get("__shape__") or event_shape(cls)
            for name, kind, _ in shape.tag_fields:
                value = fields.get(name)
                if value.__class__ is not kind and value is not None:
                    fields[name] = _ids(kind, value)
            return _make(cls, *args, **fields)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "__dataclass_params__":  # what @dataclass writes first
            raise InvalidEvent(
                f"{name_of(self)} cannot be a dataclass: an event has its fields, and cannot be changed, without that",
                hint="leave @dataclass away",
            )
        super().__setattr__(name, value)


_make = StructMeta.__call__


def _ids(kind: type[TagId], value: Any) -> Any:
    """The value of a field with ids in the place of what they are made of."""
    try:
        return as_ids(kind, value)
    except InvalidInput:
        return value  # it is refused where the event is written


class _NoType:
    """The type of an event of no class."""

    def __get__(self, event: object, _: type) -> str:
        raise AttributeError("event_type") if event is None else without_type()


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class DomainEvent(msgspec.Struct, frozen=True, kw_only=True, metaclass=EventMeta):
    """A fact with typed fields. Those whose type is a TagId (or a list of them, or None) are its tags.

    `class CourseDefined(DomainEvent, type="course-defined", version=2, stream="course")` overrides the name of
    the type, which is the name of the class, says that data of version 1 is to be upcast, and names the TagId
    field whose tag is the event's stream.
    """

    event_type: ClassVar[str] = _NoType()  # type: ignore[assignment]
    event_version: ClassVar[int]
    event_upcasts: ClassVar[dict[int, Upcast]]
    event_stream: ClassVar[str | None] = None

    if TYPE_CHECKING:

        def __init_subclass__(
            cls, type: str | None = None, version: int = 1, stream: str | None = None
        ) -> None: ...

    def with_tags(self, *tags: str) -> Event:
        """The event to write, with more tags than its fields."""
        return self.to_event(tags=tags)

    def to_event(
        self,
        *,
        tags: Iterable[str] = (),
        id: UUID | str | None = None,
        metadata: Mapping[str, str] | None = None,
        stream: str | None = None,
        subject: str | None = None,
    ) -> Event:
        """The event to write, with more tags if given; `stream` is used instead of the stream of its class."""
        return self._written(tags, id, metadata, stream, subject)[0]

    def _written(
        self,
        tags: Iterable[str] = (),
        id: UUID | str | None = None,
        metadata: Mapping[str, str] | None = None,
        stream: str | None = None,
        subject: str | None = None,
    ) -> tuple[Event, Self | None]:
        """The event to write, and what a reader will make of it; None if every reader has to have one of its own."""
        cls = type(self)
        shape = event_shape(cls)
        if metadata and metadata.get(VERSION, cls.event_version) not in {
            cls.event_version,
            str(cls.event_version),
        }:
            raise InvalidEvent(
                f"{VERSION!r} in the metadata is the version of the data, which is {cls.event_version}"
                f" for {an(cls.__name__)}, not {metadata[VERSION]!r:.40}",
                hint="give it another name: app_version",
            )
        if cls.event_version > 1:
            metadata = {**(metadata or {}), VERSION: str(cls.event_version)}
        data, read = self._encoded(shape)
        own_tags = shape.tags(self)
        event = Event(
            cls.event_type,
            data,
            tags=[*own_tags, *check_tags(tags, InvalidEvent)] if tags != () else own_tags,
            id=id,
            metadata=metadata,
            stream=shape.stream(self) if stream is None and shape.stream_field else stream,
            subject=subject,
        )
        return event, read if shape.is_fixed else None

    def _encoded(self, shape: EventShape) -> tuple[bytes, Self]:
        if shape.values.are_any:
            shape.values.check(self)
        data = codec.encode(self, has_sets=True) if shape.has_sets else codec.encode(self)
        try:
            # What cannot be read again would spoil every later decision that depends on it.
            return data, shape.decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise InvalidEvent(
                f"a value of {self!r:.120} is not of its field's type: {error}",
                hint=f"look at the fields of {type(self).__name__}; a type checker finds such a line",
            ) from error

    @classmethod
    def from_event(cls, event: Event | SequencedEvent) -> Self:
        """The typed form of an event of the log, older versions upcast."""
        if not isinstance(event, (Event, SequencedEvent)):
            raise InvalidEvent(
                f"{an(type(event).__name__)} is no event of a log", hint="pass an event that was read"
            )
        shape = event_shape(cls)
        if event.type != cls.event_type:
            raise InvalidEvent(
                f"{_name(event)} is not {an(cls.__name__)}, whose type is {cls.event_type}",
                hint="look at event.type first",
            )
        version = _version_of(event)
        try:
            if version == cls.event_version:
                decoded: Self = shape.decoder.decode(event.data)
                return decoded
            converted: Self = codec.convert(cls._upcast(event, version), cls)
            return converted
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidEvent(
                f"the data of {_name(event)} does not fit {cls.__name__}: {error}",
                hint=f"give the new field of {cls.__name__} a default, or a new version with an upcast",
            ) from error

    @classmethod
    def _upcast(cls, event: Event | SequencedEvent, version: int) -> Any:
        if version > cls.event_version:
            raise InvalidEvent(
                f"{_name(event)} has version {version}, {cls.__name__} knows up to {cls.event_version}",
                hint="it was written by a newer program: install that one",
            )
        data = msgspec.json.decode(event.data)
        for step in range(version, cls.event_version):
            try:
                data = cls.event_upcasts[step](data)
            except Exception as error:
                raise InvalidEvent(
                    f"the upcast of {_name(event)} from version {step} failed: {error!r}",
                    hint=f"correct @upcast({step}) of {cls.__name__} so that it takes {event.data[:80]!r}",
                ) from error
            if not isinstance(data, dict):
                raise InvalidEvent(
                    f"the upcast of {_name(event)} from version {step} gave {an(type(data).__name__)}",
                    hint=f"let @upcast({step}) of {cls.__name__} return the data: a dict",
                )
        return data


_RESERVED = (
    "event_type",
    "event_version",
    "event_upcasts",
    "event_stream",
)  # which each class has of its own


def _refuse_reserved(cls: type[DomainEvent]) -> None:
    for name in cls.__struct_fields__:
        if name in _RESERVED or any(name in vars(base) for base in DomainEvent.__mro__):
            raise InvalidEvent(
                f"{name_of(cls)}.{name} hides what every event has under that name",
                hint=f"give the field another name: {name}_",
            )


def _refuse_untyped(cls: type[DomainEvent], namespace: Mapping[str, Any]) -> None:
    """Refuse what was meant as a field, but would be the same for all events, because it has no type."""
    try:
        typed = own_annotations(cls)
    except Unresolved:  # from Python 3.14 on
        return
    for name, value in namespace.items():
        is_method = callable(value) or hasattr(value, "__get__")
        if name in typed or name.startswith("_") or name[:1].isupper() or _is_inherited(cls, name):
            continue
        if (line := without_colon(name, value)) is None and not is_method:
            line = f"{name}: {'str | None' if value is None else type(value).__name__} = {value!r:.60}"
        if line is not None:
            option = name.removeprefix("event_")
            raise InvalidEvent(
                f"{name_of(cls)}.{name} is no field, for it has no type",
                hint=f"write class {cls.__name__}(DomainEvent, {option}={value!r:.60})"
                if name in _RESERVED
                else f"write {line}; if it is the same for all events, {name}: ClassVar = …",
            )


def _is_inherited(cls: type[DomainEvent], name: str) -> bool:
    """Whether it is a constant of a base class, with another value."""
    is_field = name in cls.__struct_fields__ or name in _RESERVED
    return not is_field and any(name in vars(base) for base in cls.__mro__[1:])


def _no_event(name: str, namespace: Mapping[str, Any], error: TypeError) -> InvalidEvent:
    """What msgspec refuses, with the way out."""
    hint = "derive it from one event class, and leave __init__, __new__ and __slots__ away: fields are given by name"
    for field, value in namespace.items():
        if isinstance(value, (list, dict, set, bytearray)) and value and f"({value!r})" in str(error):
            hint = f"write {field}: {type(value).__name__}[…] = msgspec.field(default_factory=lambda: {value!r:.60})"
    return InvalidEvent(f"{name} cannot be an event: {error}", hint=hint)


def _upcasts(name: str, version: object, namespace: Mapping[str, Any]) -> dict[int, Upcast]:
    """The upcasts of a class, by the version that they take: one for each version before its own."""
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidEvent(
            f"the version of {name} is a whole number from 1, not {version!r:.40}",
            hint=f"write class {name}(DomainEvent, version=2) for the second",
        )
    for member in namespace.values():
        if isinstance(member, classmethod) and hasattr(member.__func__, "__upcasts__"):
            raise InvalidEvent(
                f"the upcast {name}.{member.__func__.__name__} is a class method, and is given the data only",
                hint=f"write @staticmethod above @upcast({member.__func__.__upcasts__})",
            )
    functions = [getattr(member, "__func__", member) for member in namespace.values()]
    marked = [function for function in functions if hasattr(function, "__upcasts__")]
    found = {function.__upcasts__: function for function in marked}
    if len(found) < len(marked) or found.keys() - range(1, version):
        raise InvalidEvent(
            f"{name} has version {version} and upcasts from {[function.__upcasts__ for function in marked]}",
            hint=f"write one for each version before {version}, or raise version= to {max(found) + 1}",
        )
    for function in marked:
        _check_upcast(name, function)
    for missing in range(1, version):
        if missing not in found:
            raise InvalidEvent(
                f"{name} has version {version}, but nothing turns version {missing} into the next",
                hint=f"add to the class: @staticmethod @upcast({missing}) def … (data: dict) -> dict",
            )
    return found


def _check_upcast(name: str, function: Upcast) -> None:
    """Refuse one that cannot be called with the data, or gives something that it would have to be got out of."""
    try:
        inspect.signature(function).bind({})
    except ValueError:  # of what is not written in Python nobody knows
        return
    except TypeError:
        is_right = False
    else:
        is_right = not never_runs(function)
    if not is_right:
        own = getattr(function, "__name__", "upcast")
        version = getattr(function, "__upcasts__", 1)
        raise InvalidEvent(
            f"the upcast {name}.{own} does not turn the data of an event into the next version's",
            hint=f"write it without self, async and yield: @staticmethod @upcast({version})"
            f" def {own}(data: dict) -> dict",
        )


def unseen(data: bytes) -> Any:
    """Read nothing: who does not look at an event is handed this instead."""
    return unseen


def quick_decoder(cls: type[DomainEvent], *, looks: bool = True) -> Callable[[bytes], DomainEvent] | None:
    """Reads the data of events without metadata; None if those are of a version that is to be upcast.

    For who never `looks` at them, nothing is read.
    """
    if cls.event_version > 1:
        return None
    return event_shape(cls).decoder.decode if looks else unseen


def reader(cls: type[DomainEvent], *, looks: bool = True) -> Callable[[SequencedEvent], DomainEvent]:
    """`cls.from_event` for many events whose type is known to be the class's; for who never `looks`, `unseen`."""
    decode = quick_decoder(cls, looks=looks)

    def read(event: SequencedEvent) -> DomainEvent:
        if decode is not None and (event.raw_metadata is None or _MARK not in event.raw_metadata):
            try:
                return decode(event.data)
            except Exception:  # noqa: BLE001, S110  (what is wrong is told by the careful way)
                pass
        return cls.from_event(event)

    return read


def _name(event: Event | SequencedEvent) -> str:
    position = getattr(event, "position", None)
    return f"this {event.type}" if position is None else f"event {position} ({event.type})"


def _version_of(event: Event | SequencedEvent) -> int:
    if isinstance(event, SequencedEvent) and (event.raw_metadata is None or _MARK not in event.raw_metadata):
        return 1  # as for most events, without a look into their metadata
    text = event.metadata.get(VERSION, "1")
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise InvalidEvent(
            f"{_name(event)} has the version {text!r:.40}, which is no whole number from 1",
            hint=f"leave {VERSION!r} in the metadata to the typed events",
        )
    return int(text)
