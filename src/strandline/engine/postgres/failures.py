"""What PostgreSQL's errors mean: which may pass, and what to tell the caller."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator

import psycopg
from psycopg import errors as pg

from ...errors import (
    CorruptLog,
    Forbidden,
    InvalidInput,
    NotFound,
    SchemaMismatch,
    StrandlineError,
    Unauthorized,
    Unavailable,
)
from .address import Address

_TOO_LONG = ("25P03", "25P04")  # a transaction was idle, or open, longer than the server allows


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection broke, or could not be made for a reason that may pass."""
    if isinstance(error, (pg.AdminShutdown, pg.CrashShutdown, pg.CannotConnectNow, pg.IdleSessionTimeout)):
        return True
    if error.sqlstate is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and _will_pass(
            str(error)
        )
    return error.sqlstate.startswith("08")


def _will_pass(message: str) -> bool:
    # The server's refusals of a connection come without a code; only some of them may pass.
    return "FATAL:" not in message or any(
        word in message
        for word in ("starting up", "shutting down", "recovery", "too many", "slots", "terminating")
    )


def translate(error: psycopg.Error, address: Address, *, written: bool | None = False) -> StrandlineError:
    """The error to raise instead of one of PostgreSQL's."""
    said = first_line(error)
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return _refused_connection(said, address) or Unavailable(
            f"{address.server} does not answer: {said}",
            hint="check that the server runs and the URL is right, then send the same again",
            written=written,
        )
    for kinds, make in _MEANINGS:
        if isinstance(error, kinds):
            return make(said, address)
    if error.sqlstate in _TOO_LONG or isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return Unavailable(f"{address.server} broke off: {said}", written=written)
    return StrandlineError(
        f"{address.server} refused a statement: {said}",
        hint="look into the server's log; strandline doctor URL checks what it needs",
    )


def _forbidden(said: str, address: Address) -> StrandlineError:
    return Forbidden(
        f"{said} ({address})",
        hint=f"the owner of the log can grant it: strandline schema --log {address.log} --grant ROLE | psql URL",
    )


def _read_only(said: str, address: Address) -> StrandlineError:
    return Unavailable(
        f"{address.server} takes no writes: {said}",
        hint="connect to the primary server; replicas serve reads",
    )


def _try_again(said: str, address: Address) -> StrandlineError:
    return Unavailable(f"{address.server} gave up: {said}")


def _full(said: str, address: Address) -> StrandlineError:
    return Unavailable(
        f"{address.server} has no room: {said}", hint="free some space, then send the same again"
    )


def _gone(said: str, address: Address) -> StrandlineError:
    return SchemaMismatch(
        f"{address} is not as this version of Strandline left it: {said}",
        hint=f"run: strandline migrate URL --log {address.log}",
    )


_MEANINGS: list[tuple[tuple[type[psycopg.Error], ...], Callable[[str, Address], StrandlineError]]] = [
    ((pg.InsufficientPrivilege,), _forbidden),
    ((pg.ReadOnlySqlTransaction,), _read_only),
    (
        (pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable, pg.QueryCanceled),
        _try_again,
    ),
    ((pg.DiskFull, pg.OutOfMemory, pg.TooManyConnections, pg.ConfigurationLimitExceeded), _full),
    ((pg.UndefinedTable, pg.UndefinedFunction, pg.UndefinedColumn, pg.InvalidSchemaName), _gone),
    (
        (pg.DataCorrupted, pg.IndexCorrupted),
        lambda said, address: CorruptLog(f"{address} is damaged: {said}"),
    ),
    (
        (pg.ProgramLimitExceeded, pg.StatementTooComplex, pg.TooManyColumns, pg.TooManyArguments),
        lambda said, address: InvalidInput(
            f"{address.server} cannot keep this: {said}",
            hint="shorten the names in it: type, tags, stream, subject, key. Sent again it would fail again",
        ),
    ),
    (
        (pg.UntranslatableCharacter, pg.CharacterNotInRepertoire),
        lambda said, address: InvalidInput(
            f"the database cannot keep this text: {said}", hint="use a database with encoding UTF8"
        ),
    ),
]


def bad_setting(said: str, address: Address) -> StrandlineError:
    """The error for something that libpq was told and does not like."""
    return InvalidInput(
        f"{address.server} cannot be asked: {said}",
        hint="correct it in the URL, in the environment (PG…) or in the service file",
    )


def _refused_connection(said: str, address: Address) -> StrandlineError | None:
    """What it means if libpq does not like what it was told, or a server answers but lets nobody in."""
    if re.search(
        r"^definition of service|^syntax error in service|(^|failed: )invalid (.+ value|port)", said
    ):
        return bad_setting(said, address)
    if found := re.search(r'FATAL: +database "(.+)" does not exist', said):
        return NotFound(
            f"there is no database {found[1]} at {address.server}",
            hint=f"create it: createdb {shlex.quote(found[1])}",
        )
    if re.search(
        r"authentication failed|no password supplied|no pg_hba.conf entry|pg_hba.conf rejects"
        r'|FATAL: +role ".+" (does not exist|is not permitted to log in)',
        said,
    ):
        return Unauthorized(
            f"{address.server} lets nobody in: {said}",
            hint="check user and password: in the URL, in $PGPASSWORD, in ~/.pgpass or in a service file",
        )
    return None


def first_line(error: psycopg.Error) -> str:
    """What an error says, in one line."""
    text = error.diag.message_primary or str(error) or type(error).__name__
    line = " ".join(text.split("\n", 1)[0].split())
    return line.removeprefix("connection failed: ").removeprefix("connection is bad: ")


@contextlib.contextmanager
def translated(address: Address) -> Iterator[None]:
    """Raise our errors instead of PostgreSQL's."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, address) from error
