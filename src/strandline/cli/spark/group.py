"""The group of commands."""

import typer

from ..examples import Command, Commands
from . import audit, export, fold, import_events, rebuild, report, retag

NAME = "spark"

app = typer.Typer(
    cls=Commands,
    help="Read the whole log at once, on Apache Spark.",
    epilog="strandline spark export school.db lake",
    rich_markup_mode=None,
    invoke_without_command=True,
)
for module in (fold, rebuild, export, audit, retag, import_events, report):
    app.command(module.NAME, cls=Command, epilog=module.EXAMPLE)(module.run)


@app.callback()
def root(context: typer.Context) -> None:
    """Without a command, show the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
