"""Where stores keep their logs: directories of this machine, or databases of one server of ours.

A home has places, each for one log; a place is a directory's path or a database's URL.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import urlsplit

from strandline.testing.postgres import PostgresServer

from .machine import disk_bytes

HomeName = Literal["embedded", "postgres"]

POSTGRES_VERSION = 18
# PostgreSQL's own defaults, which the server for tests has less of, but for min_wal_size (see below); all else is as it comes.
POSTGRES_SETTINGS = {"shared_buffers": "128MB", "synchronous_commit": "on", "min_wal_size": "1GB"}
# A new server makes the files of its write-ahead log as it needs them, each of 16 MiB of zeros, and whoever writes just then waits
# 40 ms for it. One that has been in use for a while uses those again that it has.
WAL_FILES = 48
USE_WAL_FILES = f"""do $$ begin for number in 1 .. {WAL_FILES} loop
    perform pg_logical_emit_message(false, 'bench', ''), pg_switch_wal();
end loop; end $$"""
TELLING_SETTINGS = (
    *("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method"),
    *("shared_buffers", "min_wal_size", "max_wal_size", "autovacuum"),
)


class Home(Protocol):
    """Makes places, copies and removes them."""

    def make(self, name: str) -> str:
        """An empty place."""
        ...

    def copy(self, place: str, name: str) -> str:
        """A place with the same content, all of it flushed: nobody pays for that later."""
        ...

    def settle(self, place: str) -> None:
        """Do to a place that was filled what would happen to it sooner or later."""
        ...

    def remove(self, place: str) -> None:
        """Remove a place that nobody uses any more."""
        ...

    def disk_bytes(self, place: str) -> dict[str, int]:
        """What a place takes on the disk: `bytes`, and details."""
        ...


class Directories:
    """Places are directories."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def make(self, name: str) -> str:
        place = self._directory / name
        place.mkdir()
        return str(place)

    def copy(self, place: str, name: str) -> str:
        target = self._directory / name
        shutil.copytree(place, target)
        for path in target.rglob("*"):
            _flush(path)
        return str(target)

    def settle(self, place: str) -> None:
        """Nothing happens to files."""

    def remove(self, place: str) -> None:
        shutil.rmtree(place)

    def disk_bytes(self, place: str) -> dict[str, int]:
        return disk_bytes(Path(place))


class Databases:
    """Places are databases of a server that runs as long as this does."""

    def __init__(self, directory: Path, *, flushes: bool = True) -> None:
        settings = {**POSTGRES_SETTINGS, "fsync": "on" if flushes else "off"}
        self.server = PostgresServer.start(
            directory / "postgres", version=POSTGRES_VERSION, settings=settings
        )
        for statement in (USE_WAL_FILES, "checkpoint"):
            self.server.run(statement)

    @property
    def pid(self) -> int:
        """The process that starts one for every connection."""
        return int((self.server.data / "postmaster.pid").read_text().split()[0])

    def describe(self) -> Mapping[str, str]:
        """The server's version, and what says how it writes."""
        (version,) = self.server.run("show server_version")
        names = ",".join(f"'{name}'" for name in TELLING_SETTINGS)
        rows = self.server.run(f"select name, current_setting(name) from pg_settings where name in ({names})")
        return {"version": version, **dict(row.split("|") for row in rows)}

    def make(self, name: str) -> str:
        self.server.run(f'create database "{name}"')
        return self.server.url(name)

    def copy(self, place: str, name: str) -> str:
        # By files, between two checkpoints: whatever is measured next begins with nothing to be written.
        self.server.run(f'create database "{name}" template "{_database(place)}" strategy file_copy')
        return self.server.url(name)

    def settle(self, place: str) -> None:
        self.server.run("vacuum (analyze)", database=_database(place))  # as autovacuum would in a minute

    def remove(self, place: str) -> None:
        self.server.run(f'drop database "{_database(place)}" with (force)')

    def disk_bytes(self, place: str) -> dict[str, int]:
        (size,) = self.server.run(
            "select sum(pg_total_relation_size(oid)) from pg_class"
            " where relkind = 'r' and relnamespace::regnamespace::text not in ('pg_catalog', 'information_schema')",
            database=_database(place),
        )
        return {"bytes": int(size)}

    def close(self) -> None:
        """Stop the server."""
        self.server.close()


def _database(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
