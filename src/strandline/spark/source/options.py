"""The options of the source, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from ...engine import Engine
from ...engine.open import DEFAULT_LOG, Place, open_engine
from ...errors import InvalidInput
from ...query import Query
from ..reach import kept_place

LATEST = "latest"
COMMON = ("url", "urlEnv", "log", "query", "partitions")
BATCH = (*COMMON, "after", "until", "pushdown")
STREAM = (*COMMON, "startingPosition", "maxEventsPerTrigger")
_OF_SPARK = {"path", "serialization.format"}  # what Spark adds by itself


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a read was told. The URL may have a password in it, and is never shown."""

    url: str | None = None
    url_env: str | None = None
    log: str = DEFAULT_LOG
    query: Query = Query.all()
    after: int = 0
    until: int | None = None
    partitions: int | None = None
    pushdown: bool = False
    starting_position: int | None = 1  # None: what comes after the present head
    max_events_per_trigger: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, str], names: tuple[str, ...] = (*BATCH, *STREAM)) -> Options:
        """The options as Spark hands them over: text, with names in any case."""
        values = {name.lower(): value for name, value in given.items() if name.lower() not in _OF_SPARK}
        for name in values.keys() - {*map(str.lower, names)}:
            raise InvalidInput(
                f"there is no option {name!r:.80} for this read", hint=f"its options are {', '.join(names)}"
            )
        if ("url" in values) == ("urlenv" in values):
            raise InvalidInput(
                "the source needs the option url or urlEnv, and not both",
                hint='.option("url", "postgresql://…"), or .option("urlEnv", "STRANDLINE_URL") where that variable'
                " holds the URL on the driver and on every executor",
            )
        query = values.get("query")
        return cls(
            url=values.get("url"),
            url_env=values.get("urlenv"),
            log=values.get("log", DEFAULT_LOG),
            query=Query.all() if query is None else Query.from_json(query),
            after=_number(values, "after", 0) or 0,
            until=_number(values, "until", 0),
            partitions=_number(values, "partitions", 1),
            pushdown=_flag(values, "pushdown"),
            starting_position=_starting_position(values),
            max_events_per_trigger=_number(values, "maxEventsPerTrigger", 1),
        )

    @property
    def place(self) -> Place:
        """Where the log is, seen from this machine."""
        return kept_place(self._url())

    def open(self) -> Engine:
        """The log."""
        return open_engine(self.place.address, log=self.log, clock=None, record_conditions=True, create=False)

    def _url(self) -> str:
        if self.url is not None:
            return self.url
        found = os.environ.get(self.url_env or "")
        if not found:
            raise InvalidInput(
                f"the environment variable {self.url_env} is not set here",
                hint="set it before the Spark session starts, and on a cluster also for the executors:"
                f" spark.executorEnv.{self.url_env}",
            )
        return found

    def __repr__(self) -> str:
        return f"Options(log={self.log!r}, query={self.query!r}, after={self.after}, until={self.until})"


def _number(values: Mapping[str, str], name: str, least: int) -> int | None:
    text = values.get(name.lower())
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise InvalidInput(
            f"the option {name} is a whole number from {least} on, not {text!r:.80}",
            hint=f'for example .option("{name}", {max(least, 1000)})',
        )
    return number


def _flag(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name.lower(), "false").lower()
    if text not in {"true", "false"}:
        raise InvalidInput(
            f"the option {name} is true or false, not {text!r:.80}", hint=f'.option("{name}", True)'
        )
    return text == "true"


def _starting_position(values: Mapping[str, Any]) -> int | None:
    if values.get("startingposition") == LATEST:
        return None
    return _number(values, "startingPosition", 1) or 1
