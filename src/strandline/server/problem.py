"""Errors as problem documents (RFC 9457), made from the table in `strandline.errors`."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from math import ceil
from typing import Any

import msgspec

from ..append import AppendCondition
from ..errors import (
    AppendConditionFailed,
    InvalidInput,
    StrandlineError,
    TrackingConflict,
    Unavailable,
)
from ..event import SequencedEvent, encode_sorted

_logger = logging.getLogger("strandline.server")
_PATH = re.compile(r" - at `(?:key in )?([^`]*)`$")
_NAMED_FIELD = re.compile(r"(?:unknown|missing required) field `([^`]*)`")
PROBLEM = "application/problem+json"
RETRY_AFTER_SECONDS = 1


class MethodNotAllowed(StrandlineError):
    """The path exists, but not with this method."""

    code = "method_not_allowed"
    status = 405

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message, hint=f"use {allowed}")
        self.allowed = allowed


class UnsupportedMediaType(StrandlineError):
    """The body has a form that this request does not take."""

    code = "unsupported_media_type"
    status = 415


class UnsupportedCoding(UnsupportedMediaType):
    """The body is packed in a way that this server cannot unpack."""


class RequestTimeout(StrandlineError):
    """The body of the request did not arrive in time. Nothing was written."""

    code = "request_timeout"
    retry = "same"
    status = 408
    hint = "send the whole request again"


class BadRequest(StrandlineError):
    """The request is not valid HTTP."""

    code = "bad_request"
    status = 400
    hint = "send requests as RFC 9112 has them, or look at what stands between you and the server"


class HeadTooLarge(StrandlineError):
    """The head of the request is too large, or has too many headers."""

    code = "head_too_large"
    status = 431
    hint = "send a long query in the body of POST …/read"


class TooManyRequests(StrandlineError):
    """The caller sends more requests than the server allows."""

    code = "too_many_requests"
    retry = "same"
    status = 429
    hint = "wait as long as Retry-After says, then send the same request again"

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Overloaded(StrandlineError):
    """The server has as much to do as it takes on. Nothing was written."""

    code = "overloaded"
    retry = "same"
    status = 503
    hint = "wait as long as Retry-After says, then send the same request again"


class ShuttingDown(StrandlineError):
    """The server is about to end. Nothing was written."""

    code = "shutting_down"
    retry = "same"
    status = 503
    hint = "send the same request again, to the server that takes over"


class TooManyStreams(StrandlineError):
    """The server has as many live streams as it takes."""

    code = "too_many_streams"
    retry = "same"
    status = 429
    hint = "try again when others have ended, or raise the limit of the server"


class InternalError(StrandlineError):
    """The server failed in a way that it did not foresee."""

    code = "internal_error"
    status = 500
    hint = "the log of the server has the details"


HTTP_ERRORS: tuple[type[StrandlineError], ...] = (
    MethodNotAllowed,
    UnsupportedMediaType,
    RequestTimeout,
    BadRequest,
    HeadTooLarge,
    TooManyRequests,
    Overloaded,
    ShuttingDown,
    TooManyStreams,
    InternalError,
)


class AtField(Exception):
    """An error together with the path of the field that caused it."""

    def __init__(self, error: StrandlineError, path: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.path = path


def wrong_shape(error: Exception, *, hint: str) -> AtField:
    """Return the 422 for input that msgspec refused, with the path of the field."""
    message = str(error) or type(error).__name__
    if isinstance(error, RecursionError):
        message = "it is nested too deeply"
    found = _PATH.search(message)
    path = found[1] if found else "$"
    field = _NAMED_FIELD.search(message)
    if field:
        path = f"{path}.{field[1]}"
    return AtField(InvalidInput(_PATH.sub("", message), hint=hint), path)


def status_of(error: Exception) -> int:
    """Return the status of the answer for an error."""
    if isinstance(error, AtField):
        error = error.error
    return error.status if isinstance(error, StrandlineError) else 500


def code_of(error: Exception) -> str:
    """Return the code of the problem document of an error."""
    if isinstance(error, AtField):
        error = error.error
    return error.code if isinstance(error, StrandlineError) else InternalError.code


def headers_of(error: Exception) -> list[tuple[bytes, bytes]]:
    """Return the headers that the answer for an error has beyond the usual ones."""
    status = status_of(error)
    if isinstance(error, MethodNotAllowed):
        return [(b"allow", error.allowed.encode())]
    if isinstance(error, UnsupportedCoding):
        return [(b"accept-encoding", b"zstd, gzip")]
    if status == 401:
        return [(b"www-authenticate", b"Bearer")]
    if status in {429, 503}:
        seconds = error.seconds if isinstance(error, TooManyRequests) else RETRY_AFTER_SECONDS
        return [(b"retry-after", b"%d" % max(1, ceil(seconds)))]
    return []


def problem_of(error: Exception, *, docs: str = "/docs") -> dict[str, Any]:
    """Return the problem document of an error; `docs` is the address of the page that explains the codes."""
    path = None
    if isinstance(error, AtField):
        path, error = error.path, error.error
    if not isinstance(error, StrandlineError):
        _logger.error("a request failed unexpectedly", exc_info=error)
        error = InternalError("the server failed unexpectedly")
    problem: dict[str, Any] = {
        "type": f"{docs}#{error.code}",
        "title": title_of(error.code),
        "status": status_of(error),
        "detail": str(error),
        "code": error.code,
        "hint": error.hint,
        "retry": error.retry,
    }
    if path is not None:
        problem["path"] = path
    if isinstance(error, Unavailable):
        problem["written"] = error.written
    if isinstance(error, TrackingConflict):
        problem["tracked"] = error.tracked
    if isinstance(error, AppendConditionFailed):
        problem |= _conflict_fields(error)
    return problem


def encode_problem(error: Exception, *, docs: str) -> bytes:
    """Return the problem document of an error as one line of JSON, without the newline."""
    return msgspec.json.encode(problem_of(error, docs=docs))


def title_of(code: str) -> str:
    """Return the title of a code: the same words for every problem of its kind."""
    return code.replace("_", " ").capitalize()


def _conflict_fields(error: AppendConditionFailed) -> Mapping[str, Any]:
    return {
        "part": raw_condition(error.part),
        "conflict": raw_event(error.conflict),
        "conflicts": [raw_event(event) for event in error.conflicts or (error.conflict,)],
        "complete": error.complete,
        "condition": raw_condition(error.condition),
    }


def raw_event(event: SequencedEvent) -> msgspec.Raw:
    """Return an event in its JSON form, to be embedded."""
    return msgspec.Raw(event.to_line())


def raw_condition(condition: AppendCondition | None) -> msgspec.Raw:
    """Return a condition in its JSON form, to be embedded."""
    return msgspec.Raw(b"null" if condition is None else condition.to_json().encode())


def encode_fields(fields: Mapping[str, Any]) -> bytes:
    """Return an answer's fields as JSON."""
    return encode_sorted(fields)
