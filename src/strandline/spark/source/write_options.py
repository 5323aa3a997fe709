"""The options of a write, checked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping

import msgspec

from ...append import MAX_DATA_BYTES
from ...engine.open import DEFAULT_LOG
from ...errors import InvalidInput
from ...store import EventStore, connect
from ..staging.source import refuse_memory

NAMES = ("url", "urlEnv", "log", "orderBy", "staging", "maxDataBytes")


class WriteOptions(msgspec.Struct, frozen=True):
    """What a write was told. The URL may have a password in it, and is never shown."""

    url: str | None
    url_env: str | None
    log: str
    order_by: str | None
    staging: str
    max_data_bytes: int

    @classmethod
    def of(cls, given: Mapping[str, str]) -> WriteOptions:
        """The options as Spark hands them over: text, with names in any case."""
        values = {name.lower(): value for name, value in given.items()}
        for name in values.keys() - {*map(str.lower, NAMES)}:
            raise InvalidInput(
                f"there is no option {name!r:.80} for a write", hint=f"its options are {', '.join(NAMES)}"
            )
        if ("url" in values) == ("urlenv" in values):
            raise InvalidInput(
                "a write needs the option url or urlEnv, and not both",
                hint='.option("url", "postgresql://…"), or .option("urlEnv", "STRANDLINE_URL")',
            )
        limit = values.get("maxdatabytes", str(MAX_DATA_BYTES))
        if not limit.isdecimal():
            raise InvalidInput(
                f"the option maxDataBytes is a whole number, not {limit!r:.40}", hint="correct it"
            )
        return cls(
            url=values.get("url"),
            url_env=values.get("urlenv"),
            log=values.get("log", DEFAULT_LOG),
            order_by=values.get("orderby"),
            staging=values.get("staging", tempfile.gettempdir()),
            max_data_bytes=int(limit),
        )

    def connect(self) -> EventStore:
        """The store to write to."""
        url = self.url or os.environ.get(self.url_env or "")
        if not url:
            raise InvalidInput(
                f"the environment variable {self.url_env} is not set here",
                hint="set it before the Spark session starts",
            )
        refuse_memory(url)
        return connect(url, log=self.log, max_data_bytes=self.max_data_bytes)

    def check(self) -> None:
        """See that the store can be written to, before anything is staged."""
        self.connect().close()

    def __repr__(self) -> str:
        return f"WriteOptions(log={self.log!r}, order_by={self.order_by!r})"
