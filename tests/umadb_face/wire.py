"""A client that sends any message, and sees answers, statuses and error details as they are on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc

from strandline.server.grpc.messages import health, umadb

DETAILS = "grpc-status-details-bin"
PATIENCE_SECONDS = 60.0
AppendCondition = umadb.AppendCondition
AppendRequest = umadb.AppendRequest
Query = umadb.Query
QueryItem = umadb.QueryItem
ReadRequest = umadb.ReadRequest
SubscribeRequest = umadb.SubscribeRequest
TrackingInfo = umadb.TrackingInfo


class Failure(NamedTuple):
    """The status of a call that failed, and the kind of error in its details."""

    code: str
    kind: str | None
    message: str


class Wire:
    """Calls methods of a server."""

    def __init__(self, channel: grpc.Channel, service: str = "umadb.v1.DCB") -> None:
        self._channel = channel
        self._service = service

    def append(
        self, *events: Any, condition: Any = None, tracking: tuple[str, int] | None = None
    ) -> int | Failure:
        """Append, and return the position."""
        told = None if tracking is None else TrackingInfo(source=tracking[0], position=tracking[1])
        request = AppendRequest(events=events, condition=condition, tracking_info=told)
        answer = self.call("Append", request, umadb.AppendResponse)
        return answer if isinstance(answer, Failure) else int(answer.position)

    def head(self) -> int | None:
        """Return the head."""
        answer = self.call("Head", umadb.HeadRequest(), umadb.HeadResponse)
        return answer.position if answer.HasField("position") else None

    def tracked(self, source: str) -> Any:
        """Return the position of a source."""
        answer = self.call("GetTrackingInfo", umadb.TrackingRequest(source=source), umadb.TrackingResponse)
        if isinstance(answer, Failure):
            return answer
        return answer.position if answer.HasField("position") else None

    def read(self, **fields: Any) -> list[Any] | Failure:
        """Return the answers to a read."""
        return self.stream("Read", ReadRequest(**fields), umadb.ReadResponse)

    def events(self, **fields: Any) -> list[Any]:
        """Return the events that a read finds."""
        answers = self.read(**fields)
        assert not isinstance(answers, Failure), answers
        return [event for answer in answers for event in answer.events]

    def subscribe(self, metadata: Any = None, **fields: Any) -> Any:
        """Begin a subscription."""
        call = self._channel.unary_stream(
            f"/{self._service}/Subscribe",
            SubscribeRequest.SerializeToString,
            umadb.SubscribeResponse.FromString,
        )
        return call(SubscribeRequest(**fields), metadata=metadata, timeout=PATIENCE_SECONDS)

    def next_events(self, number: int, **fields: Any) -> list[Any]:
        """Return the first events of a subscription."""
        call = self.subscribe(**fields)
        events: list[Any] = []
        while len(events) < number:
            events += next(call).events
        call.cancel()
        return events

    def call(self, method: str, request: Any, answer: Any, *, metadata: Any = None) -> Any:
        """Call a method with one answer."""
        send = request.SerializeToString if hasattr(request, "SerializeToString") else lambda: request
        call = self._channel.unary_unary(
            f"/{self._service}/{method}", lambda message: send(), answer.FromString
        )
        try:
            return call(request, timeout=PATIENCE_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            return failure_of(error)

    def stream(self, method: str, request: Any, answer: Any, *, metadata: Any = None) -> Any:
        """Call a method with a stream of answers that ends."""
        call = self._channel.unary_stream(
            f"/{self._service}/{method}", type(request).SerializeToString, answer.FromString
        )
        try:
            return list(call(request, timeout=PATIENCE_SECONDS, metadata=metadata))
        except grpc.RpcError as error:
            return failure_of(error)

    def check_health(self, service: str = "") -> Any:
        """Ask the health service."""
        found = Wire(self._channel, "grpc.health.v1.Health").call(
            "Check", health.HealthCheckRequest(service=service), health.HealthCheckResponse
        )
        if isinstance(found, Failure):
            return found
        return health.HealthCheckResponse.ServingStatus.Name(found.status)


def failure_of(error: grpc.RpcError) -> Failure:
    """Return what a call failed with."""
    details = dict(error.trailing_metadata() or ()).get(DETAILS)
    if details is None:
        return Failure(error.code().name, None, error.details())
    response = umadb.ErrorResponse.FromString(details)
    assert response.message == error.details() or not error.details()
    kind = umadb.ErrorResponse.ErrorType.Name(response.error_type)
    return Failure(error.code().name, kind, response.message)


def event(
    type: str = "Ordered",
    data: bytes = b"{}",
    tags: Any = (),
    uuid: str = "",
    metadata: Any = (),
) -> Any:
    """Return an event as a message."""
    entries = [umadb.MetadataEntry(key=key, value=value) for key, value in metadata]
    return umadb.Event(event_type=type, data=data, tags=tags, uuid=uuid, metadata=entries)


def condition(*items: Any, after: int | None = None) -> Any:
    """Return a condition as a message."""
    return AppendCondition(fail_if_events_match=Query(items=items), after=after)


@contextmanager
def wired(url: str, service: str = "umadb.v1.DCB") -> Iterator[Wire]:
    """Connect to a server without TLS."""
    with grpc.insecure_channel(url.partition("://")[2]) as channel:
        yield Wire(channel, service)
