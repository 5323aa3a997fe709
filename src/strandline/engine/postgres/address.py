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
        # Raised out here, and without a word of libpq's: it quotes parts of the URL, the password among them.
        raise InvalidInput(
            "this is not the URL of a PostgreSQL database",
            hint="write postgresql://user@host:5432/database; in user and password, write @ as %40, / as %2F,"
            " : as %3A and % as %25",
        )
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
    address, _, _ = url.partition("?")
    _, _, database = address.partition("://")[2].partition("/")
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except (psycopg.Error, UnicodeError):
        return None
    # libpq takes the first @ and the first / as they come, whichever part of a password they are.
    is_misread = "\0" in url or "@" in database or "@" in given.get("host", "")
    ports = given.get("port", "").split(",")
    return given if not is_misread and all(map(_is_port, ports)) else None


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65_536)


def _has_service(given: dict[str, str]) -> bool:
    return "service" in given or "PGSERVICE" in os.environ
