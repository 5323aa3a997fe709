"""A rule says which tags an event is to have; here it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...errors import InvalidInput
from ...event import SequencedEvent
from ...names import MAX_TAGS, check_tags
from ..loading import HINT, load, path_of

Rule = Callable[[SequencedEvent], Iterable[str] | None]


class NamedRule:
    """A rule that executors import by its path."""

    def __init__(self, path_or_function: str | Rule) -> None:
        self.path = path_or_function if isinstance(path_or_function, str) else path_of(path_or_function)
        self._function: Any = load(self.path)
        if not callable(self._function):
            raise InvalidInput(f"{self.path} is no function", hint=HINT)

    def missing_tags(self, event: SequencedEvent) -> tuple[str, ...]:
        """The tags that the event is to have and has not; raises `InvalidInput` that names the event."""
        try:
            wanted = self._function(event)
        except Exception as error:
            raise self._wrong(event, f"raised {type(error).__name__}: {error}") from error
        try:
            tags = () if wanted is None else check_tags(wanted, InvalidInput)
        except InvalidInput as error:
            raise self._wrong(event, f"returned no tags: {error}") from error
        missing = tuple(tag for tag in tags if tag not in event.tags)
        count = len(event.tags) + len(missing)
        if missing and count > MAX_TAGS:
            raise self._wrong(event, f"would give it {count} tags, and the limit is {MAX_TAGS}")
        return missing

    def _wrong(self, event: SequencedEvent, what: str) -> InvalidInput:
        return InvalidInput(
            f"the rule {self.path} {what:.300} (at the event {event.type} at position {event.position:,})",
            hint="correct the rule: it takes an event and returns a list of tags to add",
        )
