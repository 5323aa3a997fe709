"""Hypothesis strategies for names, events, queries and conditions.

Without arguments they cover what the rules allow. Pass small `types`, `tags`, … to get logs in
which queries meet events: `events(tags=st.sampled_from(["course:1", "course:2"]))`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from hypothesis import strategies as st

from ..append import AppendCondition
from ..event import Event
from ..query import Query, QueryItem

T = TypeVar("T")
Names = st.SearchStrategy[str]

FIELDS = ("amount", "name", "nested")
SCALARS: tuple[Any, ...] = (None, True, False, 0, 1, 2, 1.0, 2.5, "", "a", "b")


def names(max_size: int = 256) -> Names:
    """Texts that may be a stream or a subject: 1 to 256 characters, no control characters or surrogates."""
    return st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=max_size)


def own_names(max_size: int = 256) -> Names:
    """Texts that may be a type or a tag: names that do not start with `$`."""
    return names(max_size).filter(lambda name: not name.startswith("$"))


def json_values() -> st.SearchStrategy[Any]:
    """JSON values of any shape, integers as wide as every JSON reader takes them."""
    scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _floats() | _texts()
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts(), inner, max_size=4)
    )


def payloads() -> st.SearchStrategy[Any]:
    """Small objects over few fields, so that a `where` meets them; now and then bytes that are not JSON."""
    scalars = st.sampled_from(SCALARS)
    nested = st.dictionaries(st.sampled_from(FIELDS), scalars, max_size=2)
    values = scalars | st.lists(scalars, max_size=3) | nested
    objects = st.dictionaries(st.sampled_from(FIELDS), values, max_size=3)
    return st.one_of(objects, objects, objects, values, st.just(b"not JSON"))


def wheres() -> st.SearchStrategy[dict[str, Any]]:
    """Object matchers over the fields of `payloads`: every operator, nesting, lists, metadata."""
    conditions = st.recursive(_leaf_conditions(), _nested_conditions, max_leaves=4)
    data = st.dictionaries(st.sampled_from(FIELDS), conditions, min_size=1, max_size=2)
    by = st.fixed_dictionaries({"by": st.sampled_from(["me", "you"])})
    return data | st.fixed_dictionaries({"$metadata": by})


def events(
    *,
    types: Names | None = None,
    tags: Names | None = None,
    streams: Names | None = None,
    subjects: Names | None = None,
    data: st.SearchStrategy[Any] | None = None,
    keys: Names | None = None,
) -> st.SearchStrategy[Event]:
    """Events with every field."""
    return st.builds(
        _event,
        _sometimes(_or(keys, names()), None),
        _or(types, own_names()),
        json_values() | st.binary(max_size=50) if data is None else data,
        tags=st.lists(_or(tags, own_names()), max_size=4),
        metadata=st.dictionaries(st.sampled_from(["by", "via"]), st.sampled_from(["me", "you"]), max_size=2),
        stream=st.none() | _or(streams, names()),
        subject=st.none() | _or(subjects, names()),
    )


def query_items(
    *,
    types: Names | None = None,
    tags: Names | None = None,
    streams: Names | None = None,
    subjects: Names | None = None,
    where: st.SearchStrategy[Any] | None = None,
    keys: Names | None = None,
) -> st.SearchStrategy[QueryItem]:
    """Query items of every shape: each criterion may be there or not."""
    given = _or(types, own_names())
    wanted = _sometimes(st.lists(given, max_size=2), ())
    excluded = _sometimes(st.lists(given, max_size=2), ())
    kinds = st.tuples(wanted, st.just(())) | st.tuples(st.just(()), excluded)
    return st.builds(
        _item,
        kinds,
        tags=_sometimes(st.lists(_or(tags, own_names()), max_size=2), ()),
        stream=_sometimes(_or(streams, names()), None),
        subject=_sometimes(_or(subjects, names()), None),
        where=_sometimes(wheres() if where is None else where, None),
        key=_sometimes(_or(keys, names()), None),
    )


def queries(
    items: st.SearchStrategy[QueryItem] | None = None, *, max_items: int = 3
) -> st.SearchStrategy[Query]:
    """Queries of one or several items."""
    return st.builds(Query, st.lists(_or(items, query_items()), min_size=1, max_size=max_items))


def conditions(
    asked: st.SearchStrategy[Query] | None = None, *, head: int = 100, max_parts: int = 3
) -> st.SearchStrategy[AppendCondition]:
    """Append conditions of one or several parts, each with its own `after` up to `head`."""
    part = st.builds(AppendCondition, _or(asked, queries()), st.integers(0, head))
    return st.lists(part, min_size=1, max_size=max_parts).map(lambda parts: AppendCondition.all_of(*parts))


def _event(key: str | None, type: str, data: Any, **fields: Any) -> Event:
    event = Event(type, data, **fields)
    return event if key is None else event.with_key(key)


def _item(kinds: tuple[Iterable[str], Iterable[str]], **criteria: Any) -> QueryItem:
    return QueryItem(types=kinds[0], exclude_types=kinds[1], **criteria)


def _or(given: st.SearchStrategy[T] | None, otherwise: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    return otherwise if given is None else given


def _sometimes(strategy: st.SearchStrategy[Any], otherwise: Any) -> st.SearchStrategy[Any]:
    return st.just(otherwise) | strategy


def _floats() -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False)


def _texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def _leaf_conditions() -> st.SearchStrategy[Any]:
    scalars = st.sampled_from(SCALARS)
    singles = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$has"])
    plurals = st.sampled_from(["$in", "$nin", "$hasAny"])
    one = st.dictionaries(singles, scalars, min_size=1, max_size=2)
    many = st.dictionaries(plurals, st.lists(scalars, max_size=2), min_size=1, max_size=1)
    return scalars | one | many


def _nested_conditions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=2)
