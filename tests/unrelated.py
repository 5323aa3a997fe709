"""A transaction that has nothing to do with the log, and stays open: as a forgotten shell would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import apsw
import psycopg

from places import Place


@contextmanager
def unrelated_transaction(place: Place) -> Iterator[None]:
    """Open beside the log at `place`, rolled back at the end."""
    begin = _in_file if isinstance(place.url, Path) else _in_database
    with begin(str(place.url)):
        yield


@contextmanager
def _in_file(path: str) -> Iterator[None]:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    connection.execute("begin")
    connection.execute("select count(*) from sqlite_schema").fetchall()
    try:
        yield
    finally:
        connection.execute("rollback")
        connection.close()


@contextmanager
def _in_database(url: str) -> Iterator[None]:
    """It wrote, so it has a transaction id; and its snapshot is older than all that follows."""
    table = f"unrelated_{uuid4().hex[:12]}"
    with psycopg.connect(url) as connection:
        connection.execute(f"create table {table} (n int)")
        connection.commit()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(f"insert into {table} values (1)")
        assert connection.execute("select pg_current_xact_id_if_assigned() is not null").fetchone() == (True,)
        try:
            yield
        finally:
            connection.rollback()
            connection.execute(f"drop table {table}")
