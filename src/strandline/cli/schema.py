"""`strandline schema`: the SQL for owners of PostgreSQL databases."""

import sys
from typing import Annotated

import typer

from strandline.engine.maintenance import schema_script
from strandline.engine.open import DEFAULT_LOG

from .options import Json, Log
from .screen import write_json

NAME = "schema"
EXAMPLE = """\
strandline schema --log school > school.sql
strandline schema --log school --grant app"""

Grant = Annotated[
    list[str] | None,
    typer.Option("--grant", metavar="ROLE", help="Print what lets this role use the log; may be repeated."),
]


def run(*, log: Log = DEFAULT_LOG, grant: Grant = None, as_json: Json = False) -> None:
    """Print the SQL that makes a log in PostgreSQL.

    For an owner to run (psql --file), where applications may not make schemas; with --grant, the SQL
    that lets a role read, append and keep followers, and nothing else.
    """
    script = schema_script(log=log, grant=grant or ())
    if as_json:
        write_json({"log": log, "sql": script})
    else:
        sys.stdout.write(script)
