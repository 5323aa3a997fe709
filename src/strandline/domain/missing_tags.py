"""Events that decisions like the one that wrote them would not find."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

from ..errors import InvalidEvent
from ..event import Event
from ..query import QueryItem
from .annotations import callers
from .steps import TellMissingTags


class MissingTags(UserWarning):
    """An event carries none of the tags that its boundary is scoped by, or a command depends on a handler of such events."""


class UnreachedHandler(MissingTags, ResourceWarning):
    """A projection has a handler of events without the tags of its key. Shown by pytest and `python -X dev`.

    Such events can have their tags by hand, so only a command that depends on the projection warns always.
    """


def without_tags(boundary: Sequence[QueryItem], events: Sequence[Event]) -> list[TellMissingTags]:
    """What is to be told of events that carry none of the tags of the boundary they were decided in."""
    told: list[TellMissingTags] = []
    for event in events:
        if not _carries_one(event, boundary):
            told += _told_of(event, boundary)
    return told


def _carries_one(event: Event, boundary: Sequence[QueryItem]) -> bool:
    carried = event.tags
    for item in boundary:
        for tag in item.tags:
            if tag in carried:
                return True
    return False


def _told_of(event: Event, boundary: Sequence[QueryItem]) -> Iterator[TellMissingTags]:
    scope = {tag for item in boundary for tag in item.tags}
    if scope and not _is_found_without(boundary, event):
        wanted = ", ".join(sorted(scope))
        yield TellMissingTags(
            f"{event.type} carries none of the tags of its boundary ({wanted}): no such decision will see it",
            "give the event a TagId field with that id, or write event.with_tags(…)",
        )


def tell(step: TellMissingTags, *, strict: bool) -> None:
    """Warn whoever called the store, or refuse the event."""
    if strict:
        raise InvalidEvent(step.message, hint=step.hint)
    warnings.warn(f"{step.message}; {step.hint}", MissingTags, stacklevel=callers())


def _is_found_without(boundary: Sequence[QueryItem], event: Event) -> bool:
    """Whether a part of the boundary that asks for no tags asks for the event."""
    return any(not item.tags and item.matches(event) for item in boundary)
