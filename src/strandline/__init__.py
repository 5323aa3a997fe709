"""Strandline: an event store in which the consistency boundary of a decision is a query."""

from .aio import AsyncEventStore, connect_async
from .append import AppendCondition, AppendRequest, AppendResult, Check, RecordedAppend
from .cloudevent import from_cloudevent, to_cloudevent
from .domain.command import NOW, Command, Executed, command
from .domain.event import DomainEvent, upcast
from .domain.missing_tags import MissingTags
from .domain.projection import Projection, on
from .domain.snapshot import SnapshotFailed
from .domain.untyped import Decision
from .engine import Usage
from .engine.open import logs
from .errors import (
    AppendConditionFailed,
    CorruptLog,
    EventIdConflict,
    FollowerFailed,
    Forbidden,
    IdempotencyKeyReused,
    InvalidEvent,
    InvalidInput,
    InvalidQuery,
    MissingDependency,
    NotFound,
    PayloadTooLarge,
    SchemaMismatch,
    StoreClosed,
    StrandlineError,
    TrackingConflict,
    Unauthorized,
    Unavailable,
)
from .event import Event, SequencedEvent
from .query import Query, QueryItem
from .store import EventStore, connect
from .subscription import Batch
from .tag_id import TagId

__all__ = [
    "NOW",
    "AppendCondition",
    "AppendConditionFailed",
    "AppendRequest",
    "AppendResult",
    "AsyncEventStore",
    "Batch",
    "Check",
    "Command",
    "CorruptLog",
    "Decision",
    "DomainEvent",
    "Event",
    "EventIdConflict",
    "EventStore",
    "Executed",
    "FollowerFailed",
    "Forbidden",
    "IdempotencyKeyReused",
    "InvalidEvent",
    "InvalidInput",
    "InvalidQuery",
    "MissingDependency",
    "MissingTags",
    "NotFound",
    "PayloadTooLarge",
    "Projection",
    "Query",
    "QueryItem",
    "RecordedAppend",
    "SchemaMismatch",
    "SequencedEvent",
    "SnapshotFailed",
    "StoreClosed",
    "StrandlineError",
    "TagId",
    "TrackingConflict",
    "Unauthorized",
    "Unavailable",
    "Usage",
    "command",
    "connect",
    "connect_async",
    "from_cloudevent",
    "logs",
    "on",
    "to_cloudevent",
    "upcast",
]
__version__ = "0.1.0"
