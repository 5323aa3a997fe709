"""JSON from elsewhere: where in an object the type, the tags and the id of an event are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from .errors import InvalidEvent, InvalidInput
from .tag_id import TagId, id_text

Accessor = str | Callable[[Any], Any]
"""A dot path into an object, as `meta.kind`, or a function of the object."""

TagPaths = Mapping[Any, str]
"""The prefixes of tags, as text or as a TagId class, and the dot paths of their values."""

TagAccessor = TagPaths | Callable[[Any], Iterable[str]]


def event_fields(
    value: object,
    *,
    type: Accessor,
    tags: TagAccessor,
    id: Accessor | None,
    subject: Accessor | None,
    stream: Accessor | None,
) -> dict[str, Any]:
    """The fields of the event that an object, or its JSON text, stands for; the object is its data."""
    if not callable(tags) and not isinstance(tags, Mapping):
        raise InvalidInput(
            f"tags are prefixes and paths, or a function, not {tags!r:.60}",
            hint='write {"course": "courseId"}',
        )
    found, data = _object(value)
    return {
        "type": _required(found, type, "type"),
        "data": data,
        "tags": tags(found) if callable(tags) else list(_tags(found, tags)),
        "id": None if id is None else _required(found, id, "id"),
        "subject": None if subject is None else _optional(found, subject, "subject"),
        "stream": None if stream is None else _optional(found, stream, "stream"),
    }


def _object(value: object) -> tuple[Mapping[str, Any], Any]:
    """The object, and what its event has as data: text stays as it is."""
    data = value
    if isinstance(value, (str, bytes, bytearray)):
        try:
            data = (value.encode() if isinstance(value, str) else bytes(value)).strip()
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidEvent(f"not JSON: {error}", hint="pass one JSON object, or its text") from error
    if not isinstance(value, Mapping):
        raise InvalidEvent(f"not a JSON object: {value!r:.60}", hint="""pass one like {"type": "…"}""")
    return value, data


def _at(found: object, accessor: Accessor) -> Any:
    """What a path or function finds; None is nothing."""
    if callable(accessor):
        return accessor(found)
    for name in _path(accessor):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _all_at(found: object, names: Sequence[str]) -> Iterator[Any]:
    """Whatever a path finds, in each object of the lists on its way, and in a list at its end; None is nothing."""
    if not names:
        ends = found if isinstance(found, (list, tuple)) else (found,)
        yield from (each for each in ends if each is not None)
    elif isinstance(found, (list, tuple)):
        for each in found:
            yield from _all_at(each, names)
    elif isinstance(found, Mapping):
        yield from _all_at(found.get(names[0]), names[1:])


def _path(accessor: object) -> list[str]:
    if not isinstance(accessor, str) or not all(accessor.split(".")):
        raise InvalidInput(f"not a path into an object: {accessor!r:.60}", hint='write it as "meta.kind"')
    return accessor.split(".")


def _required(found: Mapping[str, Any], accessor: Accessor, what: str) -> Any:
    value = _at(found, accessor)
    if value is None:
        place = "where the function looks" if callable(accessor) else f"at {accessor!r}"
        raise InvalidEvent(
            f"this object has no {what} {place}",
            hint=f"say where the {what} is; the object has: {', '.join(map(str, found)) or 'nothing'}",
        )
    return value


def _optional(found: object, accessor: Accessor, what: str) -> str | None:
    value = _at(found, accessor)
    if isinstance(value, TagId):
        return value.tag  # as in an Event: see check_place
    return None if value is None else _name(value, what)


def _tags(found: object, paths: TagPaths) -> Iterator[str]:
    """A tag for each value that is there; lists have several."""
    for prefix, place in paths.items():
        values = _all_at(place(found), ()) if callable(place) else _all_at(found, _path(place))
        for each in values:
            text = _name(each, f"tag {getattr(prefix, 'prefix', prefix)!s:.60}:…")
            is_kind = isinstance(prefix, type) and issubclass(prefix, TagId)
            yield prefix(text).tag if is_kind else f"{_name(prefix, 'prefix')}:{text}"


def _name(value: object, what: str) -> str:
    text = id_text(value)
    if not text:
        shown = type(value).__name__ if isinstance(value, (list, tuple, Mapping)) else f"{value!r:.60}"
        raise InvalidEvent(
            f"a {what} is made of text or a whole number, not of {shown}",
            hint=f"pass a function of the object that returns the {what}",
        )
    return text
