"""The rules for tags, types, streams and subjects: the one place that accepts or refuses them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from .errors import InvalidInput

MAX_NAME = 256
MAX_TAGS = 64
MAX_KEY_BYTES = 1_536  # more would not fit into an index of PostgreSQL, beside a type
MAX_POSITION = 2**63 - 1  # what databases can compare with; no log gets there
RESERVED = "$"
RETAGGED = "$retagged"

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def an(name: str) -> str:
    """Return a name with its article: a Course, an Address."""
    is_spelt = len(name) == 1 or name[:2].isupper()
    return f"{'an' if name.startswith(tuple('AEFHILMNORSXaeo' if is_spelt else 'AEIOaeio')) else 'a'} {name}"


def counted(count: int, thing: str) -> str:
    """Return how many things there are: 1 event, 2 events."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def check_name(value: object, kind: str, error: type[InvalidInput]) -> str:
    """Return `value` if it may be the text of a type, tag, stream or subject."""
    if type(value) is str and 0 < len(value) <= MAX_NAME and value.isascii() and value.isprintable():
        return value
    if not isinstance(value, str):
        several = isinstance(value, (list, tuple, set, frozenset))
        raise error(
            f"a {kind} is a str, not {type(value).__name__}: {value!r:.80}",
            hint=f"give each {kind} by itself, not a list in their place"
            if several
            else f"pass the {kind} as text",
        )
    if not 1 <= len(value) <= MAX_NAME:
        raise error(
            f"a {kind} has 1 to {MAX_NAME} characters, this one has {len(value)}",
            hint=f"shorten the {kind}, or put the long value into the event's data"
            if value
            else f"leave the {kind} out, or give it a text",
        )
    if _FORBIDDEN.search(value):
        raise error(
            f"a {kind} has no control characters and no lone surrogates: {value!r:.80}",
            hint="remove or escape them",
        )
    return value if type(value) is str else str.__str__(value)  # an Enum would format as its own name


def check_own_name(value: object, kind: str, error: type[InvalidInput]) -> str:
    """Like `check_name`, for names that users write: those that start with `$` are the store's own."""
    name = check_name(value, kind, error)
    if name[0] == RESERVED:
        raise error(
            f"a {kind} that starts with {RESERVED!r} is reserved: {name!r:.80}",
            hint=f"choose a {kind} that starts with another character",
        )
    return name


def check_place(value: object, kind: str, error: type[InvalidInput]) -> str:
    """Return a stream or a subject; a TagId means its tag there, too."""
    return check_name(getattr(value, "tag", value), kind, error)


def check_key(value: object, error: type[InvalidInput]) -> str:
    """Return `value` if it may be an idempotency key: like a name, but it may be longer."""
    if not isinstance(value, str) or not value or _FORBIDDEN.search(value):
        raise error(
            f"a key is text without control characters, and not empty: {value!r:.80}",
            hint="shorten it, or use a hash of it",
        )
    size = len(value.encode())
    if size > MAX_KEY_BYTES:
        raise error(
            f"a key has at most {MAX_KEY_BYTES:,} bytes, with the name of its command, this one has {size:,}",
            hint="use a hash of it; or give the command a short name: @command(name=…)",
        )
    return value


def check_flag(value: object, name: str) -> bool:
    """Return `value` if it is True or False: text like "no" would count as true."""
    if value is True or value is False:
        return value
    raise InvalidInput(
        f"{name} is True or False, not {value!r:.40}", hint=f"write {name}=True, or leave it out"
    )


def check_tracking(value: object) -> tuple[str, int]:
    """Return the source and the position that an append tracks."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InvalidInput(
            f"tracking is a source and a position, not {value!r:.80}", hint='write tracking=("orders", 17)'
        )
    source, position = value
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position <= MAX_POSITION:
        raise InvalidInput(
            f"a tracked position is a whole number from 0 to 2**63 - 1, not {position!r:.40}",
            hint="number what you consume: the offset of a Kafka record, the position of an event",
        )
    return check_source(source), int(position)


def check_source(value: object) -> str:
    """Return the name of a source that is tracked."""
    return check_name(value, "source", InvalidInput)


def name_list(values: object, kind: str, error: type[InvalidInput]) -> Sequence[object]:
    """Return `values` as a sequence; a lone string is refused, it would be taken letter by letter."""
    if isinstance(values, (list, tuple)):
        return values
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        shown = (
            values.__name__
            if isinstance(values, type)
            else repr(str(values) if isinstance(values, int) else values)
        )
        raise error(
            f"{kind}s are a list, not {type(values).__name__}: {shown:.80}",
            hint="write []" if values is None else f"write [{shown:.60}]",
        )
    if isinstance(values, Mapping):
        raise error(
            f"{kind}s are a list, not a mapping, whose values would be lost: {values!r:.80}",
            hint='write ["course:c1"], one text for name and value'
            if kind == "tag"
            else f"write a list of {kind}s",
        )
    return list(values)


def check_tags(values: object, error: type[InvalidInput]) -> tuple[str, ...]:
    """Return tags sorted and without repeats; a TagId says itself which tag it is."""
    if values == ():
        return ()
    listed = name_list(values, "tag", error)
    if isinstance(values, (set, frozenset)):
        _refuse_ids(values, error)
    tags = [
        tag
        # Most are beyond doubt, and a call for each would cost more than to see that.
        if type(tag) is str
        and 0 < len(tag) <= MAX_NAME
        and tag.isascii()
        and tag.isprintable()
        and tag[0] != RESERVED
        else check_own_name(_named(tag), "tag", error)
        for tag in listed
    ]
    return tuple(tags) if len(tags) == 1 else tuple(sorted(set(tags)))


def _refuse_ids(tags: Iterable[object], error: type[InvalidInput]) -> None:
    """Refuse a set of ids: of those that have the same text it has kept one, whatever their kinds are."""
    for tag in tags:
        if _named(tag) is not tag:
            raise error(
                f"tags cannot be a set with ids in it: {tag!r:.80} may stand for an id of another kind with this text",
                hint="write a list: tags=[CourseId(…), StudentId(…)]",
            )


def _named(value: object) -> object:
    """The tag that a TagId is; anything else is what it is."""
    tag = None if isinstance(value, type) else getattr(value, "tag", None)
    return tag if isinstance(tag, str) else value


def stream_tag(stream: str) -> str:
    """The reserved tag under which a stream is indexed."""
    return f"$stream:{stream}"


def subject_tag(subject: str) -> str:
    """The reserved tag under which a subject is indexed."""
    return f"$subject:{subject}"


def key_tag(key: str) -> str:
    """The reserved tag under which an idempotency key is indexed."""
    return f"$key:{key}"


def index_tags(
    tags: tuple[str, ...], stream: str | None, subject: str | None, key: str | None
) -> tuple[str, ...]:
    """The tags by which an event is found: its own, its stream's, its subject's, its key's."""
    if stream is None and subject is None and key is None:
        return tags
    of_stream = () if stream is None else (stream_tag(stream),)
    of_subject = () if subject is None else (subject_tag(subject),)
    of_key = () if key is None else (key_tag(key),)
    return (*tags, *of_stream, *of_subject, *of_key)
