"""The fields of events that have no class: what their JSON shows, held on to once it is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from .kinds import JSON, NULL, Kind, Misfit, fit

MOST_COLUMNS = 1_000

Fields = dict[str, Kind]

_SCALARS = {bool: Kind("bool"), int: Kind("int"), float: Kind("float"), str: Kind("text"), type(None): NULL}


def kind_of(value: Any) -> Kind:
    """What a JSON value is; objects in it are left as JSON, for their keys may be anything."""
    if isinstance(value, list):
        return Kind("list", reduce(merged, map(kind_of, value), NULL))
    kind = _SCALARS.get(type(value), JSON)
    try:
        fit(kind, value)
    except Misfit:
        return JSON
    return kind


def merged(one: Kind, other: Kind) -> Kind:
    """A kind for values of both."""
    if other in (one, NULL):
        return one
    if one == NULL:
        return other
    if {one.name, other.name} == {"int", "float"}:
        return Kind("float")
    if one.name == other.name == "list" and one.item is not None and other.item is not None:
        return Kind("list", merged(one.item, other.item))
    return JSON


def add_fields(fields: Fields, data: Mapping[str, Any]) -> None:
    """Take the data of one more event into account."""
    for name, value in data.items():
        known = fields.get(name)
        if known is not JSON:
            kind = kind_of(value)
            fields[name] = kind if known is None else merged(known, kind)


def join_fields(found: Iterable[Fields]) -> Fields:
    """What several saw together."""
    fields: Fields = {}
    for each in found:
        for name, kind in each.items():
            fields[name] = merged(fields.get(name, NULL), kind)
    return fields


def settled(fields: Fields) -> Fields:
    """The fields as they are held on to: where no value was seen, any JSON may come."""
    known = {name: JSON if _is_open(kind) else kind for name, kind in fields.items()}
    return dict(list(known.items())[:MOST_COLUMNS])


def _is_open(kind: Kind) -> bool:
    if kind.item is not None:
        return kind.item == JSON or _is_open(kind.item)
    return kind == NULL
