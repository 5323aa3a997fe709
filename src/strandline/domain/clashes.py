"""Names that may mean one class only: inside one event class, projection, command or boundary. Nothing is global."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import InvalidInput
from ..tag_id import TagId, hint_of_twins, is_same_class

if TYPE_CHECKING:
    from .event import DomainEvent


def refuse_clashes(where: str, events: Iterable[type[DomainEvent]], ids: Iterable[type[TagId]]) -> None:
    """Refuse two event classes with one type name, and two kinds of id with one prefix."""
    _refuse(where, "event type", "type", [(cls.event_type, cls) for cls in events])
    _refuse(where, "tag prefix", "prefix", [(cls.prefix, cls) for cls in ids])


def _refuse(where: str, what: str, option: str, named: Iterable[tuple[str, type]]) -> None:
    known: dict[str, type] = {}
    for name, cls in named:
        other = known.setdefault(name, cls)
        if not is_same_class(other, cls):
            raise InvalidInput(
                f"{where}: {_name(other)} and {_name(cls)} both have the {what} {name!r}",
                hint=hint_of_twins(other, cls)
                or f'use one class for both, or write class {cls.__name__}(…, {option}="…")',
            )


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
