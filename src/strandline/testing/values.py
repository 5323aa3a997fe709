"""Where two JSON values are different: a line for each place, with as much of both as shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, takewhile, zip_longest
from typing import Any, NamedTuple

from ..where import same

LONGEST = 400
"""How many characters of a value are shown."""

MOST_LINES = 20
_BEFORE = 40  # how many equal characters are shown before the first that is not, for orientation


class _Absent(NamedTuple):
    what: str


_NO_FIELD, _NO_ENTRY = _Absent("no such field"), _Absent("no such entry")


def differences(expected: Any, decided: Any) -> Iterator[str]:
    """What is different, place by place: `items.90.n: expected -1, decided 90`."""
    found = _differences("" if isinstance(expected, dict) else "data", expected, decided)
    yield from islice(found, MOST_LINES)
    more = sum(1 for _ in found)
    if more:
        yield f"… and {more} more"


def line(name: str, expected: Any, decided: Any) -> str:
    """Both values; of long ones the part where they begin to differ."""
    texts = _text(expected), _text(decided)
    start = max(0, _equal_at_start(*texts) - _BEFORE) if max(map(len, texts)) > LONGEST else 0
    return f"{name}: expected {shortened(texts[0], start)}, decided {shortened(texts[1], start)}"


def shortened(text: str, start: int = 0) -> str:
    """So much of a text as is shown."""
    end = start + LONGEST
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _differences(path: str, expected: Any, decided: Any) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(decided, dict):
        for name in {**expected, **decided}:
            inner = f"{path}.{name}" if path else name
            yield from _differences(inner, expected.get(name, _NO_FIELD), decided.get(name, _NO_FIELD))
    elif _are_compared_entry_by_entry(expected, decided):
        yield from _of_entries(path, expected, decided)
    elif not same(expected, decided):
        yield line(path or "data", expected, decided)


def _of_entries(path: str, expected: list[Any], decided: list[Any]) -> Iterator[str]:
    start = end = 0
    if len(expected) != len(decided):
        yield f"{path}: expected {len(expected)} entries, decided {len(decided)}"
        start = _equal_at_start(
            expected, decided
        )  # what is too many or missing does not make the others look wrong
        end = _equal_at_start(expected[start:][::-1], decided[start:][::-1])
    rest = expected[start : len(expected) - end], decided[start : len(decided) - end]
    for number, pair in enumerate(zip_longest(*rest, fillvalue=_NO_ENTRY), start):
        yield from _differences(f"{path}.{number}", *pair)


def _are_compared_entry_by_entry(expected: Any, decided: Any) -> bool:
    """Lists of the same length, and those that are too long to be shown."""
    if not isinstance(expected, list) or not isinstance(decided, list):
        return False
    return len(expected) == len(decided) or max(len(repr(expected)), len(repr(decided))) > LONGEST


def _equal_at_start(left: Sequence[Any], right: Sequence[Any]) -> int:
    return sum(1 for _ in takewhile(lambda pair: same(*pair), zip(left, right, strict=False)))


def _text(value: Any) -> str:
    return value.what if isinstance(value, _Absent) else repr(value)
