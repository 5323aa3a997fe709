"""The `strandline` command: its subcommands, its errors, its exit code."""

import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import strandline
from strandline import StrandlineError

from . import (
    append,
    backup,
    check,
    followers,
    head,
    migrate,
    models,
    read,
    run_application,
    schema,
    serve,
    stats,
    tail,
    token,
)
from .demo import command as demo
from .doctor import command as doctor
from .examples import Command, Commands
from .failure import INTERRUPTED, leave_closed_pipe, report
from .spark import group as spark

app = typer.Typer(
    name="strandline",
    cls=Commands,
    help="An event store in which the consistency boundary of a decision is a query.",
    epilog='strandline demo\nstrandline append school.db CourseDefined \'{"course": "c1"}\' --tag course:c1',
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)
for module in (
    append,
    read,
    tail,
    head,
    stats,
    check,
    backup,
    migrate,
    schema,
    doctor,
    demo,
    run_application,
    serve,
):
    app.command(module.NAME, cls=Command, epilog=module.EXAMPLE)(module.run)
for group in (followers, models, token, spark):
    app.add_typer(group.app, name=group.NAME)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        typer.echo(f"strandline {strandline.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Without a command, show the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors are shown, not raised."""
    as_json = "--json" in arguments
    logging.getLogger("strandline").addHandler(
        logging.NullHandler()
    )  # commands say themselves what went wrong
    _prepare_streams()
    try:
        code = app(list(arguments), prog_name="strandline", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        leave_closed_pipe()
        return 0
    except (StrandlineError, typer.TyperException, OSError) as error:
        return report(error, as_json=as_json)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _prepare_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: strandline … >&-
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
