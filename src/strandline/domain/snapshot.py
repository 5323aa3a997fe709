"""Snapshots: states that were folded from many events, kept in the log's database for whoever reads them next.

A snapshot is only a place to start from, like a state of the decision cache: it has the head of the read that built
it, and what is newer is read, retags included. One of another version of its projection is not used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from types import FunctionType
from typing import Any

import msgspec

from ..engine import Snapshot
from ..errors import InvalidInput, StrandlineError
from . import codec
from .annotations import callers
from .member import Member
from .projection import Projection
from .shape import shape_of
from .steps import LoadSnapshot, SaveSnapshot, Steps

_CALLED = (FunctionType, staticmethod, classmethod, property)
_OPTIONS = ("_last_only", "_snapshot_every")
_ADDRESS = re.compile(" at 0x[0-9A-Fa-f]+")


class SnapshotFailed(UserWarning):
    """The state of a projection could not be kept. Decisions are right without it, and slower."""


def begin(member: Member) -> Steps[None]:
    """Let a member that has nothing folded yet begin with its snapshot, if there is one."""
    cls: Any = type(member.state)
    if not _is_told_apart(cls):
        return
    found: Snapshot | None = yield LoadSnapshot(_name(cls), _key(member))
    if found is not None and found.version == version_of(cls):
        with contextlib.suppress(msgspec.MsgspecError):  # whatever that is, it is no state
            member.start_with(_state(member.state, found.state), found.position)


def is_due(member: Member) -> bool:
    """Whether it is time to keep the state of a member."""
    every = member.state._snapshot_every
    return every is not None and member.unsaved >= every


def save(member: Member) -> Steps[None]:
    """Keep the state of a member. What prevents that is a warning: the append that led to it may be done."""
    cls: Any = type(member.state)
    member.unsaved = 0
    if not _is_told_apart(cls):
        _warn_of_twins(cls)
        return
    try:
        state = _encoded(member.state)
        yield SaveSnapshot(Snapshot(_name(cls), _key(member), version_of(cls), member.head, state))
    except Exception as error:  # noqa: BLE001  (even to show a state may fail)
        reason = f"{error}; {error.hint}" if isinstance(error, StrandlineError) else repr(error)
        key = ", ".join(map(repr, member.key))
        message = f"the state of {cls.__name__}({key}) was not kept: {reason}"
        warnings.warn(message, SnapshotFailed, stacklevel=callers())


@functools.cache
def _is_told_apart(cls: type[Projection]) -> bool:
    """Whether its name and version tell a class from all others: who gives it a version of its own says so."""
    return "_version" in vars(cls) or all(_is_plain(base, value) for base, value in _made_in_functions(cls))


def _made_in_functions(cls: type[Projection]) -> Iterator[tuple[type, Any]]:
    """What a class and its bases that functions made have besides fields, with the one that has it."""
    for base in cls.__mro__:
        for name, value in vars(base).items() if "<locals>" in base.__qualname__ else ():
            is_ours = name in _OPTIONS or name in shape_of(cls).fields
            if not is_ours and (not name.startswith("__") or isinstance(value, _CALLED)):
                yield base, value


def _is_plain(base: type, value: Any) -> bool:
    """Whether it is a method that has nothing from the function around it: then its code says what it does."""
    return isinstance(value, _CALLED) and all(
        (each.__module__, each.__qualname__.rpartition(".")[0]) == (base.__module__, base.__qualname__)
        and each.__code__.co_freevars in {(), ("__class__",)}
        and not each.__kwdefaults__
        and not any(each.__defaults__ or ())
        for each in _functions(value)
    )


def _functions(value: Any) -> list[Any]:
    """The functions of a method, a property and so on."""
    if isinstance(value, property):
        return [each for each in (value.fget, value.fset, value.fdel) if each is not None]
    return [getattr(value, "__func__", value)]


@functools.cache
def _warn_of_twins(cls: type[Projection]) -> None:
    """Tell once why a class has no snapshots; again if the warning is raised, for then nobody may have heard it."""
    message = f"no state of {cls.__qualname__} is kept: define it at the top of a module, or say version=…"
    reason = "classes that one function makes may differ in what cannot be seen"
    warnings.warn(f"{message}: {reason}", SnapshotFailed, stacklevel=callers())


def _encoded(state: Projection) -> bytes:
    """The state as JSON, if it can be read again as it was."""
    cls: Any = type(state)
    undeclared = sorted(vars(state).keys() - shape_of(cls).fields.keys())
    if undeclared:
        raise InvalidInput(
            f"its {undeclared[0]} is no field",
            hint=f"declare it in the class: {undeclared[0]}: int = 0, or what it is",
        )
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
        return _same_members(one, other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (set, frozenset)):
        return _same_members(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    names = _names_of_fields(one)
    if names:  # a dataclass or a Struct may hold what has another type when it comes back
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)


def _same_members(one: Collection[Any], other: Collection[Any]) -> bool:
    """Whether two sets have the same members, or two dicts the same keys: a TagId equals its text."""
    others = {member: member for member in other}
    return len(one) == len(others) and all(each in others and same(each, others[each]) for each in one)


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
    for _, value in _made_in_functions(cls):
        codes = [each.__code__ for each in _functions(value) if isinstance(each, FunctionType)]
        seen += [f"{code.co_code!r} {code.co_names} {_text(code.co_consts)}" for code in codes]
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
    return _ADDRESS.sub("", repr(value))  # as mere objects and functions have
