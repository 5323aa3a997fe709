"""The schema of a log: made on first use, brought up to date only when asked; no event is ever changed or dropped."""

from __future__ import annotations

import re

from psycopg import errors as pg

from ...errors import CorruptLog, Forbidden, InvalidInput, NotFound, SchemaMismatch
from ..statements import load
from .address import Address, Log, quoted
from .connection import Connection
from .failures import translated

# Each migration is the files that it runs, with the log's schema as search path; after the last one all functions are made.
MIGRATIONS: dict[str, tuple[str, ...]] = {
    "001 the log": ("schema_001",),
    "002 snapshots": ("schema_002",),
    "003 followers": ("schema_003",),
    "004 types in an index of the events": ("schema_004",),
    "005 retags under every tag of what they changed": ("schema_005",),
    "006 tracked positions, refusals and notes": ("schema_006",),
}
FUNCTIONS = (
    "types_v1",
    "seeks_v1",
    "retag_v2",
    "append_v3",
    "read_v1",
    "count_v1",
    "save_snapshot_v1",
)
LOCK_SECONDS = 30

_PARTS = [
    "log",
    "event",
    "event_by_id",
    "event_by_type",
    "posting",
    "appended_tags",
    "snapshot",
    "follower",
    "dead_letter",
    "tracking",
    "refusal",
    "note",
    *FUNCTIONS,
]


def version() -> int:
    """The schema that this version of Strandline speaks."""
    return len(MIGRATIONS)


def plan(found: int) -> list[str]:
    """The migrations that a log with schema `found` still needs."""
    return list(MIGRATIONS)[found:]


def version_of(connection: Connection, address: Address) -> int:
    """The schema version of the log, 0 if there is none; raises if something else has its place."""
    rows = connection.rows(load(__package__, "schema_state"), (address.schema,))
    if not rows:
        return 0
    ((may_look, has_parts, is_log, _),) = rows
    if not may_look:
        raise Forbidden(
            f"you may not look at {address}",
            hint=f"its owner can grant it: strandline schema --log {address.log} --grant ROLE | psql URL",
        )
    if not has_parts:
        return 0
    if not is_log:
        raise InvalidInput(
            f"the database has a schema {address.schema}, but it is not a Strandline log",
            hint='choose another name: connect(url, log="…")',
        )
    about = connection.rows(address.sql("about_log"))
    if not about:
        raise CorruptLog(f"{address} has lost the row that says which log it is", hint="restore a backup")
    return int(about[0][0])


def check_version(found: int, address: Address) -> None:
    """Refuse a schema that this version of Strandline does not speak."""
    refuse_newer(found, address)
    if found < version():
        raise SchemaMismatch(
            f"{address} has schema {found}, this version of Strandline needs schema {version()}",
            hint=f"run: strandline migrate URL --log {address.log}",
        )


def refuse_newer(found: int, address: Address) -> None:
    """Refuse a schema from the future."""
    if found > version():
        raise SchemaMismatch(
            f"{address} has schema {found}, this version of Strandline knows up to schema {version()}",
            hint="install a newer strandline: pip install -U strandline",
        )


def prepare(connection: Connection, address: Address, *, create: bool) -> None:
    """Make the log if there is none, also if others are at it too."""
    found = version_of(connection, address)
    if found == 0:
        if not create:
            raise NotFound(
                f"there is no {address}", hint="check the URL and log=; strandline append makes a log"
            )
        found = upgrade(connection, address)[1]
    check_version(found, address)


def upgrade(connection: Connection, address: Address) -> tuple[int, int]:
    """Run what is missing in one transaction, one starter at a time; returns the versions before and after."""
    with connection.transaction():
        connection.run(f"set local lock_timeout = '{LOCK_SECONDS}s'")
        connection.rows("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (address.schema,))
        found = version_of(connection, address)
        refuse_newer(found, address)
        if plan(found):
            _refuse_other_encodings(connection, address)
            has_schema = _refuse_foreign_schema(connection, address)
            try:
                connection.run(ddl(address, found, has_schema=has_schema))
            except pg.InsufficientPrivilege as error:
                raise Forbidden(
                    f"you may not make {address}: {error.diag.message_primary}",
                    hint=f"let an owner run: strandline schema --log {address.log} | psql URL; and, to let you use it:"
                    f" strandline schema --log {address.log} --grant ROLE | psql URL",
                ) from error
        return found, max(found, version())


def _refuse_foreign_schema(connection: Connection, address: Address) -> bool:
    """Whether there is a schema. One in which others may make things would let them run as the owner of the log."""
    rows = connection.rows(load(__package__, "schema_state"), (address.schema,))
    if rows and not rows[0][3]:
        raise Forbidden(
            f"the schema {address.schema} belongs to another role, or others may create in it",
            hint=f"let its owner make the log, revoke create on schema {address.identifier}, or choose another log",
        )
    return bool(rows)


def ddl(address: Log, found: int = 0, *, has_schema: bool = False) -> str:
    """What makes a log, or brings one up to date, as one script; run it in a transaction."""
    steps = [file for step in plan(found) for file in MIGRATIONS[step]]
    return "\n".join(
        (
            "" if found or has_schema else f"create schema {address.identifier};",
            f"set local search_path = {address.identifier}, pg_temp;",
            *(load(__package__, file) for file in (*steps, *FUNCTIONS, "rights")),
            f"update log set version = {version()};",
            "set local search_path to default;",
        )
    )


def grants(address: Log, role: str) -> str:
    """What lets a role use the log."""
    name = quoted(role)
    inside_literal = name.replace("'", "''''")
    words = {"name": address.schema, "role": name, "role_text": f"''{inside_literal}''"}
    return re.sub(r"\{(name|role|role_text)\}", lambda found: words[found[1]], address.sql("grants"))


def migrate(address: Address, *, dry_run: bool) -> tuple[int, list[str]]:
    """Bring a log up to date and verify it; returns the schema it had and the steps it needed."""
    with translated(address):
        connection = Connection(address)
        try:
            found = version_of(connection, address)
            if found == 0:
                raise NotFound(f"there is no {address}", hint="check the URL and --log")
            refuse_newer(found, address)
            steps = plan(found)
            if steps and not dry_run:
                upgrade(connection, address)
            if not dry_run:
                verify(connection, address)
        finally:
            connection.close()
    return found, steps


def logs(address: Address) -> list[str]:
    """The names of the logs in the database of an address, as far as the role may use them."""
    with translated(address):
        connection = Connection(address)
        try:
            return [name for (name,) in connection.rows(load(__package__, "logs"))]
        finally:
            connection.close()


def verify(connection: Connection, address: Address) -> None:
    """Make sure that the log has all its parts."""
    check_version(version_of(connection, address), address)
    missing = missing_parts(connection, address)
    if missing:
        raise CorruptLog(
            f"{address} lacks {', '.join(missing)}",
            hint="restore a backup of the database",
        )


def missing_parts(connection: Connection, address: Address) -> list[str]:
    """What the log needs and does not have."""
    asked = {"parts": _PARTS, "schema": address.identifier}
    return [name for (name,) in connection.rows(load(__package__, "verify"), asked)]


def _refuse_other_encodings(connection: Connection, address: Address) -> None:
    ((encoding,),) = connection.rows("select current_setting('server_encoding')")
    if encoding != "UTF8":
        raise InvalidInput(
            f"the database at {address.server} has encoding {encoding}, a log needs UTF8",
            hint="create one: createdb --encoding UTF8 --template template0 DATABASE",
        )
