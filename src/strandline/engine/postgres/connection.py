"""Connections to a server: how they are made, what they run, and what their errors mean."""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.adapt import Transformer
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

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
from ..statements import load
from .address import Address
from .binary import Value

# How long a lost connection is tried again before the caller is told.
RECONNECT_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5

_OWN_PROCESS = load(__package__, "own_process")
_END_PROCESS = load(__package__, "end_process")

_BINARY = Format.BINARY

Parameters = Sequence[Any] | dict[str, Any]


class Connection:
    """One connection. Every call is a transaction of its own, unless `transaction` is open."""

    def __init__(self, address: Address) -> None:
        self._connection = _connect(address)
        self._cursor = self._connection.cursor(binary=True)
        self._loading = Transformer(self._connection)
        self._prepared: dict[str, bytes] = {}
        self._numbers = count()
        # A pooler like pgbouncer gives each transaction another server process, so nothing may be kept there. Elsewhere
        # `call` prepares; psycopg must not, for it would deallocate everything now and then.
        try:
            (self._process,) = self.rows(_OWN_PROCESS)
        except BaseException:
            self.close()
            raise
        self.is_direct = self._process[0] == self._connection.info.backend_pid

    def rows(self, statement: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """All rows that a statement gives."""
        return self._cursor.execute(statement, parameters).fetchall()

    def call(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Like `rows`, for what is called all the time: `$1`, `$2` … stand for the values."""
        data, formats = [value.data for value in values], [_BINARY] * len(values)
        with self._connection.lock:
            if self.is_direct:
                name = self._prepared.get(statement) or self._prepare(statement, values)
                self._connection.pgconn.send_query_prepared(name, data, formats, _BINARY)
            else:
                types = [value.type for value in values]
                self._connection.pgconn.send_query_params(statement.encode(), data, types, formats, _BINARY)
            result = self._result(ExecStatus.TUPLES_OK)
            self._loading.set_pgresult(result)
            return self._loading.load_rows(0, result.ntuples, tuple)

    def _prepare(self, statement: str, values: Sequence[Value]) -> bytes:
        name = f"strandline_{next(self._numbers)}".encode()
        self._connection.pgconn.send_prepare(name, statement.encode(), [value.type for value in values])
        self._result(ExecStatus.COMMAND_OK)
        self._prepared[statement] = name
        return name

    def _result(self, expected: ExecStatus) -> PGresult:
        result: PGresult = self._connection.wait(execute(self._connection.pgconn))[-1]
        if result.status != expected:
            raise pg.error_from_result(result, encoding=self._connection.info.encoding)
        return result

    def run(self, statement: str) -> None:
        """Run statements that give nothing back."""
        self._connection.execute(statement, prepare=False)

    def transaction(self) -> AbstractContextManager[None]:
        """One transaction around several calls: committed at the end, undone by an exception."""
        return self._transaction("begin isolation level read committed")

    def snapshot(self) -> AbstractContextManager[None]:
        """One state of the database for several calls that only read."""
        return self._transaction("begin isolation level repeatable read read only")

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self.run(begin)
        try:
            yield
            self.run("commit")
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                self._connection.rollback()
            raise

    @property
    def is_usable(self) -> bool:
        """Whether it can be used again."""
        return (
            not self._connection.closed and self._connection.info.transaction_status == TransactionStatus.IDLE
        )

    def notifications(self, seconds: float) -> bool:
        """Wait for a notification that this connection listens for; False if none came."""
        return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))

    def end_process(self, other: Connection) -> None:
        """End the server's part of this broken connection through another one; a pooler does that itself."""
        if self.is_direct:
            other.rows(_END_PROCESS, self._process)

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def _connect(address: Address) -> psycopg.Connection[tuple[Any, ...]]:
    try:
        return psycopg.connect(address.conninfo, autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:
        # What is raised is new: this one has the connection, and shows the password to whoever prints it all.
        failure = type(error)(str(error))
    if isinstance(failure, psycopg.ProgrammingError):
        raise _bad_setting(_first_line(failure), address)
    raise failure


class Pauses:
    """The pauses between attempts: they grow, and end after a while."""

    def __init__(self, seconds: float = RECONNECT_SECONDS) -> None:
        self._until = time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    def sleep(self) -> bool:
        """Wait before the next attempt; False if there should be none."""
        if time.monotonic() >= self._until:
            return False
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


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


def translate(
    error: psycopg.Error, address: Address, *, written: bool | None = False
) -> StrandlineError | None:
    """The error to raise instead of one of PostgreSQL's; None to let it pass."""
    said = _first_line(error)
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return _refused_connection(said, address) or Unavailable(
            f"{address.server} does not answer: {said}",
            hint="check that the server runs and the URL is right, then send the same again",
            written=written,
        )
    for kinds, make in _MEANINGS:
        if isinstance(error, kinds):
            return make(said, address)
    if is_lost(error) or isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return Unavailable(f"{address.server} broke off: {said}", written=written)
    return None


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
        (pg.UntranslatableCharacter, pg.CharacterNotInRepertoire),
        lambda said, address: InvalidInput(
            f"the database cannot keep this text: {said}", hint="use a database with encoding UTF8"
        ),
    ),
]


def _bad_setting(said: str, address: Address) -> StrandlineError:
    return InvalidInput(
        f"{address.server} cannot be asked: {said}",
        hint="correct it in the URL, in the environment (PG…) or in the service file",
    )


def _refused_connection(said: str, address: Address) -> StrandlineError | None:
    """What it means if libpq does not like what it was told, or a server answers but lets nobody in."""
    if re.search(
        r"^definition of service|^syntax error in service|(^|failed: )invalid (.+ value|port)", said
    ):
        return _bad_setting(said, address)
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


def _first_line(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error) or type(error).__name__
    line = " ".join(text.split("\n", 1)[0].split())
    return line.removeprefix("connection failed: ").removeprefix("connection is bad: ")


@contextlib.contextmanager
def translated(address: Address) -> Iterator[None]:
    """Raise our errors instead of PostgreSQL's."""
    try:
        yield
    except psycopg.Error as error:
        ours = translate(error, address)
        if ours is None:
            raise
        raise ours from error
