"""Errors as the statuses and details that UmaDB's clients know."""

from __future__ import annotations

import logging
from enum import IntEnum

from ...errors import (
    AppendConditionFailed,
    CorruptLog,
    EventIdConflict,
    Forbidden,
    InvalidInput,
    StoreClosed,
    StrandlineError,
    TrackingConflict,
    Unauthorized,
    Unavailable,
)
from ..problem import InternalError, ShuttingDown
from .messages import umadb
from .requests import MalformedUuid

_logger = logging.getLogger("strandline.server")


class Status(IntEnum):
    """The status codes of gRPC that are answered here."""

    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


_Kind = umadb.ErrorResponse.ErrorType
_TABLE: tuple[tuple[type[StrandlineError], Status, str], ...] = (
    (MalformedUuid, Status.DATA_LOSS, "CORRUPTION"),
    (AppendConditionFailed, Status.FAILED_PRECONDITION, "INTEGRITY"),
    (EventIdConflict, Status.FAILED_PRECONDITION, "INTEGRITY"),
    (TrackingConflict, Status.FAILED_PRECONDITION, "INTEGRITY"),
    (InvalidInput, Status.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    (Unauthorized, Status.UNAUTHENTICATED, "AUTHENTICATION"),
    (Forbidden, Status.PERMISSION_DENIED, "AUTHENTICATION"),
    (CorruptLog, Status.DATA_LOSS, "CORRUPTION"),
    (Unavailable, Status.UNAVAILABLE, "IO"),
    (StoreClosed, Status.UNAVAILABLE, "IO"),
    (ShuttingDown, Status.UNAVAILABLE, "IO"),
    (StrandlineError, Status.INTERNAL, "INTERNAL"),
)
"""The first row whose class fits counts."""


class Refusal(Exception):
    """What a call is answered with instead of a message. `details` is an `ErrorResponse`, or empty."""

    def __init__(self, status: Status, message: str, details: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.details = details


def refusal_of(error: Exception) -> Refusal:
    """Return what to answer for an error."""
    if isinstance(error, Refusal):
        return error
    if not isinstance(error, StrandlineError):
        _logger.error("a gRPC call failed unexpectedly", exc_info=error)
        error = InternalError("the server failed unexpectedly")
    status, kind = next((status, kind) for of, status, kind in _TABLE if isinstance(error, of))
    message = f"{error}. Hint: {error.hint}" if error.hint else str(error)
    details = umadb.ErrorResponse(message=message, error_type=_Kind.Value(kind))
    return Refusal(status, message, details.SerializeToString())
