"""Queries: which events a reader asks for, and which a decision depends on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NoReturn, Protocol

import msgspec

from .errors import InvalidQuery
from .event import SequencedEvent, encode_sorted
from .names import (
    RESERVED,
    RETAGGED,
    an,
    check_key,
    check_name,
    check_place,
    check_tags,
    index_tags,
    name_list,
)
from .speedups import native
from .where import Payload, both, check_where, portable, where_matches

Where = Mapping[str, Any] | Callable[[Any], bool] | Callable[[Any, Mapping[str, str]], bool]
"""An object matcher, or a function of an event, or of an event and its metadata."""


class EventClass(Protocol):
    """What a class of typed events has."""

    event_type: ClassVar[str]


TypeName = str | type[EventClass]
"""A type of events: its name or its class."""


class Tagged(Payload, Protocol):
    """What a query looks at: an `Event` or a `SequencedEvent`."""

    @property
    def type(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def stream(self) -> str | None: ...
    @property
    def subject(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...


class FrozenValue:
    """Immutable, compared by `_key()`."""

    __slots__ = ()

    def _key(self) -> Any:
        raise NotImplementedError

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{an(type(self).__name__)} does not change; {name!r} cannot be set")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FrozenValue) and type(other) is type(self) and bool(self._key() == other._key())
        )

    def __hash__(self) -> int:
        return hash(self._key())


class QueryItem(FrozenValue):
    """Matches an event of one of the types that carries all the tags, and so on; empty means any.

    `where` is an object matcher on the payload, `{"amount": {"$gte": 10}}`, or a function `f(event)` or
    `f(event, metadata)`.
    """

    __slots__ = ("_identity", "exclude_types", "key", "stream", "subject", "tags", "types", "where")

    types: tuple[str, ...]
    tags: tuple[str, ...]
    exclude_types: tuple[str, ...]
    stream: str | None
    subject: str | None
    where: dict[str, Any] | Callable[[Any], bool] | None
    key: str | None
    _identity: tuple[Any, ...]

    def __init__(
        self,
        types: Iterable[TypeName] = (),
        tags: Iterable[str] = (),
        exclude_types: Iterable[TypeName] = (),
        stream: str | None = None,
        subject: str | None = None,
        where: Where | None = None,
        key: str | None = None,
    ) -> None:
        if (
            native is not None
            and exclude_types == ()
            and stream is None
            and subject is None
            and where is None
            and key is None
            and native.fill_item(self, types, tags, _checked_types)
        ):
            return
        wanted, excluded = _types(types), _types(exclude_types)
        if wanted and excluded:
            # Only one of the two is ever kept, so that "no types" can always mean "any type" (R7).
            wanted, excluded = tuple(name for name in wanted if name not in excluded), ()
            if not wanted:
                raise InvalidQuery(
                    "the item excludes every type it asks for", hint="drop one of types and exclude_types"
                )
        self._put(
            wanted,
            check_tags(tags, InvalidQuery),
            excluded,
            None if stream is None else check_place(stream, "stream", InvalidQuery),
            None if subject is None else check_place(subject, "subject", InvalidQuery),
            None if where is None else check_where(where),
            None if key is None else check_key(key, InvalidQuery),
        )

    def _put(
        self,
        types: tuple[str, ...],
        tags: tuple[str, ...],
        exclude_types: tuple[str, ...],
        stream: str | None,
        subject: str | None,
        where: Any,
        key: str | None,
    ) -> None:
        put = object.__setattr__
        put(self, "types", types)
        put(self, "tags", tags)
        put(self, "exclude_types", exclude_types)
        put(self, "stream", stream)
        put(self, "subject", subject)
        put(self, "where", where)
        put(self, "key", key)
        filter_ = encode_sorted(where) if isinstance(where, dict) else where
        put(self, "_identity", (types, tags, exclude_types, stream, subject, filter_, key))

    def _key(self) -> Any:
        return self._identity

    def for_each_type(self) -> list[tuple[Any, ...]]:
        """Return what is asked of an event, once for each type, or once with None if there are no types."""
        types, *others = self._identity
        return [(name, *others) for name in types or (None,)]

    @property
    def is_all(self) -> bool:
        """Whether nothing is asked of an event."""
        return self._identity == _NOTHING_ASKED

    def index_tags(self) -> tuple[str, ...]:
        """The tags under which an engine finds the item's events, reserved ones included."""
        return index_tags(self.tags, self.stream, self.subject, self.key)

    def matches(self, event: Tagged, tags: tuple[str, ...] | None = None) -> bool:
        """Whether the item matches the event (with other `tags` than its own, if given)."""
        if self.types:
            if event.type not in self.types:
                return False
        elif event.type in self.exclude_types or (event.type.startswith(RESERVED) and not self.is_all):
            return False
        carried = event.tags if tags is None else tags
        return (
            all(tag in carried for tag in self.tags)
            and (self.stream is None or self.stream == event.stream)
            and (self.subject is None or self.subject == event.subject)
            and (self.key is None or self.key == event.key)
            and (self.where is None or self._where_holds(event, tags))
        )

    def _where_holds(self, event: Tagged, tags: tuple[str, ...] | None) -> bool:
        if tags is not None and callable(self.where) and isinstance(event, SequencedEvent):
            event = event.with_present_tags(tags)
        return where_matches(self.where, event)

    def __and__(self, other: QueryItem) -> QueryItem | None:
        """The item that matches what both match; None if that can be no event."""
        types = _join_types(self, other)
        if types is None or any(_differ(getattr(self, n), getattr(other, n)) for n in _SINGLE):
            return None
        item = object.__new__(QueryItem)
        item._put(
            types,
            tuple(sorted({*self.tags, *other.tags})),
            () if types else tuple(sorted({*self.exclude_types, *other.exclude_types})),
            other.stream if self.stream is None else self.stream,
            other.subject if self.subject is None else self.subject,
            both(self.where, other.where),
            other.key if self.key is None else self.key,
        )
        return item

    def _fields(self) -> dict[str, Any]:
        if callable(self.where):
            raise InvalidQuery(
                "a callable where has no JSON form", hint='use an object matcher: where={"field": value}'
            )
        given = {name: value for name, value in zip(_FIELDS, self._identity, strict=True) if value}
        if self.where is not None:
            given["where"] = self.where
        return given

    def __repr__(self) -> str:
        given = (
            f"{name}={getattr(self, name)!r}" for name in _FIELDS if getattr(self, name) not in (None, ())
        )
        return f"QueryItem({', '.join(given)})"

    def __reduce__(self) -> tuple[object, ...]:
        fields = {name: getattr(self, name) for name in _FIELDS}
        if callable(self.where):
            fields["where"] = portable(self.where)
        return QueryItem, tuple(fields.values())


class Query(FrozenValue):
    """A set of items joined by OR. Made by `Query.of(item, …)`, `Query.all()` or a shorthand; `&`, `|` join.

    Two queries are equal if they ask for the same types with the same tags and so on. The order of the items does not
    matter, nor whether several types are in one item or in several.
    """

    __slots__ = ("has_where", "items")

    items: tuple[QueryItem, ...]
    has_where: bool  # in any of them

    def __init__(self, items: Iterable[QueryItem]) -> None:
        if native is not None and native.fill_query(self, items, QueryItem, _NOTHING_ASKED):
            return
        unique = tuple(items)
        for item in unique:
            _check_item(item)
        if len(unique) > 1:
            different = {item._identity: item for item in unique}
            unique = (_ANY_EVENT,) if _NOTHING_ASKED in different else tuple(different.values())
        if not unique:
            raise InvalidQuery("a query has at least one item", hint="Query.all() asks for every event")
        object.__setattr__(self, "items", unique)
        has_where = False
        for item in unique:
            has_where = has_where or item.where is not None
        object.__setattr__(self, "has_where", has_where)

    def _key(self) -> Any:
        return frozenset([asked for item in self.items for asked in item.for_each_type()])

    @classmethod
    def of(cls, *items: QueryItem) -> Query:
        """The query of these items."""
        return cls(items)

    @classmethod
    def all(cls) -> Query:
        """Every event, the store's own included; so its count is the head."""
        return _ALL

    @classmethod
    def user(cls) -> Query:
        """Every event that users wrote: all but the store's own."""
        return _USER

    @classmethod
    def tag(cls, *tags: str) -> Query:
        """Events that carry all these tags."""
        if not tags:
            raise InvalidQuery("Query.tag needs a tag", hint="Query.all() asks for every event")
        return cls((QueryItem(tags=tags),))

    @classmethod
    def types(cls, *types: TypeName) -> Query:
        """Events of one of these types."""
        if not types:
            raise InvalidQuery("Query.types needs a type", hint="Query.all() asks for every event")
        return cls((QueryItem(types=types),))

    @classmethod
    def stream(cls, stream: str) -> Query:
        """Events of this stream."""
        return cls((QueryItem(stream=check_place(stream, "stream", InvalidQuery)),))  # None would mean any

    @classmethod
    def subject(cls, subject: str) -> Query:
        """Events with this subject."""
        return cls((QueryItem(subject=check_place(subject, "subject", InvalidQuery)),))

    @property
    def is_all(self) -> bool:
        """Whether every event matches."""
        return self.items[0].is_all

    def refuse_callables(self) -> None:
        """Raise if a Python function decides which events match: only this process can call it."""
        if self.has_where and any(callable(item.where) for item in self.items):
            raise InvalidQuery(
                "a server cannot call a Python function to choose events",
                hint='use an object matcher, where={"amount": {"$gte": 10}}, or read more and choose here',
            )

    def matches(self, event: Tagged, tags: tuple[str, ...] | None = None) -> bool:
        """Whether an item matches the event (with other `tags` than its own, if given)."""
        return any(item.matches(event, tags) for item in self.items)

    def keys(self) -> tuple[str, ...]:
        """The consistency keys of the query, sorted: `stream:…`, `subject:…`, `tag:…`, `type:…`."""
        keys: set[str] = set()
        for item in self.items:
            keys.update(f"tag:{tag}" for tag in item.tags)
            keys.update(f"type:{name}" for name in item.types)
            keys.update(() if item.stream is None else (f"stream:{item.stream}",))
            keys.update(() if item.subject is None else (f"subject:{item.subject}",))
            keys.update(() if item.key is None else (f"key:{item.key}",))
        return tuple(sorted(keys))

    def __or__(self, other: Query) -> Query:
        if not isinstance(other, Query):
            return NotImplemented
        return Query((*self.items, *other.items))

    def __and__(self, other: Query) -> Query:
        if not isinstance(other, Query):
            return NotImplemented
        joined = [left & right for left in self.items for right in other.items]
        items = [item for item in joined if item is not None]
        if not items:
            raise InvalidQuery(
                "no event can match both queries",
                hint="their types, streams or subjects exclude each other; use | to ask for either",
            )
        return Query(items)

    def to_json(self) -> str:
        """The stable JSON form."""
        return encode_sorted(self.to_fields()).decode()

    def to_fields(self) -> dict[str, Any]:
        """The JSON form as a value."""
        return {"items": [item._fields() for item in self.items]}

    @classmethod
    def from_json(cls, text: str | bytes) -> Query:
        """The query that `to_json` wrote."""
        try:
            return cls.from_fields(msgspec.json.decode(text))
        except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
            raise InvalidQuery(f"not the JSON form of a query: {error}", hint=_FORM) from error

    @classmethod
    def from_fields(cls, fields: Any) -> Query:
        """The query of a decoded JSON form."""
        match fields:
            case {"items": [*items]} if len(fields) == 1 and all(
                isinstance(item, dict) and item.keys() <= set(_FIELDS) for item in items
            ):
                return cls(QueryItem(**item) for item in items)
        raise InvalidQuery(
            f"not the JSON form of a query: {fields!r:.80}",
            hint=_FORM,
        )

    def __repr__(self) -> str:
        return "Query.all()" if self.is_all else f"Query.of({', '.join(map(repr, self.items))})"

    def __reduce__(self) -> tuple[object, ...]:
        return Query, (self.items,)


_FORM = 'write {"items": [{"types": ["…"], "tags": ["…"]}]}'
_FIELDS = ("types", "tags", "exclude_types", "stream", "subject", "where", "key")
_SINGLE = ("stream", "subject", "key")
_NOTHING_ASKED = ((), (), (), None, None, None, None)


def _types(values: Iterable[TypeName]) -> tuple[str, ...]:
    if values == ():
        return ()
    listed = tuple(name_list(values, "type", InvalidQuery))
    try:
        return _checked_types(listed)
    except TypeError:  # something that has no hash is no name either
        return tuple(check_name(name, "type", InvalidQuery) for name in listed)


@functools.lru_cache(maxsize=1024)  # an application asks for the same few lists in every decision
def _checked_types(values: tuple[object, ...]) -> tuple[str, ...]:
    names = (getattr(value, "event_type", value) if isinstance(value, type) else value for value in values)
    return tuple(sorted({check_name(name, "type", InvalidQuery) for name in names}))


def _check_item(value: object) -> None:
    if not isinstance(value, QueryItem):
        raise InvalidQuery(
            f"a query consists of QueryItems, not {type(value).__name__}",
            hint="write Query.of(QueryItem(types=[…], tags=[…]))",
        )


def _differ(left: str | None, right: str | None) -> bool:
    return left is not None and right is not None and left != right


def _join_types(left: QueryItem, right: QueryItem) -> tuple[str, ...] | None:
    """The types both allow: () if any, None if there are none."""
    if not left.types and not right.types:
        return ()
    named = left.types or right.types
    excluded = {*left.exclude_types, *right.exclude_types}
    both_allow = tuple(
        name for name in named if name not in excluded and (not right.types or name in right.types)
    )
    return both_allow or None


if native is not None:
    native.know_queries(QueryItem, Query)

_ANY_EVENT = QueryItem()
_ALL = Query((_ANY_EVENT,))
_USER = Query((QueryItem(exclude_types=(RETAGGED,)),))
