"""Names of tables as names of folders, safe on every file system and for every reader."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

LONGEST = 120

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def folder_name(name: str, taken: Iterable[str]) -> str:
    """A folder for a table: its name as far as it may stay, and one that no other table has, in any case."""
    text = _UNSAFE.sub(_escaped, name)
    if text[0] in "_.":  # readers would take it for hidden
        text = _escaped_text(text[0]) + text[1:]
    others = {other.lower() for other in taken}
    if len(text) > LONGEST or text.lower() in others:
        text = f"{text[:LONGEST]}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return text


def _escaped(found: re.Match[str]) -> str:
    return _escaped_text(found[0])


def _escaped_text(text: str) -> str:
    return "".join(f"~{byte:02X}" for byte in text.encode())
