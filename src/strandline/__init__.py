"""Strandline: an event store in which the consistency boundary of a decision is a query."""

from .aio import AsyncEventStore, connect_async
from .append import AppendCondition, AppendRequest, AppendResult, RecordedAppend
from .errors import (
    AppendConditionFailed,
    CorruptLog,
    EventIdConflict,
    FollowerFailed,
    Forbidden,
    InvalidEvent,
    InvalidInput,
    InvalidQuery,
    MissingDependency,
    NotFound,
    PayloadTooLarge,
    SchemaMismatch,
    StoreClosed,
    StrandlineError,
    Unauthorized,
    Unavailable,
)
from .event import Event, SequencedEvent
from .query import Query, QueryItem
from .store import EventStore, connect

__all__ = [
    "AppendCondition",
    "AppendConditionFailed",
    "AppendRequest",
    "AppendResult",
    "AsyncEventStore",
    "CorruptLog",
    "Event",
    "EventIdConflict",
    "EventStore",
    "FollowerFailed",
    "Forbidden",
    "InvalidEvent",
    "InvalidInput",
    "InvalidQuery",
    "MissingDependency",
    "NotFound",
    "PayloadTooLarge",
    "Query",
    "QueryItem",
    "RecordedAppend",
    "SchemaMismatch",
    "SequencedEvent",
    "StoreClosed",
    "StrandlineError",
    "Unauthorized",
    "Unavailable",
    "connect",
    "connect_async",
]
__version__ = "0.1.0"
