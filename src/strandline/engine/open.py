"""From a URL to an engine."""

from __future__ import annotations

import os
import re
from typing import Literal
from urllib.parse import unquote

import msgspec

from ..errors import InvalidInput, MissingDependency
from . import Clock, Engine
from .memory import MemoryEngine
from .rules import LOCK_SECONDS, Time

DEFAULT_LOG = "default"

_POSTGRES = {"postgresql", "postgres"}
_HTTP = {"http", "https"}
_SECRETS = {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
# As libpq reads a URL: what stands before the first @ is user and password, unless a / comes before it.
_CREDENTIALS = re.compile(r"(\w+://)(?:([^:@/]*)(?::[^@/]*)?@)?([^?]*)(?:\?(.*))?", re.DOTALL)
# What is no file's name, but may hold a password that no message may repeat.
_ALMOST_POSTGRES = re.compile(
    r"\s*(postgres(ql)?(:(?!//)|//)|(host|hostaddr|port|dbname|user|password|service)\s*=)", re.IGNORECASE
)
_ALMOST_HTTP = re.compile(r"\s*https?:(?!//)", re.IGNORECASE)


class Place(msgspec.Struct, frozen=True):
    """Where a log is: which engine reaches it, and the file or the URL of the database or server."""

    engine: Literal["memory", "sqlite", "postgres", "http"]
    address: str

    def __repr__(self) -> str:
        return f"Place({self.engine!r}, {without_password(self.address)!r})"


def open_engine(
    url: str | os.PathLike[str],
    *,
    log: str,
    clock: Clock | None,
    record_conditions: bool,
    create: bool,
    lock_timeout: float = LOCK_SECONDS,
    read_seconds: float | None = None,
    token: str | None = None,
) -> Engine:
    """Open the log at `url`."""
    place, time = place_of(url), Time(clock)
    if place.engine == "http":
        given = (clock is not None, "clock"), (not record_conditions, "record_conditions")
        refuse_options(*given, (lock_timeout != LOCK_SECONDS, "lock_timeout"))
        refuse_options((read_seconds is not None, "read_seconds"))
        require_httptools()
        from .http import HttpEngine

        return HttpEngine(place.address, log=log, token=token)
    refuse_token(token)
    if place.engine == "postgres":
        require_psycopg()
        from .postgres import PostgresEngine

        return PostgresEngine(
            place.address,
            time,
            log=log,
            record_conditions=record_conditions,
            create=create,
            lock_timeout=lock_timeout,
            read_seconds=read_seconds,
        )
    refuse_other_logs(log)
    if place.engine == "memory":
        return MemoryEngine(time, record_conditions=record_conditions, read_seconds=read_seconds)
    from .sqlite import SqliteEngine

    return SqliteEngine(
        place.address,
        time,
        record_conditions=record_conditions,
        create=create,
        lock_timeout=lock_timeout,
        read_seconds=read_seconds,
    )


def logs(url: str | os.PathLike[str], *, token: str | None = None) -> list[str]:
    """The names of the logs at a URL, in order: those of a database or server that you may use, or the one of a file."""
    place = place_of(url)
    if place.engine == "http":
        require_httptools()
        from .http import logs as logs_of_server

        return logs_of_server(place.address, token)
    refuse_token(token)
    if place.engine == "postgres":
        require_psycopg()
        from .postgres.address import Address
        from .postgres.schema import logs as logs_in_database

        return logs_in_database(Address(place.address))
    if place.engine == "sqlite":
        open_engine(url, log=DEFAULT_LOG, clock=None, record_conditions=True, create=False).close()
    return [DEFAULT_LOG]


def place_of(url: str | os.PathLike[str]) -> Place:
    """What a URL means."""
    if not isinstance(url, (str, os.PathLike)):
        raise InvalidInput(
            f"a store is named by text or a path, not {type(url).__name__}",
            hint='for example strandline.connect("school.db")',
        )
    text = os.fsdecode(url)
    if text == "memory:":
        return Place("memory", text)
    scheme, separator, rest = text.partition("://")
    if separator and scheme in _POSTGRES:
        return Place("postgres", text)
    if separator and scheme in _HTTP:
        return Place("http", text)
    if _ALMOST_HTTP.match(text):
        raise InvalidInput("this is not the URL of a store", hint="a server is http://host:port")
    if _ALMOST_POSTGRES.match(text):
        raise InvalidInput(
            "this is not the URL of a store",
            hint="a PostgreSQL database is postgresql://user@host:5432/database",
        )
    if separator and scheme != "sqlite":
        raise InvalidInput(
            f"a store is a file, sqlite:///…, postgresql://…, http://… or memory:, not {scheme}://…",
            hint='for example strandline.connect("school.db")',
        )
    path = rest.removeprefix("/") if separator else text
    if not path or path == ":memory:" or "\0" in path:
        raise InvalidInput(
            f"{text!r} names no file", hint='strandline.connect("memory:") keeps a log in memory'
        )
    return Place("sqlite", _in_utf8(path))


def _in_utf8(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"the name of a file is UTF-8, not {path!r}", hint="give the file another name"
        ) from error
    return path


def refuse_other_logs(log: str) -> None:
    """Files and memory have one log each."""
    if log != DEFAULT_LOG:
        raise InvalidInput(
            f"only a PostgreSQL database has several logs, so there is no log {log!r:.80} here",
            hint="leave log out; each file is a log of its own",
        )


def refuse_server(url: str | os.PathLike[str], what: str) -> None:
    """Refuse the URL of a server for something that is done to the file or the database itself."""
    if place_of(url).engine == "http":
        raise InvalidInput(
            f"Strandline can {what} a file or a database, but not through a server",
            hint="do it where the server runs, with the URL that it serves",
        )


def refuse_options(*given: tuple[bool, str]) -> None:
    """Refuse options of the log, which a client of a server does not set."""
    for is_given, name in given:
        if is_given:
            raise InvalidInput(
                f"{name} belongs to the server that keeps the log",
                hint=f"leave {name} out here, and set it where the server connects to the log",
            )


def refuse_token(token: str | None) -> None:
    """Only a server asks for a token."""
    if token is not None:
        raise InvalidInput(
            "only a server takes a token, this store is none",
            hint='leave token out, or name the server: connect("http://host:4455", token=…)',
        )


def without_password(url: str) -> str:
    """The URL as it may be shown to anybody, and still works where the password comes from elsewhere."""
    if url.partition("://")[0] in _HTTP:
        return _without_credentials(url)
    if url.partition("://")[0] not in _POSTGRES:
        return url
    scheme, user, place, settings = _CREDENTIALS.fullmatch(url).groups()  # type: ignore[union-attr]
    if "@" in place + (settings or ""):  # perhaps the password has an @ or / that is not encoded
        return f"{scheme}…"
    kept = [setting for setting in (settings or "").split("&") if setting and not _is_secret(setting)]
    return f"{scheme}{f'{user}@' if user else ''}{place}{'?' if kept else ''}{'&'.join(kept)}"


def _without_credentials(url: str) -> str:
    """The scheme, the host and the path of the URL of a server: tokens have been put into all the rest."""
    scheme, _, rest = url.partition("://")
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    return f"{scheme}://{place.rpartition('@')[2]}"


def _is_secret(setting: str) -> bool:
    return unquote(setting.partition("=")[0]) in _SECRETS


def require_httptools() -> None:
    """Say what to install if the parser of HTTP is missing."""
    try:
        from . import http  # noqa: F401
    except ImportError as error:
        if (error.name or "").startswith("strandline"):
            raise
        raise MissingDependency(
            f"a server is reached with httptools, which cannot be loaded: {error}",
            hint="pip install 'strandline[http]'",
        ) from error


def require_psycopg() -> None:
    """Say what to install if the driver is missing."""
    try:
        from . import postgres  # noqa: F401
    except ImportError as error:
        if (error.name or "").startswith("strandline"):
            raise
        reason = str(error).partition("\n")[0]
        raise MissingDependency(
            f"PostgreSQL needs the psycopg driver, which cannot be loaded: {reason}",
            hint="pip install 'strandline[postgres]'",
        ) from error
