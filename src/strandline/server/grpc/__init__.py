"""UmaDB's gRPC protocol over the public API of `AsyncEventStore`, so that UmaDB's clients run unchanged."""

from .face import GrpcFace
from .marks import event_from_umadb

__all__ = ["GrpcFace", "event_from_umadb"]
