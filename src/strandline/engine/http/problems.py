"""Problem documents, and the errors that they tell of: the same that an embedded store raises."""

from __future__ import annotations

from typing import Any

import msgspec

from ... import errors
from ...append import AppendCondition
from ...errors import (
    AppendConditionFailed,
    Forbidden,
    InvalidInput,
    NotFound,
    StoreClosed,
    StrandlineError,
    TrackingConflict,
    Unauthorized,
    Unavailable,
)
from .forms import EventForm

PROBLEM = "application/problem+json"
_BY_CODE: dict[str, type[StrandlineError]] = {
    each.code: each for each in (getattr(errors, name) for name in errors.__all__)
}


class Problem(msgspec.Struct):
    """A problem document (RFC 9457) of the server."""

    code: str
    detail: str
    status: int = 500
    hint: str = ""
    retry: str = "no"
    written: bool | msgspec.UnsetType | None = msgspec.UNSET
    tracked: int | None = None
    part: dict[str, Any] | None = None
    conflict: EventForm | None = None
    conflicts: list[EventForm] = []
    complete: bool = False
    condition: dict[str, Any] | None = None

    @property
    def is_transient(self) -> bool:
        """Whether the server did nothing and may be asked again: its own errors, such as that it is about to end."""
        return self.retry == "same" and self.code not in _BY_CODE

    def error(self, tracking: tuple[str, int] | None = None, *, changes: bool = True) -> StrandlineError:
        """Return the error. `tracking` is that of the append that it refuses."""
        kind = _BY_CODE.get(self.code)
        if kind is AppendConditionFailed and self.conflict is not None and self.part is not None:
            return self._condition_failed(self.conflict, self.part)
        if kind is TrackingConflict and self.tracked is not None and tracking is not None:
            source, position = tracking
            return TrackingConflict(source=source, position=position, tracked=self.tracked)
        if kind is None or kind in _WITH_MORE:
            kind = Unavailable if self.status >= 500 else _BY_STATUS.get(self.status, InvalidInput)
        if kind is Unavailable or kind is StoreClosed:  # it is the server's store that is closed
            return self._unavailable(changes=changes)
        return kind(self.detail, hint=self.hint)

    def _condition_failed(self, conflict: EventForm, part: dict[str, Any]) -> AppendConditionFailed:
        return AppendConditionFailed(
            conflict=conflict.event(),
            part=AppendCondition.from_fields(part),
            conflicts=tuple(each.event() for each in self.conflicts),
            complete=self.complete,
            condition=None if self.condition is None else AppendCondition.from_fields(self.condition),
            hint=self.hint,
        )

    def _unavailable(self, *, changes: bool) -> Unavailable:
        written = (None if changes else False) if self.written is msgspec.UNSET else self.written
        return Unavailable(self.detail, hint=self.hint or None, written=written)


_DECODER = msgspec.json.Decoder(Problem)
_WITH_MORE = (AppendConditionFailed, TrackingConflict)
_BY_STATUS: dict[int, type[StrandlineError]] = {401: Unauthorized, 403: Forbidden, 404: NotFound}


def decode_problem(line: bytes) -> Problem | None:
    """Return a problem document, None if it is none of ours."""
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
