"""What went wrong, in one style, and the exit code that goes with it."""

from __future__ import annotations

import os
import re
import sys

import msgspec
import typer
from rich.text import Text

from strandline.engine.open import without_password
from strandline.errors import AppendConditionFailed, StrandlineError

from .screen import say, visible

REFUSED = 1
USAGE = 2
INTERRUPTED = 130

_URL = re.compile(r"(?:postgres(?:ql)?:/|https?:)[^\s'\")]+")


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as `--json` shows it; `conflict` is the position that refused an append."""

    code: str
    message: str
    hint: str
    retry: str
    conflict: int | None = None


def report(error: Exception, *, as_json: bool) -> int:
    """Show the error on stderr and return the exit code."""
    failure = _failure(error)
    if as_json:
        sys.stderr.write(msgspec.json.encode(failure).decode() + "\n")
    else:
        _print_line("error: ", "bold red", failure.message)
        if failure.hint:
            _print_line("hint: ", "bold cyan", failure.hint, is_command="run: " in failure.hint)
    return error.exit_code if isinstance(error, StrandlineError) else USAGE


def warn(code: str, message: str, hint: str, *, as_json: bool) -> None:
    """Show on stderr what went well, but not as one may expect."""
    if as_json:
        sys.stderr.write(msgspec.json.encode(Failure(code, message, hint, "no")).decode() + "\n")
    else:
        _print_line("warning: ", "bold yellow", message)
        _print_line("hint: ", "bold cyan", hint)


def leave_closed_pipe() -> None:
    """Let the interpreter end quietly although nobody reads its output any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failure(error: Exception) -> Failure:
    if isinstance(error, AppendConditionFailed):
        return _described(error, error.conflict.position)
    if isinstance(error, StrandlineError):
        return _described(error, None)
    if isinstance(error, typer.TyperException):
        return Failure("usage", _repeatable(error.format_message()), _usage_hint(error), "no")
    return Failure("os_error", _repeatable(_os_message(error)), "", "no")


def _described(error: StrandlineError, conflict: int | None) -> Failure:
    return Failure(error.code, _repeatable(str(error)), _repeatable(error.hint), error.retry, conflict)


def _repeatable(words: str) -> str:
    """What may be shown of words that may come from the command line, where a password may be."""
    return visible(_URL.sub(_without_password, words))


def _without_password(found: re.Match[str]) -> str:
    if "://" in found[0]:
        return without_password(found[0])
    # As a file's name it has lost a slash, and nobody can tell its parts.
    return "http:…" if found[0].startswith("http") else "postgresql:…"


def _print_line(label: str, style: str, message: str, *, is_command: bool = False) -> None:
    say(Text.assemble((label, style), message), is_command=is_command)


def _usage_hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"run: {context.command_path if context else 'strandline'} --help"


def _os_message(error: Exception) -> str:
    reason, path = getattr(error, "strerror", None), getattr(error, "filename", None)
    return (
        f"{reason or error}: {os.fsdecode(path)}" if isinstance(path, str | bytes) else str(reason or error)
    )
