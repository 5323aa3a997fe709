"""The schema of a file: made where there is none, refused where it is another version's."""

from __future__ import annotations

import uuid

from ...errors import InvalidInput, SchemaMismatch
from .connection import Connection
from .statements import sql

APPLICATION_ID = 0x5374726C  # "Strl", which `file` and SQLite show
MIGRATIONS = ("schema_001",)
VERSION = len(MIGRATIONS)


def version_of(connection: Connection, path: str) -> int:
    """The schema version of the file, 0 if it is empty; raises if it is something else."""
    ((application,),) = connection.execute("pragma application_id")
    ((version,),) = connection.execute("pragma user_version")
    if application == APPLICATION_ID:
        return int(version)
    ((tables,),) = connection.execute("select count(*) from sqlite_schema")
    if application or version or tables:
        raise InvalidInput(f"{path} is a database, but not a Strandline store", hint="name another file")
    return 0


def check_version(version: int, path: str) -> None:
    """Refuse a schema that this version of Strandline does not speak."""
    if version > VERSION:
        raise SchemaMismatch(
            f"{path} has schema {version}, this version of Strandline knows schema {VERSION}",
            hint="install a newer strandline: pip install -U strandline",
        )
    if version < VERSION:
        raise SchemaMismatch(
            f"{path} has schema {version}, this version of Strandline needs schema {VERSION}",
            hint=f"run: strandline migrate {path}",
        )


def prepare(connection: Connection, path: str) -> None:
    """Make the schema if the file is empty. Call with the file lock held: others may be at it too."""
    if version_of(connection, path) == 0:
        connection.execute("pragma journal_mode = wal")
        apply(connection, MIGRATIONS)
    check_version(version_of(connection, path), path)


def apply(connection: Connection, steps: tuple[str, ...]) -> None:
    """Run migrations in one transaction: all of them, or none."""
    connection.run("begin immediate")
    try:
        for step in steps:
            connection.run(sql(step))
        if steps[0] == MIGRATIONS[0]:
            connection.run("insert into log (one, uuid) values (1, ?1)", (uuid.uuid4().bytes,))
        connection.run(f"pragma application_id = {APPLICATION_ID}")
        connection.run(f"pragma user_version = {VERSION}")
        connection.run("commit")
    finally:
        connection.roll_back()
