"""What Spark says when a job fails, as one clear error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import errors
from ..errors import MissingDependency, StrandlineError, Unavailable

EXTRA = "pip install 'strandline[spark]'"

_OURS = re.compile(r"^strandline\.errors\.(\w+): (.*?)(?:\nhint: (.*?))?$", re.MULTILINE)
_REASON = re.compile(r"^.*\w+(?:Exception|Error): (.*)$", re.MULTILINE)


def require_pyspark() -> None:
    """Raise if PySpark is not installed."""
    try:
        import py4j.protocol  # noqa: F401
        import pyspark.sql  # noqa: F401
    except ImportError as error:
        raise MissingDependency("PySpark is not installed", hint=EXTRA) from error


@contextmanager
def failures(what: str, hint: str) -> Iterator[None]:
    """Raise what an executor raised; or say that Spark failed at something, and what to do."""
    require_pyspark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise translated(str(error), what, hint) from error


def translated(said: str, what: str, hint: str) -> StrandlineError:
    """What Spark said, with all its traces, as an error of ours."""
    ours = _OURS.search(said)
    if ours is not None:
        return error_of(*ours.groups())
    found = _REASON.search(said)
    reason = found[1] if found else next(iter(said.split("\n")))
    return Unavailable(f"Spark could not {what}: {reason.strip():.300}", hint=hint, written=False)


def error_of(name: str, message: str, hint: str | None) -> StrandlineError:
    """The error that an executor met."""
    cls: Any = getattr(errors, name, StrandlineError)
    try:
        error: StrandlineError = cls(message, hint=hint)
    except TypeError:  # one that is made of more than a message
        error = StrandlineError(message, hint=hint)
    return error
