"""Events: what users write (`Event`) and what the log gives back (`SequencedEvent`)."""

from __future__ import annotations

import base64
import os
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, Self, TypeVar
from uuid import UUID

import msgspec

from .codec import encode_value
from .errors import CorruptLog, InvalidEvent, InvalidInput
from .foreign import Accessor, TagAccessor, event_fields
from .lines import data_of, encode_line, line_of
from .names import (
    MAX_TAGS,
    RESERVED,
    check_key,
    check_own_name,
    check_place,
    check_tags,
    check_tracking,
    key_tag,
)
from .speedups import native

T = TypeVar("T")

TRACKING = "$tracking"  # the name in the metadata under which a log keeps what an append tracked
ARGUMENTS = (
    "$arguments"  # the same of the arguments of the command that wrote an event with an idempotency key
)
_MARK = b'"$tracking"'

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


_PACK_HALVES = struct.Struct(">QQ").pack
_randoms: list[
    int
] = []  # 64 random bits each, asked for in advance: a call of the system for each costs more


def uuid7() -> bytes:
    """The bytes of a time-ordered UUID (RFC 9562, version 7; microseconds are in the bits after the version)."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    try:
        random = _randoms.pop()
    except IndexError:
        random, *more = struct.unpack("128Q", os.urandom(1024))
        _randoms.extend(more)
    return _PACK_HALVES(
        milliseconds << 16 | 0x7000 | nanoseconds * 4096 // 1_000_000, 0b10 << 62 | random >> 2
    )


new_id: Callable[[], bytes] = uuid7 if native is None else native.new_id

_register: Callable[..., None] | None = getattr(os, "register_at_fork", None)
if _register is not None:  # or both processes would use the same ones
    _register(after_in_child=_randoms.clear)
    if native is not None:
        _register(after_in_child=native.forget_randoms)


def to_microseconds(when: datetime) -> int:
    """Microseconds since 1970; a naive datetime is refused, it means another instant elsewhere."""
    if not isinstance(when, datetime) or when.utcoffset() is None:
        raise InvalidInput(
            f"a time needs a time zone: {when!r}", hint="use datetime.now(UTC) or when.astimezone()"
        )
    return (when - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """The instant, in UTC."""
    return _EPOCH + timedelta(0, 0, microseconds)


def join_tags(tags: Iterable[str]) -> str:
    """Tags as one text, which is how logs keep them; no tag contains a newline."""
    return "\n".join(tags)


def split_tags(text: str) -> tuple[str, ...]:
    """The tags of such a text, reserved ones included."""
    return tuple(text.split("\n")) if text else ()


def own_tags(text: str) -> tuple[str, ...]:
    """The tags of such a text that users wrote."""
    tags = split_tags(text)
    return tuple(tag for tag in tags if not tag.startswith(RESERVED)) if RESERVED in text else tags


def raw_tags_of(tags: tuple[str, ...], key: str | None) -> str:
    """Tags as one text, the key of the append among them."""
    return join_tags(tags if key is None else sorted((*tags, key_tag(key))))


class _Data:
    """What both kinds of event can do with their data."""

    __slots__ = ()
    data: bytes

    def json(self) -> Any:
        """The data decoded from JSON."""
        try:
            return msgspec.json.decode(self.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidEvent(
                f"the event's data is not JSON: {error}", hint="read the bytes in event.data"
            ) from error

    def decode(self, kind: type[T]) -> T:
        """The event as one of its class, `event.decode(CourseDefined)`."""
        from_event: Callable[[Any], T] | None = getattr(kind, "from_event", None)
        if from_event is None:
            raise InvalidInput(
                f"an event is decoded to a DomainEvent, not to {kind!r:.80}",
                hint="write event.decode(CourseDefined), or event.json()",
            )
        return from_event(self)

    def _data_fields(self) -> dict[str, Any]:
        data = data_of(self.data)
        return {"data_base64": base64.b64encode(self.data).decode()} if data is None else {"data": data}


class Event(_Data):
    """A fact to be written: a type, data (a JSON value or bytes) and the tags it can be found by."""

    __slots__ = ("data", "key", "metadata", "raw_id", "stream", "subject", "tags", "type")

    type: str
    data: bytes
    tags: tuple[str, ...]
    raw_id: bytes
    key: str | None
    metadata: Mapping[str, str]
    stream: str | None
    subject: str | None

    def __init__(
        self,
        type: str,
        data: Any,
        *,
        tags: Iterable[str] = (),
        id: UUID | str | None = None,
        metadata: Mapping[str, str] | None = None,
        stream: str | None = None,
        subject: str | None = None,
    ) -> None:
        if (
            native is not None
            and id is None
            and metadata is None
            and stream is None
            and subject is None
            and native.fill_event(self, type, data, tags)
        ):
            return
        put = object.__setattr__
        put(self, "type", check_own_name(type, "type", InvalidEvent))
        put(self, "data", data if data.__class__ is bytes else _encode(data))
        put(self, "tags", _event_tags(tags))
        put(self, "raw_id", new_id() if id is None else _uuid(id).bytes)
        put(self, "metadata", {} if metadata is None else check_metadata(metadata))
        put(self, "stream", None if stream is None else check_place(stream, "stream", InvalidEvent))
        put(self, "subject", None if subject is None else check_place(subject, "subject", InvalidEvent))
        put(self, "key", None)

    @property
    def id(self) -> UUID:
        """The event's id."""
        return UUID(bytes=self.raw_id)

    @classmethod
    def of_store(cls, type: str, data: object) -> Event:
        """An event that the store writes itself, whose type starts with `$`."""
        return cls("store", msgspec.json.encode(data))._copy(type=type)

    @property
    def raw_tags(self) -> str:
        """The tags as a log keeps them; the key is one of them."""
        return raw_tags_of(self.tags, self.key)

    def with_tags(self, *tags: str) -> Event:
        """The same event (same id) with more tags."""
        return self._copy(tags=_event_tags((*self.tags, *tags)))

    def with_metadata(self, metadata: Mapping[str, str]) -> Event:
        """The same event (same id) with more metadata."""
        return self._copy(metadata={**self.metadata, **check_metadata(metadata)}) if metadata else self

    def with_key(self, key: str, arguments: str = "") -> Event:
        """The same event (same id) with the idempotency key of its append, and a fingerprint of its command's arguments."""
        metadata = {**self.metadata, ARGUMENTS: arguments} if arguments else self.metadata
        return self._copy(key=check_key(key, InvalidEvent), metadata=metadata)

    def without_arguments(self) -> Event:
        """The same event (same id) without the fingerprint of its command's arguments."""
        if ARGUMENTS not in self.metadata:
            return self
        return self._copy(metadata={name: text for name, text in self.metadata.items() if name != ARGUMENTS})

    def with_tracking(self, source: str, position: int) -> Event:
        """The same event (same id) as a log keeps it if its append tracks a source."""
        return self._copy(metadata={**self.metadata, TRACKING: f"{position} {source}"})

    def in_stream(self, stream: str) -> Event:
        """The same event in a stream; an event that is in another one already is refused."""
        stream = check_place(stream, "stream", InvalidInput)
        if self.stream == stream:
            return self
        if self.stream is not None:
            raise InvalidInput(
                f"the event is in stream {self.stream!r}, the append says {stream!r}",
                hint="give the stream once: on the event or on the append",
            )
        return self._copy(stream=stream)

    def to_json(self) -> str:
        """One line of JSON with sorted keys; data that is not JSON goes as `data_base64`."""
        return self.to_line().decode()

    def to_line(self) -> bytes:
        """`to_json` as bytes, without a newline."""
        return encode_sorted(self._fields() | self._data_fields())

    @classmethod
    def from_json(cls, text: str | bytes) -> Event:
        """The event that `to_json` wrote; only `type` and data are required."""
        fields = _decode_fields(text)
        fields.pop("position", None)
        fields.pop("recorded_at", None)
        fields.pop("tracking", None)
        key = fields.pop("key", None)
        return cls(**fields) if key is None else cls(**fields).with_key(key)

    @classmethod
    def from_foreign(
        cls,
        value: Mapping[str, Any] | str | bytes,
        *,
        type: Accessor = "type",
        tags: TagAccessor | None = None,
        id: Accessor | None = None,
        subject: Accessor | None = None,
        stream: Accessor | None = None,
    ) -> Event:
        """The event of a JSON object from elsewhere, or of its text; the object is its data.

        `type`, `id`, `subject` and `stream` say where in the object they are: a dot path, `type="meta.kind"`, or a
        function of the object. `tags={"course": "courseId"}` are prefixes and paths; where nothing is found
        there is no tag, where there is a list, at the end of the path or on its way, there are several.
        """
        return cls(**event_fields(value, type=type, tags=tags or {}, id=id, subject=subject, stream=stream))

    def _copy(self, **changes: object) -> Event:
        twin = object.__new__(Event)
        put = object.__setattr__
        for name in Event.__slots__:
            put(twin, name, changes[name] if name in changes else getattr(self, name))
        return twin

    def _fields(self) -> dict[str, Any]:
        return _key_field(self.key) | {
            "id": str(self.id),
            "metadata": dict(self.metadata),
            "stream": self.stream,
            "subject": self.subject,
            "tags": self.tags,
            "type": self.type,
        }

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an event does not change; {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an event does not change; {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Event.__slots__)

    def __hash__(self) -> int:
        return hash(self.raw_id)

    def __repr__(self) -> str:
        return f"Event({self.type!r}, {_preview(self.data)}, tags={list(self.tags)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return restore_event, tuple(getattr(self, name) for name in Event.__slots__)


class SequencedEvent(_Data, msgspec.Struct, frozen=True, gc=False):
    """An event of the log: all of `Event`, its `position`, and `recorded_at`.

    Fields that decisions rarely look at are kept as the log stores them and decoded when asked for.
    """

    position: int
    type: str
    data: bytes
    raw_tags: str
    stream: str | None
    subject: str | None
    raw_id: bytes
    raw_metadata: bytes | None
    raw_recorded_at: int

    @classmethod
    def of(cls, event: Event, position: int, recorded_at: int) -> Self:
        """The event at its place in a log; `recorded_at` in microseconds."""
        return cls(
            position,
            event.type,
            event.data,
            event.raw_tags,
            event.stream,
            event.subject,
            event.raw_id,
            encode_metadata(event.metadata),
            recorded_at,
        )

    def with_present_tags(self, tags: tuple[str, ...]) -> Self:
        """The same event after a retag."""
        return msgspec.structs.replace(self, raw_tags=raw_tags_of(tags, self.key))

    @property
    def tags(self) -> tuple[str, ...]:
        """The event's present tags, sorted."""
        return own_tags(self.raw_tags)

    @property
    def key(self) -> str | None:
        """The idempotency key of the append that wrote it."""
        if RESERVED not in self.raw_tags:
            return None
        prefix = key_tag("")
        return next((t.removeprefix(prefix) for t in split_tags(self.raw_tags) if t.startswith(prefix)), None)

    @property
    def id(self) -> UUID:
        """The event's id."""
        try:
            return UUID(bytes=self.raw_id)
        except (ValueError, TypeError) as error:
            raise self._is_damaged("id", error) from error

    @property
    def metadata(self) -> Mapping[str, str]:
        """The event's metadata."""
        decoded = self._decoded_metadata()
        decoded.pop(TRACKING, None)
        decoded.pop(ARGUMENTS, None)
        return decoded

    @property
    def arguments(self) -> str:
        """The fingerprint of the arguments of the command that wrote it, if that had an idempotency key."""
        is_there = self.raw_metadata is not None and ARGUMENTS.encode() in self.raw_metadata
        return self._decoded_metadata().get(ARGUMENTS, "") if is_there else ""

    def as_written(self) -> Event:
        """The event that was written, with its present tags."""
        values = (
            self.data,
            self.key,
            self.metadata,
            self.raw_id,
            self.stream,
            self.subject,
            self.tags,
            self.type,
        )
        return restore_event(*values)

    @property
    def tracking(self) -> tuple[str, int] | None:
        """The source and the position that the append of this event tracked: `("orders", 17)`, or None."""
        if self.raw_metadata is None or _MARK not in self.raw_metadata:
            return None
        mark = self._decoded_metadata().get(TRACKING)
        if mark is None:
            return None
        try:
            position, _, source = mark.partition(" ")
            return check_tracking((source, int(position)))
        except (ValueError, AttributeError) as error:
            raise self._is_damaged("tracking", error) from error

    def _own_metadata(self) -> dict[str, str]:
        """The metadata without what the line has a field for."""
        return {name: text for name, text in self._decoded_metadata().items() if name != TRACKING}

    def _decoded_metadata(self) -> dict[str, str]:
        try:
            decoded: dict[str, str] = msgspec.json.decode(self.raw_metadata) if self.raw_metadata else {}
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise self._is_damaged("metadata", error) from error
        return decoded

    @property
    def recorded_at(self) -> datetime:
        """When the log took the event (UTC); it never decreases from position to position."""
        try:
            return from_microseconds(self.raw_recorded_at)
        except (OverflowError, TypeError) as error:
            raise self._is_damaged("time", error) from error

    def _is_damaged(self, what: str, error: Exception) -> CorruptLog:
        return CorruptLog(f"the {what} of event {self.position} is damaged: {error}")

    def to_json(self) -> str:
        """One line of JSON with sorted keys; `read.ndjson()` yields such lines."""
        return self.to_line().decode()

    def to_line(self) -> bytes:
        """`to_json` as bytes, without the newline."""
        return encode_line(line_of(self, str(self.id)))

    @classmethod
    def from_json(cls, text: str | bytes) -> SequencedEvent:
        """The sequenced event that `to_json` wrote."""
        fields = _decode_fields(text)
        try:
            position = int(fields.pop("position"))
            recorded_at = to_microseconds(datetime.fromisoformat(fields.pop("recorded_at")))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidEvent(f"not the JSON form of a sequenced event: {error!r}", hint=_FORM) from error
        _check_fields(fields)
        metadata = fields.get("metadata") or {}
        if "tracking" in fields:
            source, tracked = check_tracking(fields["tracking"])
            metadata = {**metadata, TRACKING: f"{tracked} {source}"}
        return cls(
            position,
            fields["type"],
            fields["data"],
            raw_tags_of(tuple(fields.get("tags", ())), fields.get("key")),
            fields.get("stream"),
            fields.get("subject"),
            _uuid(fields.get("id")).bytes,
            encode_metadata(metadata),
            recorded_at,
        )

    def __repr__(self) -> str:
        return (
            f"SequencedEvent({self.position}, {self.type!r}, {_preview(self.data)}, tags={list(self.tags)!r})"
        )


def _key_field(key: str | None) -> dict[str, Any]:
    """The key's place in the JSON form: few events have one."""
    return {} if key is None else {"key": key}


class _Json(msgspec.Struct):
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_JSON = msgspec.json.Decoder(_Json)  # made here, by one thread: see domain/codec.py
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def encode_sorted(value: object) -> bytes:
    """JSON with sorted keys: the stable form."""
    return _encode_sorted(value)


def encode_metadata(metadata: Mapping[str, str]) -> bytes | None:
    """Metadata as a log stores it: JSON with sorted keys, nothing if empty."""
    return encode_sorted(metadata) if metadata else None


_FORM = 'write {"type": "…", "data": {…}, "tags": ["…"]}'


def _check_fields(fields: Mapping[str, Any]) -> None:
    """Refuse what no event of a log can have."""
    tags, metadata = fields.get("tags", []), fields.get("metadata", {})
    texts = [fields["type"], *(fields[name] for name in ("stream", "subject", "key") if name in fields)]
    if not isinstance(tags, list) or not all(isinstance(text, str) for text in [*texts, *tags]):
        raise InvalidEvent("type, tags, stream and subject of an event are text", hint=_FORM)
    check_metadata(metadata)


def _decode_fields(text: str | bytes) -> dict[str, Any]:
    known = {*Event.__slots__, "id", "position", "recorded_at", "tracking"} - {"raw_id"}
    try:
        fields = msgspec.json.decode(text)
        raw = _JSON.decode(text).data
        encoded = fields.pop("data_base64", None)
        decoded = None if encoded is None else base64.b64decode(encoded, validate=True)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise InvalidEvent(f"not the JSON form of an event: {error}", hint=_FORM) from error
    if decoded is not None and raw is not msgspec.UNSET:
        raise InvalidEvent("an event has data or data_base64, not both", hint="leave one of them out")
    if decoded is not None:
        fields["data"] = decoded
    elif raw is not msgspec.UNSET:
        fields["data"] = bytes(raw)
    unknown = fields.keys() - known
    if unknown or "type" not in fields or "data" not in fields:
        missing = [name for name in ("type", "data") if name not in fields]
        what = (
            f"has unknown fields: {sorted(unknown)}" if unknown else f"lacks its {' and its '.join(missing)}"
        )
        raise InvalidEvent(
            f"an event {what}",
            hint=_FORM,
        )
    return {name: value for name, value in fields.items() if value is not None or name == "data"}


def _encode(data: Any) -> bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    return encode_value(data, "data", InvalidEvent, hint="pass JSON values, or bytes you encoded yourself")


def _event_tags(tags: Iterable[str]) -> tuple[str, ...]:
    checked = check_tags(tags, InvalidEvent)
    if len(checked) > MAX_TAGS:
        raise InvalidEvent(
            f"an event has at most {MAX_TAGS} tags, this one has {len(checked)}",
            hint="tag what decisions look for; the rest belongs into the data",
        )
    return checked


def _uuid(value: object) -> UUID:
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidEvent(
            f"an event id is a UUID or its text: {value!r:.80}",
            hint="leave id out to get a new one, or make one of a name: uuid5(NAMESPACE_URL, name)",
        ) from error


def check_metadata(metadata: object) -> dict[str, str]:
    """A copy of the metadata, if events may have it."""
    if not isinstance(metadata, Mapping):
        raise InvalidEvent(
            f"metadata is a mapping of text to text: {metadata!r:.80}", hint='write {"user": "ada"}'
        )
    if TRACKING in metadata:
        raise InvalidEvent(
            f"the metadata name {TRACKING!r} is reserved",
            hint='write store.append(…, tracking=("orders", 17))',
        )
    for name, value in metadata.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidEvent(
                f"metadata is text: {name!r:.40} → {value!r:.40}", hint="convert the value with str()"
            )
    plain = {str.__str__(name): str.__str__(value) for name, value in metadata.items()}
    try:
        msgspec.json.encode(plain)
    except UnicodeError as error:
        raise InvalidEvent(f"metadata is not valid text: {error}", hint="remove lone surrogates") from error
    return plain


def _preview(data: bytes) -> str:
    return repr(data if len(data) <= 60 else data[:57] + b"...")


def restore_event(*values: object) -> Event:
    """The event with these values of its slots, which were those of an event before."""
    event = object.__new__(Event)
    for name, value in zip(Event.__slots__, values, strict=True):
        object.__setattr__(event, name, value)
    return event


if native is not None:
    native.know_events(Event)
