"""What Spark says when a job fails, as one clear error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import errors
from ..errors import StrandlineError, Unavailable

_OURS = re.compile(r"^strandline\.errors\.(\w+): (.*?)(?:\nhint: (.*?))?$", re.MULTILINE)


@contextmanager
def failures(what: str, hint: str) -> Iterator[None]:
    """Raise what an executor raised; or say that Spark failed at something, and what to do."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        found = _OURS.search(str(error))
        if found is not None:
            raise error_of(*found.groups()) from error
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Unavailable(f"Spark could not {what}: {first:.300}", hint=hint, written=False) from error


def error_of(name: str, message: str, hint: str | None) -> StrandlineError:
    """The error that an executor met."""
    cls: Any = getattr(errors, name, StrandlineError)
    try:
        error: StrandlineError = cls(message, hint=hint)
    except TypeError:  # one that is made of more than a message
        error = StrandlineError(message, hint=hint)
    return error
