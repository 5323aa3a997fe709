"""Where a log is: a server's URL and the name of the log, which is a schema of its own in the database.

The one place that makes an identifier out of a name, and the one that describes a server without its secrets.
"""

from __future__ import annotations

import os
import re

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...errors import InvalidInput
from ..statements import load

MAX_LOG_NAME = 50  # identifiers have at most 63 bytes
CONNECT_SECONDS = 10

_LOG_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
# What libpq does if the URL, a service file or the environment say nothing else.
_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


class Log:
    """A log, whichever database it is in: its name, and the schema that it has to itself."""

    def __init__(self, name: str) -> None:
        self.log = check_log_name(name)
        self.schema = f"strandline_{name}"
        self.identifier = quoted(self.schema)

    def sql(self, name: str) -> str:
        """The statement in `sql/<name>.sql`, on this log's schema."""
        return load(__package__, name).replace("{schema}", self.identifier)

    def __str__(self) -> str:
        return f"log {self.log!r}"


class Address(Log):
    """A log on a server."""

    def __init__(self, url: str, log: str = "default") -> None:
        super().__init__(log)
        self.conninfo, self.server = _parse(url)

    def __str__(self) -> str:
        return f"{super().__str__()} on {self.server}"


def check_log_name(log: object) -> str:
    """Return `log` if it may be the name of a log."""
    if not isinstance(log, str) or len(log) > MAX_LOG_NAME or not _LOG_NAME.fullmatch(log):
        raise InvalidInput(
            f"a log's name has 1 to {MAX_LOG_NAME} lower-case letters, digits, - and _, and begins with a letter or"
            f" digit, not {log!r:.80}",
            hint='for example connect(url, log="tenant-1"), or --log tenant-1',
        )
    return log


def quoted(identifier: str) -> str:
    """An identifier as SQL writes it."""
    if "\0" in identifier or not 1 <= len(identifier.encode(errors="surrogatepass")) <= 63:
        raise InvalidInput(
            f"a name in the database has 1 to 63 bytes, not {identifier!r:.80}", hint="use a shorter name"
        )
    return '"' + identifier.replace('"', '""') + '"'


def _parse(url: str) -> tuple[str, str]:
    """The connection string, and how to call the server in messages."""
    given = _settings(url)
    if given is None:
        raise _misunderstood(url)
    missing = {} if _has_service(given) else {n: v for n, v in _DEFAULTS.items() if n not in given}
    if "PGCONNECT_TIMEOUT" in os.environ:
        missing.pop("connect_timeout", None)
    host = given.get("host") or given.get("hostaddr") or given.get("service") or "localhost"
    port = f":{given['port']}" if given.get("port") else ""
    # Text is sent as UTF-8, whatever role, environment or URL say.
    conninfo = make_conninfo(url, fallback_application_name="strandline", client_encoding="UTF8", **missing)
    return conninfo, f"{host}{port}/{given.get('dbname') or ''}"


def _settings(url: str) -> dict[str, str] | None:
    """What the URL says, None if it makes no sense, or would be misread."""
    given = _understood(url)
    return given if given is not None and all(map(_is_port, _ports(given))) else None


def _understood(url: str) -> dict[str, str] | None:
    """What the URL says, whatever its port is."""
    address, _, _ = url.partition("?")
    _, _, database = address.partition("://")[2].partition("/")
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except (psycopg.Error, UnicodeError):
        return None
    # libpq takes the first @ and the first / as they come, whichever part of a password they are.
    is_misread = "\0" in url or "@" in database or "@" in given.get("host", "")
    return None if is_misread else given


def _misunderstood(url: str) -> InvalidInput:
    """What is wrong with a URL, without a word of libpq's: it quotes parts of it, the password among them."""
    given = _understood(url)
    if given is not None and all(port.removeprefix("-").isdecimal() for port in _ports(given) if port):
        return InvalidInput("a port is a number from 1 to 65,535", hint="correct the port in the URL")
    address, _, settings = url.partition("?")
    if settings and "@" not in settings and _settings(address) is not None:
        return InvalidInput(
            "PostgreSQL does not know what stands after the ? of this URL",
            hint="write name=value with the names of libpq, and & between them: ?sslmode=require&connect_timeout=5",
        )
    return InvalidInput(
        "this is not the URL of a PostgreSQL database",
        hint="write postgresql://user@host:5432/database; in user and password, write @ as %40, / as %2F,"
        " : as %3A and % as %25",
    )


def _ports(given: dict[str, str]) -> list[str]:
    return given.get("port", "").split(",")


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65_536)


def _has_service(given: dict[str, str]) -> bool:
    return "service" in given or "PGSERVICE" in os.environ
