"""Everything that can go wrong, as one tree and one table.

    StrandlineError
    ├── AppendConditionFailed      a matching event is newer than the decision
    ├── EventIdConflict            an event id is already taken
    ├── IdempotencyKeyReused       a command was done with this key, and with other arguments
    ├── InvalidInput (ValueError)
    │   ├── InvalidEvent
    │   ├── InvalidQuery
    │   ├── PayloadTooLarge
    │   └── TrackingConflict       an upstream position is not newer than the one that is stored
    ├── NotFound
    ├── Unauthorized
    ├── Forbidden
    ├── Unavailable                the database did not answer; `.written` says what is known
    ├── StoreClosed
    ├── SchemaMismatch
    ├── CorruptLog
    ├── FollowerFailed
    └── MissingDependency (ImportError)

Each class carries its row of the table (`code`, `retry`, `status`, `exit_code`, `hint`) that feeds
the command line, HTTP and the documentation. `retry` is what a caller may do: "no", "same" (send
the same again) or "decide" (read and decide again).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from .append import AppendCondition
    from .event import SequencedEvent

__all__ = [
    "AppendConditionFailed",
    "CorruptLog",
    "EventIdConflict",
    "FollowerFailed",
    "Forbidden",
    "IdempotencyKeyReused",
    "InvalidEvent",
    "InvalidInput",
    "InvalidQuery",
    "MissingDependency",
    "NotFound",
    "PayloadTooLarge",
    "SchemaMismatch",
    "StoreClosed",
    "StrandlineError",
    "TrackingConflict",
    "Unauthorized",
    "Unavailable",
]

Retry = Literal["no", "same", "decide"]


class StrandlineError(Exception):
    """The root of all errors of this library: a message, and a hint that says what to do."""

    code: ClassVar[str] = "strandline_error"
    retry: ClassVar[Retry] = "no"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 2
    hint: str = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.advise(self.hint if hint is None else hint)

    def advise(self, hint: str) -> None:
        """Say what to do: in `hint`, and as a note, which tracebacks show."""
        self.hint = hint
        self.__notes__ = [f"hint: {hint}"] if hint else []

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), str(self), self.__dict__)


def _restore(cls: type[StrandlineError], message: str, state: dict[str, object]) -> StrandlineError:
    error = cls.__new__(cls, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class AppendConditionFailed(StrandlineError):
    """An event that matches the append condition is newer than its `after`; nothing was written.

    `part` is the part of the condition that failed, `conflict` the first event that conflicts with it. A server adds
    what you need to decide again: more `conflicts`, whether they are `complete`, and a renewed `condition`.
    """

    code = "append_condition_failed"
    retry = "decide"
    status = 409
    exit_code = 1
    hint = "read the events that match the query again, decide again, append with the new head"

    def __init__(
        self,
        *,
        conflict: SequencedEvent,
        part: AppendCondition,
        conflicts: tuple[SequencedEvent, ...] = (),
        complete: bool = False,
        condition: AppendCondition | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(
            f"event {conflict.position} ({conflict.type}) matches the append condition"
            f" and is newer than position {part.after}",
            hint=hint,
        )
        self.conflict = conflict
        self.part = part
        self.query = part.fail_if_events_match
        self.after = part.after
        self.conflicts = conflicts
        self.complete = complete
        self.condition = condition
        self.attempts = 1


class EventIdConflict(StrandlineError):
    """An event id is in the log already, and the append is not a repeat of the one that wrote it."""

    code = "event_id_conflict"
    status = 409
    exit_code = 1
    hint = "give new events new ids; to repeat an append send exactly the same events again"


class IdempotencyKeyReused(StrandlineError):
    """A command was done with this idempotency key before, and with other arguments; nothing was written."""

    code = "idempotency_key_reused"
    status = 422
    exit_code = 1
    hint = (
        "give each request a key of its own, with its caller in it: f'{customer}:{request}'. To repeat a request, pass"
        " the same arguments again"
    )


class InvalidInput(StrandlineError, ValueError):
    """An argument that cannot be right; nothing was written."""

    code = "invalid_input"
    status = 422


class InvalidEvent(InvalidInput):
    """An event whose type, tags, stream, subject, metadata or data break the rules."""

    code = "invalid_event"


class InvalidQuery(InvalidInput):
    """A query that cannot be asked."""

    code = "invalid_query"


class PayloadTooLarge(InvalidInput):
    """Event data over the store's limit."""

    code = "payload_too_large"
    status = 413


class TrackingConflict(InvalidInput):
    """The log has taken this position of the source already, or a later one; nothing was written.

    `tracked` is the position that is stored.
    """

    code = "tracking_conflict"
    status = 409
    exit_code = 1
    hint = "another consumer of this source was faster: go on after store.tracked(source)"

    def __init__(self, *, source: str, position: int, tracked: int) -> None:
        super().__init__(
            f"position {position} of {source!r} is not newer than position {tracked}, which the log has"
        )
        self.source = source
        self.position = position
        self.tracked = tracked


class NotFound(StrandlineError):
    """The store, log, event or follower that was asked for does not exist."""

    code = "not_found"
    status = 404


class Unauthorized(StrandlineError):
    """The server does not know who is calling."""

    code = "unauthorized"
    status = 401
    hint = "check the name and the password, or the token, that you connect with"


class Forbidden(StrandlineError):
    """The caller is known, and may not do this."""

    code = "forbidden"
    status = 403


class Unavailable(StrandlineError):
    """The database could not do its part. `written` is False (nothing was), True or None (unknown).

    Sending the same events with the same ids again is always safe: the ids are looked up first.
    """

    code = "unavailable"
    retry = "same"
    status = 503
    hint = "send the same events again: their ids keep them from being written twice"

    def __init__(self, message: str, *, hint: str | None = None, written: bool | None = False) -> None:
        super().__init__(message, hint=hint)
        self.written = written


class StoreClosed(StrandlineError):
    """The store was closed, or belongs to the parent of this process."""

    code = "store_closed"
    status = 503
    hint = "call strandline.connect(url) again, in this process"


class SchemaMismatch(StrandlineError):
    """The database was written by another version of Strandline."""

    code = "schema_mismatch"
    hint = "run: strandline migrate URL"


class CorruptLog(StrandlineError):
    """The log contradicts itself, cannot be read, or has lost events that this store has seen."""

    code = "corrupt_log"
    exit_code = 1
    hint = "run: strandline check URL. Then restore a backup, as docs/operations.md says"


class FollowerFailed(StrandlineError):
    """A follower stopped: at an event, or because something that it needs is not as it was."""

    code = "follower_failed"
    status = 409


class MissingDependency(StrandlineError, ImportError):
    """An optional part is not installed; the message says what to install."""

    code = "missing_dependency"
    status = 501
