"""Where the logs under test are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg

import strandline
from strandline import EventStore, connect_async
from strandline.testing.postgres import VARIABLE, VERSIONS

POSTGRES = (*(f"postgres{version}" for version in VERSIONS), *(["postgres-env"] * (VARIABLE in os.environ)))
PostgresUrl = Callable[[str], str]


class Place(NamedTuple):
    """An empty log of some engine: its URL and, in a database of many logs, its name."""

    url: str | Path
    log: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        return {} if self.log is None else {"log": self.log}

    @property
    def is_in_database(self) -> bool:
        return self.log is not None

    @property
    def arguments(self) -> tuple[str, str]:
        """The place for another process: its URL, and its options as JSON."""
        return str(self.url), json.dumps(self.options)

    def another(self) -> Place:
        """Another empty log of the same engine."""
        if self.is_in_database:
            return new_log(str(self.url))
        return self if self.url == "memory:" else Place(Path(self.url).with_name(f"{uuid4()}.db"))

    def connect(self, **options: Any) -> EventStore:
        return strandline.connect(self.url, **self.options, **options)

    def connect_async(self, **options: Any) -> connect_async:
        return strandline.connect_async(self.url, **self.options, **options)


def new_log(url: str) -> Place:
    """A log in the database at `url` that no other test uses."""
    place = Place(url, f"t{uuid4().hex[:12]}")
    if url == os.environ.get(VARIABLE):
        left_in_environment.append(place)
    return place


left_in_environment: list[Place] = []


def clean_environment() -> None:
    """Remove what the tests made in a database that is not theirs."""
    for place in left_in_environment:
        with psycopg.connect(str(place.url), autocommit=True) as connection:
            connection.execute(f"drop schema if exists strandline_{place.log} cascade")
