"""The log as a table that can be folded: an event once for each key that it belongs to, in the order of its fold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...domain.event import VERSION
from ...domain.folding import Fold
from ...query import Query
from ..frames import events
from .columns import KEY, NEEDED, RECORDED, SEPARATOR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAIN = re.compile(r"[\w:. -]*")


def keyed(spark: SparkSession, url: str, folds: Sequence[Fold], *, log: str, until: int | None) -> DataFrame:
    """The events that the projections handle up to a position, or the present head, in one pass over the log."""
    from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

    types = sorted({name for fold in folds for name in fold.types})
    sees_recorded = any(fold.sees_recorded for fold in folds)
    read = events(
        spark,
        url,
        log=log,
        query=Query.types(*types),
        until=until,
        columns=(*NEEDED, *(RECORDED if sees_recorded else ("tags", "metadata"))),
        binary=True,
    )
    kept = [*NEEDED, *(RECORDED if sees_recorded else ())]
    version = [] if sees_recorded else [F.expr(f"metadata['{VERSION}']").alias(VERSION)]
    exploded = read.select(*kept, *version, F.expr(f"explode({keys_sql(folds)})").alias(KEY))
    return exploded.repartition(KEY).sortWithinPartitions(KEY, "position")


def keys_sql(folds: Sequence[Fold]) -> str:
    """The keys of an event by its columns `type` and `tags`, as SQL: what `Fold.keys` gives, as text.

    If there are several projections, a key begins with the number of its own.
    """
    numbers = map(str, range(len(folds))) if len(folds) > 1 else [""]
    return f"concat({', '.join(map(_keys_of_handled, folds, numbers))})"


def _keys_of_handled(fold: Fold, number: str) -> str:
    types = ", ".join(map(_literal, fold.types))
    return f"if(type in ({types}), {_keys(fold, number)}, cast(array() as array<string>))"


def _keys(fold: Fold, number: str) -> str:
    if not fold.prefixes:
        return f"array({_literal(number)})"
    values = [_values(prefix, f"x{place}") for place, prefix in enumerate(fold.prefixes)]
    names = [f"k{place}" for place in range(len(values))]
    parts = [_literal(number), *names] if number else names
    found = f"transform({values[-1]}, {names[-1]} -> concat_ws({_literal(SEPARATOR)}, {', '.join(parts)}))"
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
