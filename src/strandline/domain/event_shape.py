"""What an event class declares: which fields are tags, which one is the stream, and how JSON is read."""

from __future__ import annotations

import copy
import dataclasses
import functools
import typing
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
from msgspec import inspect as shapes
from msgspec.structs import FieldInfo

from ..errors import InvalidEvent
from ..names import an
from ..tag_id import TagId, is_same_class
from . import codec
from .annotations import Names, Unresolved, name_of, names_of, own_annotations, resolve, text_of
from .clashes import refuse_clashes
from .event_values import ValueRules, has, parts_of, plain

if TYPE_CHECKING:
    from .event import DomainEvent


class EventShape:
    """The fields of an event class that are tags, its decoder and its stream, worked out once."""

    def __init__(self, cls: type[DomainEvent], here: Names | None = None) -> None:
        if not hasattr(cls, "event_type"):
            raise without_type()
        _settle(cls, here)
        fields = _fields(cls)
        self.is_fixed = all(_is_fixed(field.type) for field in fields)
        """Whether nothing in an event can change: then several projections may be handed the same one."""
        self.has_sets = any(_has_sets(field.type) for field in fields)
        """Whether its JSON depends on the order of sets, which is another one in each process."""
        kinds = {field.name: [*_tag_ids(cls, field.name, field.type)] for field in fields}
        refuse_clashes(name_of(cls), (), (kind for found in kinds.values() for kind in found))
        self.tag_kinds = {kind for found in kinds.values() for kind in found}
        self.tag_fields = [
            (name, found[0], f"{found[0].prefix}:" if found[0].tag is TagId.tag else None)
            for name, found in kinds.items()
            if found
        ]
        self.values = ValueRules(name_of(cls), fields)
        self.decoder = _decoder(cls)
        self._check_defaults(cls)
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
            and not self.values.look_inside
            and all(beginning is not None for *_, beginning in self.tag_fields)
        )
        if not is_plain:
            return None
        fields = tuple(self.tag_fields)
        return cls, cls.event_type, self.decoder.decode, self.is_fixed, fields, self.values.time_fields

    def tags(self, event: DomainEvent) -> list[str]:
        """The tags of an event."""
        tags: list[str] = []
        for name, kind, beginning in self.tag_fields:
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

    def _check_defaults(self, cls: type[DomainEvent]) -> None:
        """Refuse a default that could not be written, and one that all events would share and may change."""
        kinds = {name: kind for name, kind, _ in self.tag_fields}
        if not cls.__struct_defaults__:
            return
        for field in msgspec.structs.fields(cls):
            where = f"{name_of(cls)}.{field.name}"
            # msgspec copies what is empty: [] is default_factory=list. Other factories are not ours to call.
            is_empty = field.default_factory in _EMPTY
            default = field.default_factory() if is_empty else field.default
            if default is msgspec.NODEFAULT or (default is msgspec.UNSET and field.name not in kinds):
                continue
            _check_default(where, field, default)
            if field.name in kinds:
                list(_tags_of(default, where, kinds[field.name]))
            if not is_empty and _may_change(default):
                made = f"lambda: {default!r:.60}" if isinstance(default, tuple) else type(default).__name__
                raise InvalidEvent(
                    f"the default of {where} may change, and would do so for all events: {default!r:.80}",
                    hint=f"write {_typed(field)} = msgspec.field(default_factory={made})",
                )

    def _stream_field(self, cls: type[DomainEvent]) -> str | None:
        name = cls.event_stream
        if name is None:
            return None
        single = [field.name for field in _fields(cls) if isinstance(plain(field.type), shapes.CustomType)]
        if name not in single or name not in [name for name, *_ in self.tag_fields]:
            fields = ", ".join(name for name, *_ in self.tag_fields if name in single) or "none"
            raise InvalidEvent(
                f"the stream of {name_of(cls)} cannot be {name!r:.80}: that is no field with one TagId",
                hint=f"name one of its fields that is one TagId, not optional and no list ({fields})",
            )
        return name


def without_type() -> InvalidEvent:
    """The error for what is no more than a `DomainEvent`."""
    return InvalidEvent(
        "a DomainEvent itself has no type and no fields: each type is a class",
        hint="write class CourseDefined(DomainEvent): ..., and use that",
    )


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


def _check_default(where: str, field: FieldInfo, default: object) -> None:
    """Refuse what could not be written, or would not be read again."""
    try:
        codec.decoder(field.type).decode(codec.encode(default))
    except (InvalidEvent, msgspec.MsgspecError) as error:
        factory = getattr(default, "default_factory", default)  # of dataclasses.field(…), or as it is
        if callable(factory):
            made = name_of(factory) if hasattr(factory, "__qualname__") else "…"
            hint = f"write {_typed(field)} = msgspec.field(default_factory={made})"
        elif default is None:
            hint = f"write {field.name}: {text_of(field.type)} | None = None"
        else:
            hint = f"write one that is: {_typed(field)} = …"
        raise InvalidEvent(
            f"the default of {where} is not of its type, {text_of(field.type)}: {error}", hint=hint
        ) from error


def _typed(field: FieldInfo) -> str:
    return f"{field.name}: {text_of(field.type)}"


def _may_change(value: Any) -> bool:
    """Whether something in a value can be changed."""
    if isinstance(value, _NEVER_CHANGE):
        return False
    if isinstance(value, (tuple, frozenset)):
        return any(map(_may_change, value))
    for what_it_is, names in _RECORDS:
        if getattr(getattr(value, what_it_is, None), "frozen", False):
            return any(_may_change(getattr(value, name)) for name in getattr(value, names))
    try:
        return copy.deepcopy(value) is not value
    except Exception:  # noqa: BLE001  (what cannot be copied is no mere value)
        return True


def without_colon(name: str, value: object) -> str | None:
    """The line that was meant by `room = RoomId`, or by a field(…) without a type; None if it is something else."""
    if isinstance(value, FIELD):
        return f"{name}: list[str] = …"
    is_type = isinstance(value, type) or typing.get_origin(value) is not None
    # A class that is defined here is meant to be one.
    return f"{name}: {text_of(value)}" if is_type and getattr(value, "__name__", "") != name else None


def _not_json(cls: type[DomainEvent], what: str) -> InvalidEvent:
    return InvalidEvent(f"{name_of(cls)} cannot be read from JSON: {what}", hint=codec.JSON_TYPES)


FIELD = (dataclasses.Field, type(msgspec.field()))
_EMPTY = (list, dict, set)
_NEVER_CHANGE = (str, bytes, int, float, date, time, timedelta, UUID, Decimal, Enum, msgspec.Raw)
_RECORDS = (("__struct_config__", "__struct_fields__"), ("__dataclass_params__", "__dataclass_fields__"))
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


def _has_sets(shape: shapes.Type) -> bool:
    return has(lambda part: isinstance(part, (shapes.SetType, shapes.FrozenSetType)), shape)


def _tag_ids(
    cls: type[DomainEvent], field: str, shape: shapes.Type, inside: str = "", path: tuple[Any, ...] = ()
) -> Iterator[type[TagId]]:
    """The kinds of id that a field holds; `inside` is the type around them in which they would be no tags."""
    if isinstance(shape, shapes.CustomType):
        yield from _tag_id(cls, field, shape.cls, inside)
    elif not any(shape is outer for outer in path):  # a type may contain itself
        around, parts = parts_of(shape)
        for part in parts:
            yield from _tag_ids(cls, field, part, inside or around, (*path, shape))


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
            f"{name_of(cls)}.{field}: {an(kind.__name__)} in {inside} would be no tag",
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
            f"{field}: {value!r:.80} is in the place of {an(kind.__name__)}",
            hint=f"write {kind.__name__}({meant:.80})",
        )
