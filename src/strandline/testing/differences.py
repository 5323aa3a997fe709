"""What is different between what a test expects and what came, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

import msgspec

from ..domain.command import Command
from ..domain.projection import Projection
from ..errors import InvalidInput
from ..event import Event
from .values import differences, line, shortened


def are_alike(expected: Sequence[Event], decided: Sequence[Event]) -> bool:
    """Whether the events are the expected ones, in order."""
    return len(expected) == len(decided) and not any(map(of_event, expected, decided))


def of_events(expected: Sequence[Event], decided: Sequence[Event]) -> list[str]:
    """The events one by one: which are missing, unexpected, or different and in what."""
    return section("", _compared(expected, decided))


def of_event(expected: Event, decided: Event) -> list[str]:
    """What is different between two events, a line for each field."""
    if expected.type != decided.type:
        return [line("type", expected.type, decided.type)]
    lines = list(differences(_data(expected), _data(decided)))
    lines += [
        line(name, getattr(expected, name), getattr(decided, name))
        for name in ("stream", "subject")
        if getattr(expected, name) not in (None, getattr(decided, name))
    ]
    if expected.tags != decided.tags:
        missing = [f"{tag} is missing" for tag in expected.tags if tag not in decided.tags]
        more = [f"{tag} is unexpected" for tag in decided.tags if tag not in expected.tags]
        lines.append(f"tags: {', '.join(missing + more)}")
    return lines


def of_state(state: Projection, expected: Mapping[str, object]) -> list[str]:
    """What is different in a state, and the state; nothing if it is as expected."""
    found = vars(state)
    unknown = expected.keys() - found.keys()
    if unknown or not expected:
        raise InvalidInput(
            f"{type(state).__name__} has no field {min(unknown)}" if unknown else "no field is expected",
            hint=f"its fields are {', '.join(found)}",
        )
    wrong = {name: value for name, value in expected.items() if found[name] != value}
    if not wrong:
        return []
    headline = f"expected another state of {_name(state)}"
    lines = [f"{name}: expected {value!r}, but it is {found[name]!r}" for name, value in wrong.items()]
    return [headline, *section("", lines), *section("The state is", [repr(state)])]


def call(command: Command[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A command and its arguments, as they are written."""
    arguments = [*map(_argument, args), *(f"{name}={_argument(value)}" for name, value in kwargs.items())]
    return f"{command.name.rpartition('.')[2]}({', '.join(arguments)})"


def number(events: Sequence[Event]) -> str:
    """How many there are."""
    return {0: "nothing", 1: "1 event"}.get(len(events), f"{len(events)} events")


def section(title: str, lines: Iterable[str]) -> list[str]:
    """Indented lines under a title; nothing if there are none."""
    indented = [f"  {told}" for told in lines]
    return ["", *([title] if title else []), *indented] if indented else []


def _compared(expected: Sequence[Event], decided: Sequence[Event]) -> Iterator[str]:
    wanted, found = ([_mark(expected, event) for event in events] for events in (expected, decided))
    for kind, first, last, start, end in SequenceMatcher(None, wanted, found, autojunk=False).get_opcodes():
        for old, new in zip_longest(range(first, last), range(start, end)):
            is_pair = old is not None and new is not None
            if is_pair and (kind == "equal" or expected[old].type == decided[new].type):
                yield from _pair(new, expected[old], decided[new])
                continue
            if old is not None:
                yield _entry(old, "missing", expected[old])
            if new is not None:
                yield _entry(new, "unexpected", decided[new])


def _pair(place: int, expected: Event, decided: Event) -> Iterator[str]:
    """What there is to say of two events in the same place; that their marks are the same is not all that counts."""
    lines = of_event(expected, decided)
    yield _entry(place, "different" if lines else "as expected", decided)
    yield from (f"     {told}" for told in lines)


def _mark(expected: Sequence[Event], event: Event) -> object:
    """The same for events that may be alike: the place of the first expected one that is.

    One that is expected in whatever stream is like all in some stream, which are not like one another.
    """
    return next((place for place, other in enumerate(expected) if not of_event(other, event)), event)


def _entry(place: int, verdict: str, event: Event) -> str:
    data = _data(event)
    fields = (
        ", ".join(f"{name}={value!r}" for name, value in data.items())
        if isinstance(data, dict)
        else repr(data)
    )
    tags = f" tagged {', '.join(event.tags)}" if event.tags else ""
    stream = "" if event.stream is None else f" in stream {event.stream!r}"
    subject = "" if event.subject is None else f" with subject {event.subject!r}"
    return f"{place + 1}. {verdict}: {event.type}({shortened(fields)}){tags}{stream}{subject}"


def _data(event: Event) -> Any:
    try:
        return msgspec.json.decode(event.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return event.data


def _argument(value: Any) -> str:
    if isinstance(value, Projection):
        return _name(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_argument, value))}]"
    return f"{value!r:.80}"


def _name(state: Projection) -> str:
    return f"{type(state).__name__}({', '.join(repr(str(value)) for value in state._key())})"
