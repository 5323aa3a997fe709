"""What an event class declares: which fields are tags, which one is the stream, and how JSON is read."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
from msgspec import inspect as shapes

from ..errors import InvalidEvent
from ..tag_id import TagId, is_same_class
from . import codec
from .annotations import Names, Unresolved, name_of, names_of, own_annotations, resolve
from .clashes import refuse_clashes

if TYPE_CHECKING:
    from .event import DomainEvent


class EventShape:
    """The fields of an event class that are tags, its decoder and its stream, worked out once."""

    def __init__(self, cls: type[DomainEvent], here: Names | None = None) -> None:
        _settle(cls, here)
        fields = _fields(cls)
        self.is_fixed = all(_is_fixed(field.type) for field in fields)
        """Whether nothing in an event can change: then several projections may be handed the same one."""
        self.has_sets = any(_has_sets(field.type) for field in fields)
        """Whether its JSON depends on the order of sets, which is another one in each process."""
        kinds = {field.name: [*_tag_ids(cls, field.name, field.type)] for field in fields}
        refuse_clashes(name_of(cls), (), (kind for found in kinds.values() for kind in found))
        self.tag_kinds = {kind for found in kinds.values() for kind in found}
        self._tag_fields = [
            (name, found[0], f"{found[0].prefix}:" if found[0].tag is TagId.tag else None)
            for name, found in kinds.items()
            if found
        ]
        self.decoder = _decoder(cls)
        self.stream_field = self._stream_field(cls)
        self._cls = cls

    @functools.cached_property
    def layout(self) -> tuple[Any, ...] | None:
        """What native code needs of it; None if the event to write is not just its data and the tags of its fields."""
        from .event import DomainEvent

        cls = self._cls
        is_plain = (
            cls.to_event is DomainEvent.to_event
            and cls.event_version == 1
            and self.stream_field is None
            and not self.has_sets
            and all(beginning is not None for *_, beginning in self._tag_fields)
        )
        if not is_plain:
            return None
        return cls, cls.event_type, self.decoder.decode, self.is_fixed, tuple(self._tag_fields)

    def tags(self, event: DomainEvent) -> list[str]:
        """The tags of an event."""
        tags: list[str] = []
        for name, kind, beginning in self._tag_fields:
            value = getattr(event, name)
            if type(value) is kind:
                tags.append(value.tag if beginning is None else beginning + value)
            else:
                tags.extend(_tags_of(value, name, kind))
        return tags

    def stream(self, event: DomainEvent) -> str | None:
        """The stream of an event: the tag of the field that the class names."""
        if self.stream_field is None:
            return None
        tag: str = getattr(event, self.stream_field).tag
        return tag

    def _stream_field(self, cls: type[DomainEvent]) -> str | None:
        name = cls.event_stream
        if name is None:
            return None
        single = [field.name for field in _fields(cls) if isinstance(_plain(field.type), shapes.CustomType)]
        if name not in single or name not in [name for name, *_ in self._tag_fields]:
            fields = ", ".join(name for name, *_ in self._tag_fields if name in single) or "none"
            raise InvalidEvent(
                f"the stream of {name_of(cls)} cannot be {name!r:.80}: that is no field with one TagId",
                hint=f"name one of its fields that is one TagId, not optional and no list ({fields})",
            )
        return name


def declare_event(cls: type[DomainEvent], here: Names) -> None:
    """Work out what a new class declares; or when it is first used, if it names what is not defined yet."""
    try:
        type.__setattr__(cls, "__shape__", EventShape(cls, here))
    except Unresolved:
        type.__setattr__(cls, "__here__", here)


def event_shape(cls: type[DomainEvent]) -> EventShape:
    """What an event class declares."""
    known: EventShape | None = cls.__dict__.get("__shape__")
    if known is None:
        known = EventShape(cls, cls.__dict__.get("__here__"))
        type.__setattr__(cls, "__shape__", known)
        type.__setattr__(cls, "__here__", None)
    return known


def _settle(cls: type[DomainEvent], here: Names | None) -> None:
    """Turn the annotations of a class into types, for msgspec does not look into functions for their names."""
    own = own_annotations(cls)
    if any(isinstance(annotation, str) for annotation in own.values()):
        type.__setattr__(cls, "__annotations__", resolve(own, names_of(cls, here), name_of(cls)))


def _fields(cls: type[DomainEvent]) -> tuple[shapes.Field, ...]:
    try:
        with codec.working_out:
            shape = shapes.type_info(cls)
    except NameError as error:
        raise Unresolved(
            f"a type that {name_of(cls)} uses is annotated with something that is not defined: {error}",
            hint="define or import it at the top of the module, not only for type checkers",
        ) from error
    except TypeError as error:
        raise _not_json(cls, str(error)) from error
    assert isinstance(shape, shapes.StructType)
    return shape.fields


def _decoder(cls: type[DomainEvent]) -> msgspec.json.Decoder[Any]:
    try:
        return codec.decoder(cls)
    except TypeError as error:
        raise _not_json(cls, str(error)) from error


def _not_json(cls: type[DomainEvent], what: str) -> InvalidEvent:
    return InvalidEvent(f"{name_of(cls)} cannot be read from JSON: {what}", hint=codec.JSON_TYPES)


_FIXED = (
    *(shapes.StrType, shapes.IntType, shapes.FloatType, shapes.BoolType, shapes.NoneType, shapes.BytesType),
    *(shapes.DateTimeType, shapes.DateType, shapes.TimeType, shapes.TimeDeltaType),
    *(shapes.UUIDType, shapes.DecimalType, shapes.EnumType, shapes.LiteralType),
)


def _is_fixed(shape: shapes.Type) -> bool:
    """Whether values of a type can certainly not be changed."""
    match shape:
        case (
            shapes.Metadata(type=inner)
            | shapes.VarTupleType(item_type=inner)
            | shapes.FrozenSetType(item_type=inner)
        ):
            return _is_fixed(inner)
        case shapes.UnionType(types=parts) | shapes.TupleType(item_types=parts):
            return all(map(_is_fixed, parts))
        case shapes.CustomType(cls=kind):
            return isinstance(kind, type) and issubclass(kind, TagId)
    return isinstance(shape, _FIXED)


def _has_sets(shape: shapes.Type, path: tuple[shapes.Type, ...] = ()) -> bool:
    if any(shape is outer for outer in path):
        return False
    is_one = isinstance(shape, (shapes.SetType, shapes.FrozenSetType))
    return is_one or any(_has_sets(part, (*path, shape)) for part in _parts(shape)[1])


def _plain(shape: shapes.Type) -> shapes.Type:
    return _plain(shape.type) if isinstance(shape, shapes.Metadata) else shape


def _tag_ids(
    cls: type[DomainEvent], field: str, shape: shapes.Type, inside: str = "", path: tuple[Any, ...] = ()
) -> Iterator[type[TagId]]:
    """The kinds of id that a field holds; `inside` is the type around them in which they would be no tags."""
    if isinstance(shape, shapes.CustomType):
        yield from _tag_id(cls, field, shape.cls, inside)
    elif not any(shape is outer for outer in path):  # a type may contain itself
        around, parts = _parts(shape)
        for part in parts:
            yield from _tag_ids(cls, field, part, inside or around, (*path, shape))


def _parts(shape: shapes.Type) -> tuple[str, Sequence[shapes.Type]]:
    """The name of a type, if ids in it are no tags of the event, and what it consists of."""
    match shape:
        case (
            shapes.Metadata(type=inner)
            | shapes.ListType(item_type=inner)
            | shapes.SetType(item_type=inner)
            | shapes.VarTupleType(item_type=inner)
            | shapes.FrozenSetType(item_type=inner)
        ):
            return "", [inner]
        case shapes.UnionType(types=types):
            parts = [part for part in types if not isinstance(part, shapes.NoneType)]
            return "a union" * (len(parts) > 1), parts
        case shapes.TupleType(item_types=parts):
            return "a tuple of several types" * any(part != parts[0] for part in parts), parts
        case shapes.DictType(key_type=key, value_type=value):
            return "a dict", [key, value]
        case (
            shapes.StructType(cls=outer, fields=fields)
            | shapes.DataclassType(cls=outer, fields=fields)
            | shapes.NamedTupleType(cls=outer, fields=fields)
            | shapes.TypedDictType(cls=outer, fields=fields)
        ):
            return outer.__name__, [each.type for each in fields]
    return "", []


def _tag_id(cls: type[DomainEvent], field: str, kind: Any, inside: str) -> Iterator[type[TagId]]:
    if kind is object:
        return
    if not (isinstance(kind, type) and issubclass(kind, TagId)) or kind is TagId:
        name = getattr(kind, "__name__", kind)
        raise InvalidEvent(
            f"{name_of(cls)}.{field}: a {name} cannot be read from JSON",
            hint="give it a kind: class CourseId(TagId): ..." if kind is TagId else codec.JSON_TYPES,
        )
    if inside:
        raise InvalidEvent(
            f"{name_of(cls)}.{field}: a {kind.__name__} in {inside} would be no tag",
            hint=f"write str there, and give the event a field that is: {kind.prefix}s: list[{kind.__name__}]",
        )
    yield kind


def _tags_of(value: Any, field: str, kind: type[TagId]) -> Iterator[str]:
    if isinstance(value, TagId) and (isinstance(value, kind) or is_same_class(type(value), kind)):
        # The tag of the field's own kind, as it will be read, also if the value is of a kind of that.
        yield kind(str.__str__(value)).tag
    elif isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from _tags_of(inner, field, kind)
    elif value is not None:
        meant = repr(str(value)) if type(value) in (str, int, UUID) else "…"
        raise InvalidEvent(
            f"{field}: {value!r:.80} is in the place of a {kind.__name__}",
            hint=f"write {kind.__name__}({meant:.80})",
        )
