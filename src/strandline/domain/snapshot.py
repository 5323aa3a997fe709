"""Snapshots: states that were folded from many events, kept in the log's database for whoever reads them next.

A snapshot is only a place to start from, like a state of the decision cache: it has the head of the read that built
it, and what is newer is read, retags included. One of another version of its projection is not used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import warnings
from collections.abc import Sequence
from types import CodeType
from typing import Any

import msgspec

from ..engine import Snapshot
from ..errors import StrandlineError
from . import codec
from .annotations import callers
from .member import Member
from .projection import Projection
from .shape import shape_of
from .steps import LoadSnapshot, SaveSnapshot, Steps


class SnapshotFailed(UserWarning):
    """The state of a projection could not be kept. Decisions are right without it, and slower."""


def begin(member: Member) -> Steps[None]:
    """Let a member that has nothing folded yet begin with its snapshot, if there is one."""
    cls: Any = type(member.state)
    found: Snapshot | None = yield LoadSnapshot(_name(cls), _key(member))
    if found is not None and found.version == version_of(cls):
        with contextlib.suppress(msgspec.MsgspecError):  # whatever that is, it is no state
            member.start_with(_state(member.state, found.state), found.position)


def is_due(member: Member) -> bool:
    """Whether it is time to keep the state of a member."""
    every = member.state._snapshot_every
    return every is not None and member.unsaved >= every


def save(member: Member) -> Steps[None]:
    """Keep the state of a member."""
    cls: Any = type(member.state)
    member.unsaved = 0
    try:
        state = _encoded(member.state)
        yield SaveSnapshot(Snapshot(_name(cls), _key(member), version_of(cls), member.head, state))
    except StrandlineError as error:
        message = f"the state of {member.state!r:.80} was not kept: {error}"
        warnings.warn(f"{message}; {error.hint}", SnapshotFailed, stacklevel=callers())


def _encoded(state: Projection) -> bytes:
    """The state as JSON, if it can be read again as it was."""
    cls: Any = type(state)
    try:
        data = codec.encode(_form(cls)(**{name: vars(state)[name] for name in _fields(cls)}))
        is_same = same(vars(_state(state, data)), vars(state))
    except StrandlineError:
        raise
    except Exception as error:  # whatever is in a state, the decision is made and the append is done
        raise codec.no_json_form(state) from error
    if not is_same:
        raise codec.no_json_form(state)
    return data


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of the same types: a defaultdict that comes back as a dict is no more one."""
    if type(one) is not type(other):
        return {type(one), type(other)} == {int, float} and bool(one == other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    names = _names_of_fields(one)
    if names:  # a dataclass or a Struct may hold what has another type when it comes back
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)


def _names_of_fields(value: Any) -> Sequence[str]:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return value.__struct_fields__ if isinstance(value, msgspec.Struct) else ()


def _state(projection: Projection, data: bytes) -> Projection:
    state = projection._fresh()
    cls: Any = type(projection)
    decoded = _decoder(cls).decode(data)
    for name in _fields(cls):
        setattr(state, name, getattr(decoded, name))
    return state


def _fields(cls: type[Projection]) -> list[str]:
    return [name for name, _, _ in shape_of(cls).state]


def _name(cls: type[Projection]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _key(member: Member) -> str:
    return "\n".join(value.tag for value in member.key)


@functools.cache
def _form(cls: Any) -> type[Any]:
    kinds = shape_of(cls).fields
    return msgspec.defstruct(cls.__name__, [(name, kinds[name]) for name in _fields(cls)])


@functools.cache
def _decoder(cls: Any) -> msgspec.json.Decoder[Any]:
    return codec.decoder(_form(cls))


@functools.cache
def version_of(cls: Any) -> str:
    """The version that the class says, and what can be seen of a change that nobody thought of."""
    shape = shape_of(cls)
    seen = [f"{name}: {kind}" for name, kind in shape.fields.items()]
    seen += [f"{name} = {_text(default)}" for name, default, _ in shape.state]
    if "<locals>" in cls.__qualname__:  # one function may make several that differ in nothing else
        seen += [_text_of_code(getattr(cls, handler.name)) for handler, _ in shape.handlers.values()]
    handled = sorted(f"{name} {event.event_version}" for name, (_, event) in shape.handlers.items())
    return f"{cls._version}-{hashlib.sha256(repr((seen, handled)).encode()).hexdigest()[:12]}"


def _text(value: object) -> str:
    """A value as text that is the same in every process, sets included."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({sorted(map(_text, value))})"
    if isinstance(value, dict):
        return f"{type(value).__name__}({[(_text(key), _text(each)) for key, each in value.items()]})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({list(map(_text, value))})"
    if isinstance(value, CodeType):
        return f"{value.co_code!r} {value.co_names} {_text(value.co_consts)}"
    return repr(value)


def _text_of_code(handle: Any) -> str:
    """What a handler does, and with which values of the function around it."""
    cells = [cell.cell_contents for cell in handle.__closure__ or ()]
    return f"{_text(handle.__code__)} {_text(handle.__defaults__)} {_text(cells)}"
