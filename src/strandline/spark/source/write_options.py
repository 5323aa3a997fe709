"""The options of a write, checked."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...append import MAX_DATA_BYTES
from ...errors import InvalidInput
from ...store import EventStore, connect
from .options import Options

PLACE = ("url", "urlEnv", "log")
NAMES = (*PLACE, "orderBy", "staging", "maxDataBytes")


class WriteOptions(msgspec.Struct, frozen=True):
    """What a write was told."""

    source: Options
    order_by: str | None
    staging: str | None
    max_data_bytes: int

    @classmethod
    def of(cls, given: Mapping[str, str]) -> WriteOptions:
        """The options as Spark hands them over: text, with names in any case."""
        values = {name.lower(): value for name, value in given.items()}
        for name in values.keys() - {*map(str.lower, NAMES)}:
            raise InvalidInput(
                f"there is no option {name!r:.80} for a write", hint=f"its options are {', '.join(NAMES)}"
            )
        limit = values.get("maxdatabytes", str(MAX_DATA_BYTES))
        if not limit.isdecimal():
            raise InvalidInput(
                f"the option maxDataBytes is a whole number, not {limit!r:.40}", hint="correct it"
            )
        return cls(
            source=Options.of(
                {name: values[name.lower()] for name in PLACE if name.lower() in values}, PLACE
            ),
            order_by=values.get("orderby"),
            staging=values.get("staging"),
            max_data_bytes=int(limit),
        )

    def connect(self) -> EventStore:
        """The store to write to."""
        address = self.source.place.address
        return connect(address, log=self.source.log, max_data_bytes=self.max_data_bytes)

    def check(self) -> None:
        """See that the store can be written to, before anything is staged."""
        self.connect().close()
