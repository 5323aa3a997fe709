"""Where a log is: a server's URL and the name of the log, which is a schema of its own in the database.

The one place that makes an identifier out of a name, and the one that describes a server without its secrets.
"""

from __future__ import annotations

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...errors import InvalidInput
from ..statements import load

MAX_LOG_NAME = 50  # identifiers have at most 63 bytes
CONNECT_SECONDS = 10

_LOG_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
# What libpq does if the URL, a service file or the environment say nothing else.
_DEFAULTS = {
    "application_name": "strandline",
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


class Address:
    """A log on a server."""

    def __init__(self, url: str, log: str = "default") -> None:
        self.log = check_log_name(log)
        self.conninfo, self.server = _parse(url)
        self.schema = f"strandline_{log}"
        self.identifier = quoted(self.schema)

    def sql(self, name: str) -> str:
        """The statement in `sql/<name>.sql`, on this log's schema."""
        return load(__package__, name).replace("{schema}", self.identifier)

    def __str__(self) -> str:
        return f"log {self.log!r} on {self.server}"


def check_log_name(log: object) -> str:
    """Return `log` if it may be the name of a log."""
    if not isinstance(log, str) or len(log) > MAX_LOG_NAME or not _LOG_NAME.fullmatch(log):
        raise InvalidInput(
            f"a log's name has 1 to {MAX_LOG_NAME} lower-case letters, digits, - and _, and begins with a letter or"
            f" digit, not {log!r:.80}",
            hint='for example connect(url, log="tenant-1")',
        )
    return log


def quoted(identifier: str) -> str:
    """An identifier as SQL writes it."""
    if "\0" in identifier or not 1 <= len(identifier.encode()) <= 63:
        raise InvalidInput(f"an identifier has 1 to 63 bytes, not {identifier!r:.80}")
    return '"' + identifier.replace('"', '""') + '"'


def _parse(url: str) -> tuple[str, str]:
    """The connection string, and how to call the server in messages."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        # libpq's own message quotes parts of the URL, and one of them may be the password.
        raise InvalidInput(
            "this is not the URL of a PostgreSQL database",
            hint="write postgresql://user@host:5432/database; percent-encode special characters of the password",
        ) from None
    missing = {name: value for name, value in _DEFAULTS.items() if name not in given}
    host = given.get("host") or given.get("hostaddr") or given.get("service") or "localhost"
    port = f":{given['port']}" if given.get("port") else ""
    return make_conninfo(url, **missing), f"{host}{port}/{given.get('dbname') or ''}"
