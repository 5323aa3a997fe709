"""Typed ids that are tags: `class CourseId(TagId)` makes `CourseId("c1")` the tag `course:c1`."""

from __future__ import annotations

import re
from typing import ClassVar, Self
from uuid import UUID

from .errors import InvalidInput


class TagId(str):
    """An id of one kind of thing: a str whose tag is `prefix:value`.

    The prefix is the name of the class in snake_case without a trailing `Id`, unless it is given:
    `class Isbn(TagId, prefix="book")`.
    """

    __slots__ = ()
    prefix: ClassVar[str] = ""

    def __init_subclass__(cls, *, prefix: str | None = None) -> None:
        super().__init_subclass__()
        cls.prefix = default_prefix(cls.__name__) if prefix is None else prefix
        if not cls.prefix or ":" in cls.prefix or cls.prefix.startswith("$"):
            raise InvalidInput(
                f"{cls.prefix!r} cannot be the prefix of {cls.__name__}'s tags",
                hint='choose one without a colon: class CourseId(TagId, prefix="course")',
            )

    def __new__(cls, value: str | int | UUID) -> Self:
        if cls is TagId:
            raise InvalidInput("a TagId needs a kind", hint="write class CourseId(TagId): ... and use that")
        if isinstance(value, TagId) and type(value) is not cls:
            raise InvalidInput(
                f"{type(value).__name__}({value!r}) is not a {cls.__name__}",
                hint=f"pass the value as text if it is meant: {cls.__name__}(str(…))",
            )
        if isinstance(value, bool) or not isinstance(value, (str, int, UUID)):
            raise InvalidInput(
                f"a {cls.__name__} is text, a whole number or a UUID, not {type(value).__name__}",
                hint=f'write {cls.__name__}("c1")',
            )
        text = str.__str__(value) if isinstance(value, str) else str(value)
        if not text:
            raise InvalidInput(f"a {cls.__name__} is not empty", hint=f'write {cls.__name__}("c1")')
        return super().__new__(cls, text)

    @property
    def tag(self) -> str:
        """The tag: prefix and value."""
        return f"{self.prefix}:{str.__str__(self)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str.__repr__(self)})"


def default_prefix(name: str) -> str:
    """`CourseId` is `course`, `HTTPRequestId` is `http_request`, `Id` is `id`."""
    base = name.removesuffix("Id") or name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", base).lower()
