"""Retags: changes of tags that are events of the log themselves.

A `$retagged` event lists changes `{position, removed, added}`. It conflicts with a query if, for one
of its changes, the query matches that event with its old tags or with its new ones: an event that was
read, or should have been read, is no longer what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol

import msgspec

from .append import AppendResult, check_position
from .errors import InvalidInput
from .event import Event, SequencedEvent
from .names import MAX_TAGS, RESERVED, RETAGGED, check_own_name, check_tags, counted, name_list
from .query import Query
from .tag_id import IdValue, TagId, id_text

MAX_CHANGES = 1_000


class Replacements(Protocol):
    """A mapping: values by the prefix of the tags that they take the place of, or by the kind of id that has it."""

    # Not a Mapping, which would take no dict[type[CourseId], …]: the type of its keys is invariant.
    def items(self) -> Iterable[tuple[str | type[TagId], Iterable[IdValue]]]: ...


class Change(msgspec.Struct, frozen=True):
    """What happened to the tags of the event at `position`."""

    position: int
    removed: tuple[str, ...]
    added: tuple[str, ...]

    def undo(self, tags: tuple[str, ...]) -> tuple[str, ...]:
        """The tags before the change."""
        return tuple(sorted({*tags, *self.removed} - {*self.added}))


class Retagged(AppendResult, frozen=True, eq=False):
    """What came of a retag: where its `$retagged` events are, which `count` counts, and how many events it `changed`.

    It is equal to the `AppendResult` with the same positions, because that is what it is to readers of the log.
    """

    changed: int = 0

    @classmethod
    def of(cls, result: AppendResult, changed: int) -> Retagged:
        """Return the result of an append as that of a retag that changed so many events."""
        return cls(result.first, result.last, result.count, result.duplicate, changed)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Retagged) and other.changed != self.changed:
            return False
        return isinstance(other, AppendResult) and _place(self) == _place(other)

    def __hash__(self) -> int:
        return hash(_place(self))


class Changes(msgspec.Struct):
    """The data of a `$retagged` event."""

    changes: list[Change]


def _place(result: AppendResult) -> tuple[int, int, int, bool]:
    return result.first, result.last, result.count, result.duplicate


_CHANGES = msgspec.json.Decoder(Changes)  # made here, by one thread: see domain/codec.py


class Retag:
    """A request to retag the events of a query, or those at some positions."""

    __slots__ = ("add", "replace", "target")
    events: ClassVar[tuple[Event, ...]] = ()  # it brings none; which it makes, the log shows

    def __init__(
        self,
        target: Query | int | Iterable[int],
        add: Iterable[str] = (),
        replace: Replacements | None = None,
    ) -> None:
        self.target = target if isinstance(target, Query) else _positions(target)
        self.add = check_tags(add, InvalidInput)
        self.replace = {} if replace is None else _replacements(replace)
        if not self.add and not self.replace:
            raise InvalidInput("nothing to retag with", hint="give add=[tags] or replace={prefix: [values]}")

    def changed(self, event: SequencedEvent) -> tuple[str, ...]:
        """The tags that the event is to have."""
        tags = self._wanted(event)
        if len(tags) > MAX_TAGS:
            raise InvalidInput(
                f"event {event.position} would have {counted(len(tags), 'tag')}, the limit is {MAX_TAGS}",
                hint="retag fewer events, or replace tags instead of adding",
            )
        return tuple(sorted(tags))

    def _wanted(self, event: SequencedEvent) -> set[str]:
        tags = set(event.tags)
        for prefix, replacement in self.replace.items():
            old = {tag for tag in tags if tag.startswith(f"{prefix}:")}
            if old:
                tags = (tags - old) | replacement
        tags.update(self.add)
        return tags

    def checked(self, position: int, found: SequencedEvent | None) -> SequencedEvent:
        """The event at a position that was asked for, if it may be retagged."""
        if found is None:
            raise InvalidInput(
                f"there is no event at position {position}",
                hint="positions are 1 to store.head(); ask for events by a query, or by event.position",
            )
        if found.type.startswith(RESERVED):
            raise InvalidInput(
                f"event {position} is the store's own ({found.type}) and keeps its tags",
                hint="retag events that users wrote",
            )
        return found


class TagsOfEach(Retag):
    """A request to add tags to some events, to each its own."""

    __slots__ = ("tags_of",)

    def __init__(self, tags_of: Mapping[int, Iterable[str]]) -> None:
        self.target = _positions(tags_of)
        self.tags_of = {position: check_tags(tags, InvalidInput) for position, tags in tags_of.items()}

    def _wanted(self, event: SequencedEvent) -> set[str]:
        return {*event.tags, *self.tags_of[event.position]}


def plan(
    retag: Retag, events: Iterable[SequencedEvent]
) -> Iterator[tuple[SequencedEvent, Change, tuple[str, ...]]]:
    """The events that would change, with the change and the new tags of each."""
    for event in events:
        new = retag.changed(event)
        if new != event.tags:
            old, kept = set(event.tags), set(new)
            change = Change(event.position, tuple(sorted(old - kept)), tuple(sorted(kept - old)))
            yield event, change, new


def retag_events(changes: Sequence[Change]) -> list[Event]:
    """The `$retagged` events that tell of the changes."""
    chunks = (changes[start : start + MAX_CHANGES] for start in range(0, len(changes), MAX_CHANGES))
    return [Event.of_store(RETAGGED, {"changes": chunk}) for chunk in chunks]


def changes_of(event: Event | SequencedEvent) -> list[Change]:
    """What a `$retagged` event lists."""
    return _CHANGES.decode(event.data).changes


def concerns(query: Query, event: SequencedEvent, old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """Return whether the retag of an event concerns a query: it matches with the old tags or with the new ones."""
    return query.matches(event, old) or query.matches(event, new)


_Link = tuple[int, Change, "_Link | None"]
"""A retag, its change of an event, and the one before."""


class RetagHistory:
    """The changes of some `$retagged` events, all since some position, by retag and by event."""

    def __init__(self, retags: Iterable[SequencedEvent]) -> None:
        self.by_retag: dict[int, list[int]] = {}
        self._newest: dict[int, _Link] = {}
        for retag in retags:
            self.add(retag)

    def add(self, retag: SequencedEvent) -> None:
        """Add the changes of the next retag."""
        changes = changes_of(retag)
        self.by_retag[retag.position] = [change.position for change in changes]
        for change in changes:
            self._newest[change.position] = (retag.position, change, self._newest.get(change.position))

    @property
    def events(self) -> Iterable[int]:
        """The positions of the events that were changed."""
        return self._newest

    def tags(self, event: SequencedEvent, head: int) -> tuple[str, ...]:
        """Return the tags that the event had when the log's head was `head`."""
        tags, link = event.tags, self._newest.get(event.position)
        while link is not None and link[0] > head:
            _, change, link = link
            tags = change.undo(tags)
        return tags

    def concern(self, query: Query, event: SequencedEvent, retag: int) -> bool:
        """Return whether what this retag did to the event concerns the query."""
        return concerns(query, event, self.tags(event, retag - 1), self.tags(event, retag))


def _positions(target: int | Iterable[int]) -> tuple[int, ...]:
    if isinstance(target, int):
        target = (target,)
    elif isinstance(target, (str, bytes)) or not isinstance(target, Iterable):
        raise InvalidInput(
            f"retag takes a query or positions, not {type(target).__name__}",
            hint="write store.retag([1, 2], …), or event.position",
        )
    return tuple(sorted({check_position(position, "a position to retag") for position in target}))


def _replacements(replace: Replacements) -> dict[str, set[str]]:
    if not isinstance(replace, Mapping):
        raise InvalidInput("replace is a mapping", hint='write replace={"student": ["s2"]}')
    checked: dict[str, set[str]] = {}
    for key, values in replace.items():
        kind = key if isinstance(key, type) and issubclass(key, TagId) else None
        prefix = check_own_name(key if kind is None else kind.prefix, "tag prefix", InvalidInput)
        if prefix.endswith(":"):
            raise InvalidInput(
                f"a prefix is what comes before the colon, not {prefix!r}",
                hint=f"write {prefix.rstrip(':')!r}",
            )
        listed = name_list(values, "value", InvalidInput)
        tags = {check_own_name(_tag(prefix, kind, value), "tag", InvalidInput) for value in listed}
        checked[prefix] = checked.get(prefix, set()) | tags
    return checked


def _tag(prefix: str, kind: type[TagId] | None, value: object) -> str:
    if isinstance(value, TagId):
        return _tag_of_id(prefix, value)
    text = id_text(value)
    if not text:
        raise InvalidInput(
            f"a value of the tags {prefix}:* is text, a whole number or a UUID, and not empty: {value!r:.60}",
            hint=f'write replace={{"{prefix}": ["c1"]}}, or [] to take the tags away',
        )
    return f"{prefix}:{text}" if kind is None else kind(value).tag  # type: ignore[arg-type]  # it has a text


def _tag_of_id(prefix: str, value: TagId) -> str:
    if value.prefix != prefix:
        raise InvalidInput(
            f"{value!r} has the tag {value.tag!r}, which does not replace tags {prefix}:*",
            hint=f"write replace={{{value.prefix!r}: […]}}",
        )
    return value.tag
