"""Commands whose `--help` ends with an example."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from .failure import leave_closed_pipe


class _EndsWithExample:
    """The epilog holds command lines; they are shown as they are, never as markup or wrapped."""

    epilog: str | None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, then the example."""
        lines, self.epilog = self.epilog or "", None
        try:
            super().format_help(ctx, formatter)  # type: ignore[misc]
        finally:
            self.epilog = lines
        formatter.write("\nExample:\n" + "".join(f"  {line}\n" for line in lines.splitlines()))


class Command(_EndsWithExample, TyperCommand):
    """A command."""


class Commands(_EndsWithExample, TyperGroup):
    """All commands."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; that its reader has gone away is no failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            leave_closed_pipe()
            return None
