"""The keys of an event as SQL, for those who fold there."""

from __future__ import annotations

import re

from ...domain.folding import Fold
from .columns import SEPARATOR

_PLAIN = re.compile(r"[\w:. -]*")


def keys_sql(fold: Fold) -> str:
    """The keys of an event by its columns `type` and `tags`: what `Fold.keys` gives, as texts."""
    types = ", ".join(map(_literal, fold.types))
    return f"if(type in ({types}), {_keys(fold)}, cast(array() as array<string>))"


def _keys(fold: Fold) -> str:
    if not fold.prefixes:
        return "array('')"
    values = [_values(prefix, f"x{place}") for place, prefix in enumerate(fold.prefixes)]
    names = [f"k{place}" for place in range(len(values))]
    found = f"transform({values[-1]}, {names[-1]} -> concat_ws({_literal(SEPARATOR)}, {', '.join(names)}))"
    for listed, name in zip(values[-2::-1], names[-2::-1], strict=True):
        found = f"flatten(transform({listed}, {name} -> {found}))"
    return found


def _values(prefix: str, name: str) -> str:
    """The values of the tags with a prefix."""
    length = len(prefix)
    has_prefix = f"startswith({name}, {_literal(prefix)}) and length({name}) > {length}"
    return f"transform(filter(tags, {name} -> {has_prefix}), {name} -> substring({name}, {length + 1}))"


def _literal(text: str) -> str:
    """Text in SQL, whatever quotes and escapes mean there."""
    return f"'{text}'" if _PLAIN.fullmatch(text) else f"decode(unhex('{text.encode().hex()}'), 'UTF-8')"
