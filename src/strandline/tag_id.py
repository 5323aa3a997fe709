"""Typed ids that are tags: `class CourseId(TagId)` makes `CourseId("c1")` the tag `course:c1`."""

from __future__ import annotations

import operator
import re
from typing import Any, ClassVar, Self
from uuid import UUID

from .errors import InvalidInput
from .names import MAX_NAME, an, check_own_name

IdValue = str | int | UUID
"""What an id is made of."""


class TagId(str):
    """An id of one kind of thing: a str whose tag is `prefix:value`.

    The prefix is the name of the class in snake_case without a trailing `Id`, unless it is given:
    `class Isbn(TagId, prefix="book")`. An id is equal to its text, as every str is. So ids of two kinds with the same
    text are equal, and a set keeps one of them: give tags as a list.
    """

    __slots__ = ()
    prefix: ClassVar[str] = ""
    _beginning: ClassVar[str] = ":"

    def __init_subclass__(cls, *, prefix: str | None = None) -> None:
        super().__init_subclass__()
        cls.prefix = check_own_name(
            default_prefix(cls.__name__) if prefix is None else prefix, "tag prefix", InvalidInput
        )
        if ":" in cls.prefix or len(cls.prefix) > MAX_NAME - 2:
            raise InvalidInput(
                f"{cls.prefix!r:.80} cannot be the prefix of {cls.__name__}'s tags: a colon and the id follow it",
                hint=f'choose a short one without a colon: class {cls.__name__}(TagId, prefix="course")',
            )
        cls._beginning = f"{cls.prefix}:"

    def __new__(cls, value: IdValue) -> Self:
        if value.__class__ is str and value and cls is not TagId:  # as most are
            return str.__new__(cls, value)
        if cls is TagId:
            raise InvalidInput("a TagId needs a kind", hint="write class CourseId(TagId): ... and use that")
        if isinstance(value, TagId) and not is_same_class(type(value), cls):
            raise InvalidInput(
                f"{value!r} is not {an(cls.__name__)}",
                hint=hint_of_twins(type(value), cls)
                or f"pass the value as text if it is meant: {cls.__name__}(str(…))",
            )
        text = id_text(value)
        if text is None:
            raise InvalidInput(
                f"{an(cls.__name__)} is text, a whole number or a UUID, not {type(value).__name__}",
                hint=f'write {cls.__name__}("c1")',
            )
        if not text:
            raise InvalidInput(f"{an(cls.__name__)} is not empty", hint=f'write {cls.__name__}("c1")')
        return super().__new__(cls, text)

    @property
    def tag(self) -> str:
        """The tag: prefix and value."""
        return self._beginning + self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str.__repr__(self)})"


def as_json(value: object) -> str:
    """A TagId, or another kind of str, as JSON knows it: what msgspec is to do with types that it leaves to us."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"a value of the type {type(value).__name__} has no JSON form")


def as_ids(kind: type[TagId], value: Any) -> Any:
    """Return a value with ids in the place of the text, whole numbers and UUIDs in it; also in lists, tuples and sets."""
    if isinstance(value, kind):
        return value
    if isinstance(value, (str, int, UUID)):
        return kind(value)
    if type(value) not in (list, tuple, set, frozenset):
        return value
    ids = [as_ids(kind, each) for each in value]
    return value if all(map(operator.is_, ids, value)) else type(value)(ids)


def id_text(value: object) -> str | None:
    """The text of what an id may be made of; None if it is something else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, UUID)):
        return None
    return str.__str__(value) if isinstance(value, str) else str(value)


def default_prefix(name: str) -> str:
    """`CourseId` is `course`, `HTTPRequestId` is `http_request`, `Id` is `id`."""
    base = name.removesuffix("Id") or name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", base).lower()


def is_same_class(one: type, other: type) -> bool:
    """Whether two classes are one that was defined again, by a reload or by running a notebook's cell again.

    Those that functions make may differ in what the function was given, and have the same name.
    """
    return one is other or (_is_named_alike(one, other) and "<locals>" not in one.__qualname__)


def hint_of_twins(one: type, other: type) -> str:
    """What to do about two classes that one function made; nothing if it is not that."""
    if one is other or not _is_named_alike(one, other):
        return ""
    return (
        f"the function around {one.__name__} made it twice: define it outside, or use the classes of one call"
    )


def _is_named_alike(one: type, other: type) -> bool:
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
