"""What followers tell the log of the application: `logging.getLogger("strandline")`."""

from __future__ import annotations

import logging
from typing import Final, TypeVar

from ..errors import StrandlineError
from .steps import Steps

T = TypeVar("T")

LOGGER: Final = logging.getLogger("strandline")


def logged(name: str, steps: Steps[T]) -> Steps[T]:
    """Take the steps of a run, and log the error that ends it: nobody may wait for the run."""
    try:
        return (yield from steps)
    except GeneratorExit:
        raise
    except Exception as error:
        hint = f"; {error.hint}" if isinstance(error, StrandlineError) and error.hint else ""
        LOGGER.error("follower %r has stopped: %s%s", name, error, hint, exc_info=error)
        raise
