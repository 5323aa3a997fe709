"""What went wrong, in one style, and the exit code that goes with it."""

from __future__ import annotations

import os
import sys

import typer
from rich.text import Text

from strandline.errors import AppendConditionFailed, StrandlineError
from strandline.event import encode_sorted

from .screen import messages, visible

REFUSED = 1
USAGE = 2
INTERRUPTED = 130


def report(error: Exception, *, as_json: bool) -> int:
    """Show the error on stderr and return the exit code."""
    if isinstance(error, StrandlineError):
        return _show(error.code, str(error), error.hint, error.exit_code, error, as_json=as_json)
    if isinstance(error, typer.TyperException):
        return _show("usage", error.format_message(), _usage_hint(error), USAGE, error, as_json=as_json)
    return _show("os_error", _os_message(error), "", USAGE, error, as_json=as_json)


def leave_closed_pipe() -> None:
    """Let the interpreter end quietly although nobody reads its output any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(code: str, message: str, hint: str, exit_code: int, error: Exception, *, as_json: bool) -> int:
    if as_json:
        fields = {"code": code, "message": message, "hint": hint, "retry": getattr(error, "retry", "no")}
        if isinstance(error, AppendConditionFailed):
            fields["conflict"] = error.conflict.position
        sys.stderr.write(encode_sorted(_encodable(fields)).decode() + "\n")
        return exit_code
    _line("error: ", "bold red", message)
    if hint:
        _line("hint: ", "bold cyan", hint)
    return exit_code


def _line(label: str, style: str, message: str) -> None:
    messages().print(Text.assemble((label, style), visible(message)), soft_wrap=True)


def _encodable(fields: dict[str, object]) -> dict[str, object]:
    return {name: visible(value) if isinstance(value, str) else value for name, value in fields.items()}


def _usage_hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"run: {context.command_path if context else 'strandline'} --help"


def _os_message(error: Exception) -> str:
    reason, path = getattr(error, "strerror", None), getattr(error, "filename", None)
    return f"{reason or error}: {os.fsdecode(path)}" if isinstance(path, str | bytes) else str(reason or error)
