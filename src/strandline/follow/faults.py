"""Faults of the environment: errors for which no event is to blame, so no event is passed over because of them.

The rule is in this file alone. It goes by what errors carry, not by their classes, so it holds for every driver that a
handler may use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ..domain.signature import WrongCall
from ..errors import (
    CorruptLog,
    FollowerFailed,
    Forbidden,
    MissingDependency,
    SchemaMismatch,
    StoreClosed,
    Unauthorized,
    Unavailable,
)

_OF_THE_STORE = (
    *(Unavailable, StoreClosed, SchemaMismatch, CorruptLog, Forbidden, Unauthorized),
    *(MissingDependency, FollowerFailed, WrongCall),
)
_OF_THE_MACHINE = (ConnectionError, TimeoutError, MemoryError, ImportError)

# Classes and codes of SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
_PASSING_CLASSES = ("08", "40", "53", "57", "58")  # connection, conflicts, resources, operator, system
_PASSING_STATES = ("25006", "55P03", "XX001", "XX002")  # read-only, lock not available, damage
_MISSING_STATES = ("42P01", "42703", "3F000", "42501")  # table, column, schema, right to use it

# https://www.sqlite.org/rescode.html: perm, busy, locked, nomem, readonly, ioerr, corrupt, full, cantopen, protocol, notadb
_PASSING_RESULTS = (3, 5, 6, 7, 8, 10, 11, 13, 14, 15, 26)
_MISSING_TEXTS = ("no such table", "no such column", "no such view", "has no column named")


def being_handled() -> BaseException | None:
    """Return the exception that the caller of a follower handles just now: it has no part in what a handler raises."""
    return sys.exception()


def is_of_the_store(error: BaseException) -> bool:
    """Whether an error of ours says itself that no event is to blame."""
    return isinstance(error, _OF_THE_STORE)


def passing_fault(error: BaseException, outer: BaseException | None) -> BaseException | None:
    """Return the fault of the environment that may pass and that led to an error: full disk, lost connection, no memory."""
    return next((each for each in _chain(error, outer) if _may_pass(each)), None)


def missing_table(error: BaseException, outer: BaseException | None) -> BaseException | None:
    """Return the error of a database that led to an error, if it misses a table, a column, or the right to use one."""
    return next((each for each in _chain(error, outer) if _says_missing(each)), None)


def _chain(error: BaseException, outer: BaseException | None) -> Iterator[BaseException]:
    """The error and those that it came from. Libraries wrap errors of the system: requests, httpx, SQLAlchemy."""
    seen: set[int] = set()
    rest: BaseException | None = error
    while rest is not None and rest is not outer and id(rest) not in seen:
        yield rest
        seen.add(id(rest))
        rest = rest.__cause__ if rest.__suppress_context__ else rest.__context__


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, (*_OF_THE_STORE, *_OF_THE_MACHINE)):
        return True
    if isinstance(error, OSError):  # without a number it is an error of Python code
        return isinstance(error.errno, int)
    if (state := _state(error)) is not None:
        return state.startswith(_PASSING_CLASSES) or state in _PASSING_STATES
    if (result := _result(error)) is not None:
        return result in _PASSING_RESULTS
    return any(kind.__name__ == "OperationalError" for kind in type(error).__mro__)  # PEP 249


def _says_missing(error: BaseException) -> bool:
    return _state(error) in _MISSING_STATES or (
        _result(error) == 1 and any(text in str(error) for text in _MISSING_TEXTS)
    )


def _state(error: BaseException) -> str | None:
    """The SQLSTATE that a driver of PostgreSQL gives to its errors."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else None


def _result(error: BaseException) -> int | None:
    """The primary result code of SQLite, whichever module called it."""
    result = getattr(error, "result", getattr(error, "sqlite_errorcode", None))
    is_of_sqlite = type(error).__module__ in ("apsw", "sqlite3")
    return result & 0xFF if is_of_sqlite and isinstance(result, int) else None
