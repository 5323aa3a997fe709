"""PostgreSQL through ADBC: COPY in binary form, made into Arrow columns in C++."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from ...arrow import Raw
from ...engine.open import require_psycopg
from ...engine.scan import Types
from ...errors import Unavailable
from .options import Options


class Copying:
    """A connection that copies ranges of a log."""

    def __init__(self, connection: Any, errors: Any, address: Any) -> None:
        self._connection = connection
        self._errors = errors
        self._address = address

    def __enter__(self) -> Copying:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()

    def log_and_head(self) -> tuple[str, int]:
        """Which log this is, and its head."""
        ((log, head),) = (
            row
            for batch in self._batches(self._address.sql("log_and_head"))
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        return str(log), int(head)

    def scan(self, names: Sequence[str], after: int, until: int, types: Types) -> Iterator[Raw]:
        """The columns of a range."""
        from ...engine.postgres.scan import scan

        for batch in self._batches(scan(self._address, names, after, until, types)):
            yield dict(zip(names, batch.columns, strict=True))

    def _batches(self, statement: str) -> Iterator[Any]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                yield from cursor.fetch_record_batch()
        except self._errors.Error as error:
            said = str(error).partition("\n")[0]
            raise Unavailable(f"{self._address.server} broke off: {said}", hint="read again") from None


def connect(options: Options) -> Copying | None:
    """A connection; None if there is no driver, or it cannot connect: then psycopg can, or says why not."""
    try:
        from adbc_driver_manager import dbapi as errors
        from adbc_driver_postgresql import dbapi
    except ImportError:
        return None
    require_psycopg()
    from ...engine.postgres.address import Address

    address = Address(options.place.address, options.log)
    try:
        return Copying(dbapi.connect(address.conninfo, autocommit=True), errors, address)
    except errors.Error:
        return None
