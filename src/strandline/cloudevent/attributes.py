"""What the attributes of a CloudEvent may be, and which of them are an event's own."""

from __future__ import annotations

import base64
import re
from datetime import datetime
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from ..errors import InvalidEvent
from ..names import an

OURS = "strandline"
"""The extension with what CloudEvents has no attribute for. An event that has it comes back as it was."""

TAGS = "tags"
"""The extension with the tags, a JSON list as text; other text in it is somebody else's."""

_OWN_NAMES = frozenset({"specversion", "type", "subject", "streamid", TAGS, "data", OURS})

SHAPE = """write {"specversion": "1.0", "id": "…", "source": "…", "type": "…", "data": {…}}"""

_NAME = re.compile("[a-z0-9]+")
_JSON_TYPE = re.compile(r"[^/;]+/([^/;]+\+)?json\s*(;.*)?", re.IGNORECASE)
_HINTS = {TAGS: """write a JSON list as text: '["course:c1"]'""", OURS: "leave it out"}


def foreign_id(source: str, id: str) -> UUID:
    """The id of an event from elsewhere: CloudEvents are told apart by source and id together."""
    return uuid5(uuid5(NAMESPACE_URL, source), id)


def is_name(name: object) -> bool:
    """Whether an attribute may have this name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def is_kept(name: str, text: str) -> bool:
    """Whether an attribute from elsewhere is kept in the metadata: an event has no place for it."""
    return name not in _OWN_NAMES or (name == TAGS and tag_list(text) is None)


def tag_list(text: str) -> list[str] | None:
    """The tags that an attribute lists; None if that is not what its text is."""
    try:
        return msgspec.json.decode(text, type=list[str])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def is_json(media_type: str | None) -> bool:
    """Whether the data is JSON, as it is if nothing is said about it."""
    return media_type is None or _JSON_TYPE.fullmatch(media_type) is not None


def rfc3339(when: datetime) -> str:
    """A time as CloudEvents write it."""
    return when.isoformat().replace("+00:00", "Z")


def canonical(name: str, value: object) -> str:
    """The text of a value, as the types of CloudEvents define it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return str.__str__(value)
        case int():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return rfc3339(value)
    raise bad_attribute(name, f"is {an(type(value).__name__)}")


def check_text(value: object, name: str) -> str:
    """Return `value` if it may be a required attribute."""
    if not isinstance(value, str) or not value:
        raise InvalidEvent(f"a CloudEvent needs {name}, a text that is not empty: {value!r:.60}", hint=SHAPE)
    utf8(value)
    return value


def check_time(text: str) -> None:
    """Refuse what is no instant."""
    try:
        is_instant = datetime.fromisoformat(text.upper()).tzinfo is not None
    except ValueError:
        is_instant = False
    if not is_instant:
        raise InvalidEvent(
            f"time is no RFC 3339 timestamp: {text!r:.60}", hint="write it as 2026-01-31T12:00:00Z"
        )


def utf8(text: str) -> bytes:
    """The bytes of a text."""
    try:
        return text.encode()
    except UnicodeError as error:
        raise InvalidEvent(f"not valid text: {error}", hint="remove lone surrogates") from error


def bad_attribute(name: str, why: str) -> InvalidEvent:
    """The error for an attribute that cannot be right."""
    return InvalidEvent(
        f"the attribute {name} of the CloudEvent {why}", hint=_HINTS.get(name, "write text, a number or true")
    )
