"""What reaches the terminal: tables of plain text for people, lines of JSON for programs.

Everything that comes from a log is shown as `Text`, never as markup, with its invisible characters
written out: a tag or payload can neither style nor steer the terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from strandline.event import encode_sorted

_BEYOND_ASCII = re.compile("[\x7f-\U0010ffff]")


def for_people(*, as_json: bool) -> bool:
    """Whether to show tables: stdout is a terminal, and nobody asked for JSON."""
    return not as_json and sys.stdout.isatty()


def console(*, stderr: bool = False) -> Console:
    """Where results go."""
    # Rich alone would still print bold and dim under NO_COLOR.
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, color_system=colors, highlight=False, markup=False, emoji=False)


def messages() -> Console:
    """Where everything else goes: progress, hints, errors."""
    return console(stderr=True)


def visible(text: str) -> str:
    r"""The text with what a terminal would act on, or hide, written out: an escape becomes `\x1b`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def visible_bytes(data: bytes, most: int) -> str:
    """The beginning of some bytes as visible text."""
    return visible(data[:most].decode("utf-8", "backslashreplace"))


def plain(value: object, style: str = "") -> Text:
    """A cell or line: never markup, nothing invisible."""
    return Text(visible(str(value)), style=style)


def say(message: Text, *, is_command: bool = False) -> None:
    """Tell something that is not a result; wrapped at words on a terminal, unless people will copy it."""
    where = messages()
    where.print(message, soft_wrap=is_command or not where.is_terminal)


def note(message: str) -> None:
    """Remark something in passing."""
    say(plain(message, "dim"))


def write_json(value: object) -> None:
    """A result as one line of JSON."""
    write_line(encode_sorted(value) + b"\n")


def write_line(line: bytes) -> None:
    """A line of JSON, as it is; on a terminal with invisible characters written as JSON escapes."""
    if sys.stdout.isatty():
        line = _BEYOND_ASCII.sub(_json_escape, line.decode()).encode()
    sys.stdout.buffer.write(line)


def facts(rows: Iterable[tuple[str, object]]) -> None:
    """A table of names and values."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(plain(name.replace("_", " "), "dim"), plain(_shown(value)))
    console().print(table)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """Show a table."""
    console().print(table_of(headings, rows, title=title))


def table_of(headings: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> Table:
    """A table; numbers are aligned to the right. A cell that is `Text` already keeps its style."""
    listed = [list(row) for row in rows]
    shown = Table(
        box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, show_edge=False
    )
    for column, heading in enumerate(headings):
        numbers = bool(listed) and all(isinstance(row[column], int) for row in listed)
        shown.add_column(Text(heading), justify="right" if numbers else "left", overflow="fold")
    for row in listed:
        shown.add_row(*(cell if isinstance(cell, Text) else plain(_shown(cell)) for cell in row))
    return shown


def size(count: int) -> str:
    """A number of bytes for people."""
    amount = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{count} bytes" if unit == "bytes" else f"{amount:,.1f} {unit}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def _json_escape(found: re.Match[str]) -> str:
    char = found.group()
    return char if char.isprintable() else json.dumps(char)[1:-1]
