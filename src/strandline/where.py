"""`where`: a filter on an event's payload, as an object matcher or as a Python callable.

One function decides for every engine. A matcher is nested equality; a list means any of; operators
start with `$`; nested objects match partially; `$metadata` at the top reaches the metadata. JSON
types never mix (true is not 1, but 1 is 1.0), and a missing path fails all but `$ne` and `$nin`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from .activity import MATCHING, doing
from .callables import never_runs, takes
from .codec import decode_data, encode_value
from .errors import InvalidQuery

METADATA: Final = "$metadata"
ALL_OF: Final = "$and"
MAX_DEPTH: Final = 50


class Payload(Protocol):
    """What a matcher may look at."""

    @property
    def data(self) -> bytes: ...
    @property
    def metadata(self) -> Mapping[str, str]: ...


class _Missing:
    """No value at that path."""


_MISSING: Final = _Missing()


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: their types never mix, but 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(value: Any, operand: Any) -> bool:
        if isinstance(value, bool) or isinstance(operand, bool):
            return False
        numbers = isinstance(value, (int, float)) and isinstance(operand, (int, float))
        texts = isinstance(value, str) and isinstance(operand, str)
        return (numbers or texts) and compare(value, operand)

    return holds


def _is_in(value: Any, operand: list[Any]) -> bool:
    return any(same(value, choice) for choice in operand)


def _has_any(value: Any, operand: list[Any]) -> bool:
    return isinstance(value, list) and any(_is_in(choice, value) for choice in operand)


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$eq": same,
    "$ne": lambda value, operand: not same(value, operand),
    "$gt": _ordered(lambda value, operand: value > operand),
    "$gte": _ordered(lambda value, operand: value >= operand),
    "$lt": _ordered(lambda value, operand: value < operand),
    "$lte": _ordered(lambda value, operand: value <= operand),
    "$in": _is_in,
    "$nin": lambda value, operand: not _is_in(value, operand),
    "$has": lambda value, operand: isinstance(value, list) and _is_in(operand, value),
    "$hasAny": _has_any,
}
_HOLD_WHEN_MISSING: Final = frozenset({"$ne", "$nin"})
_TAKE_A_LIST: Final = frozenset({"$in", "$nin", "$hasAny", ALL_OF})


def check_where(where: object) -> dict[str, Any] | Callable[[Any], bool]:
    """Return a private copy of an object matcher, or the callable itself."""
    if isinstance(where, Mapping):
        copy = _copied(where)
        _check_depth(copy)
        _check_top(copy)
        return dict(copy)
    if callable(where):
        if never_runs(where):
            raise InvalidQuery(
                f"a call of the matcher {getattr(where, '__name__', where)!s:.60} would not say yes or no",
                hint="write a plain function that returns True or False, without async and without yield",
            )
        return _of_one_argument(where)
    raise InvalidQuery(
        f"where is an object matcher or a callable, not {type(where).__name__}",
        hint='for example where={"amount": {"$gte": 10}}',
    )


class OfEventAndMetadata:
    """A matcher of an event and its metadata, as one of the event alone."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any, Mapping[str, str]], bool]) -> None:
        self.function = function

    def __call__(self, event: Payload) -> bool:
        return self.function(event, event.metadata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfEventAndMetadata) and bool(self.function == other.function)

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


def _of_one_argument(where: Callable[..., Any]) -> Callable[[Any], bool]:
    """Return a matcher that is called with an event, `f(event)`. Refuse one that takes neither one argument nor two."""
    if takes(where, ("event",)):
        return where
    if takes(where, ("event", "metadata")):
        return OfEventAndMetadata(where)
    raise InvalidQuery(
        f"the matcher {getattr(where, '__name__', type(where).__name__)!s:.60} is called with the event,"
        " or with the event and its metadata, and takes neither",
        hint="write where=lambda event: …, or where=lambda event, metadata: …",
    )


def portable(where: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """The callable, or if it cannot be pickled (a lambda), one that says so when it is asked.

    An error that carries a query must be able to leave its process whatever the query is.
    """
    try:
        pickle.dumps(where)
    except (pickle.PicklingError, AttributeError, TypeError):
        return lost_matcher
    return where


def lost_matcher(event: object) -> bool:
    """Stands for a matcher that could not leave its process."""
    raise InvalidQuery(
        "the matcher stayed in the process that made it", hint="use an object matcher or a module's function"
    )


def both(left: Any, right: Any) -> Any:
    """The filter that holds where both hold."""
    if left is None or right is None or same(left, right):
        return right if left is None else left
    if isinstance(left, dict) and isinstance(right, dict):
        return {ALL_OF: [*_conjuncts(left), *_conjuncts(right)]}
    return lambda event: where_matches(left, event) and where_matches(right, event)


def where_matches(where: Any, event: Payload) -> bool:
    """Whether the filter holds for the event; data that is not JSON matches no object matcher."""
    if callable(where):
        return _call(where, event)
    try:
        return _top_matches(where, decode_data(event.data), event)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    except RecursionError as error:  # to say no would be to miss a conflict
        raise InvalidQuery(
            "the data of an event is nested too deeply for where to look at it here",
            hint="call the store with fewer calls under way, or raise sys.setrecursionlimit",
        ) from error


def _call(where: Callable[[Any], bool], event: Payload) -> bool:
    try:
        return bool(doing(MATCHING, where, event))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an exit or a cancellation in it must not end the writer of others
        raise InvalidQuery(
            f"the matcher raised {type(error).__name__}: {error}", hint="correct the callable given as where"
        ) from error


def _conjuncts(where: dict[str, Any]) -> list[Any]:
    return list(where[ALL_OF]) if where.keys() == {ALL_OF} else [where]


def _copied(where: Mapping[str, Any]) -> Any:
    text = encode_value(where, "where", InvalidQuery, hint="use JSON values only")
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise _too_deep() from error


def _too_deep() -> InvalidQuery:
    return InvalidQuery(f"where is nested more than {MAX_DEPTH} levels deep", hint="match on fewer levels")


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise _too_deep()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(inner, depth + 1)


def _check_top(where: Any) -> None:
    if not isinstance(where, dict):
        raise InvalidQuery(
            f"each part of {ALL_OF} is an object matcher, not {where!r:.60}",
            hint=f'write {{"{ALL_OF}": [{{"field": value}}, …]}}',
        )
    if where.keys() == {ALL_OF}:
        for part in _list_operand(ALL_OF, where[ALL_OF]):
            _check_top(part)
        return
    rest = dict(where)
    metadata = rest.pop(METADATA, {})
    if not isinstance(metadata, dict) or any(key.startswith("$") for key in metadata):
        raise InvalidQuery(
            f"{METADATA} takes an object of metadata names: {metadata!r:.60}",
            hint=f'for example {{"{METADATA}": {{"user": "u1"}}}}',
        )
    _check(metadata)
    _check(rest)


def _check(pattern: Any) -> None:
    if isinstance(pattern, list):
        for choice in pattern:
            _check(choice)
    if not isinstance(pattern, dict):
        return
    operators = [key for key in pattern if key.startswith("$")]
    for name in operators:
        if name not in _OPERATORS:
            raise InvalidQuery(
                f"unknown operator {name!r} in where", hint=f"known are: {', '.join(_OPERATORS)}"
            )
        if name in _TAKE_A_LIST:
            _list_operand(name, pattern[name])
    if operators and len(operators) < len(pattern):
        raise InvalidQuery(
            f"where mixes operators and field names: {sorted(pattern)}",
            hint='write {"field": {"$gte": 1}}: operators inside the field',
        )
    if not operators:
        for value in pattern.values():
            _check(value)


def _list_operand(name: str, operand: Any) -> list[Any]:
    if not isinstance(operand, list):
        raise InvalidQuery(f"{name} takes a list, not {operand!r:.60}", hint=f'write {{"{name}": […]}}')
    return operand


def _top_matches(where: dict[str, Any], value: Any, event: Payload) -> bool:
    if where.keys() == {ALL_OF}:
        return all(_top_matches(part, value, event) for part in where[ALL_OF])
    if METADATA not in where:
        return _matches(where, value)
    rest = {key: pattern for key, pattern in where.items() if key != METADATA}
    return _matches(where[METADATA], dict(event.metadata)) and (not rest or _matches(rest, value))


def _matches(pattern: Any, value: Any) -> bool:
    if isinstance(pattern, list):
        return any(_matches(choice, value) for choice in pattern)
    if not isinstance(pattern, dict):
        return value is not _MISSING and same(value, pattern)
    if pattern and next(iter(pattern)).startswith("$"):
        return all(_operator_holds(name, value, operand) for name, operand in pattern.items())
    if not pattern:
        return isinstance(value, dict)
    fields = value if isinstance(value, dict) else {}  # then every path into it is missing
    return all(_matches(inner, fields.get(key, _MISSING)) for key, inner in pattern.items())


def _operator_holds(name: str, value: Any, operand: Any) -> bool:
    if value is _MISSING:
        return name in _HOLD_WHEN_MISSING
    return _OPERATORS[name](value, operand)
