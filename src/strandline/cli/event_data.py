"""The data of an event as the command line gives it: text, a file, or what is piped in."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec

from strandline import InvalidEvent, InvalidInput


def event_data(text: str | None, *, raw: bool) -> bytes:
    """The bytes to store; unless `raw`, they must be JSON."""
    data = _given(text)
    if raw:
        return data
    data = data.strip() or (b"{}" if text is None else b"")
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidEvent(
            f"DATA is not JSON: {error}",
            hint="""quote it for the shell: '{"course": "c1"}', or add --bytes""",
        ) from error
    return data


def is_data(word: str) -> bool:
    """Return whether a word of the command line can only be DATA: JSON, @FILE, or - for stdin."""
    if word == "-" or word.startswith("@"):
        return True
    try:
        msgspec.json.decode(word)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def piped_in() -> BinaryIO:
    """What is piped in."""
    if sys.stdin is None:  # closed by the caller: strandline … <&-
        raise InvalidInput("stdin is closed", hint="pipe something in, or name a file")
    return sys.stdin.buffer


def _given(text: str | None) -> bytes:
    if text == "-" or (text is None and _is_piped()):
        return piped_in().read()
    if text is None:
        return b""
    return Path(text[1:]).read_bytes() if text.startswith("@") else os.fsencode(text)


def _is_piped() -> bool:
    # A terminal or /dev/null gives no data; waiting there would look like hanging.
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
