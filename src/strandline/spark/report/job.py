"""Making the report."""

from __future__ import annotations

import contextlib
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from ...engine.open import without_password
from ...errors import InvalidInput
from ..audit.tables import open_log, table
from ..failures import failures
from ..frames import events as event_frame
from ..reach import reachable
from . import Reported
from .closeness import closeness
from .figures import figures
from .page import page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("type", "tags", "recorded_at")


def run(spark: SparkSession, url: str, out: str, log: str) -> Reported:
    """Count, draw, and put the page in place whole."""
    began = time.monotonic()
    path = os.path.abspath(out)
    if not os.path.isdir(os.path.dirname(path)) or os.path.isdir(path):
        raise InvalidInput(
            f"{out!r:.200} cannot be written: no such folder", hint="name a file in a folder that exists"
        )
    url = reachable(spark, url)
    engine = open_log(url, log)
    try:
        stats = engine.stats()
    finally:
        engine.close()
    with failures("make the report", "see what Spark says above, and run it again"):
        events = event_frame(spark, url, log=log, until=stats.head, columns=COLUMNS).persist()
        asked = table(spark, "questions", url, log, stats.head).persist()
        try:
            found, close = figures(events), closeness(asked)
        finally:
            events.unpersist()
            asked.unpersist()
    name = os.path.basename(without_password(str(url)).partition("?")[0]) or "log"
    if stats.engine == "postgres":
        name = f"{name}, log {log}"
    _put(path, page(name, stats, found, close, datetime.now(UTC)))
    return Reported(
        path, stats.head, stats.appends, stats.types, stats.tags, round(time.monotonic() - began, 3)
    )


def _put(path: str, text: str) -> None:
    """Write the file whole: whoever looks meanwhile sees the old one."""
    unfinished = f"{path}.{uuid4().hex}.new"
    try:
        with open(unfinished, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
