"""Examples of requests with their answers, for the description of the API. A test sends them one after another."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

_QUERY = {"items": [{"types": ["SeatTaken"], "tags": ["seat:12"]}]}
_UNSEEN = {"fail_if_events_match": _QUERY, "after": 0}
_SEEN = {"fail_if_events_match": _QUERY, "after": 1}
_EVENT = {
    "type": "SeatTaken",
    "data": {"guest": "Ada"},
    "tags": ["seat:12"],
    "id": "0190a8f0-0000-7000-8000-000000000001",
}
_LATER = {
    "type": "SeatTaken",
    "data": {"guest": "Bob"},
    "tags": ["seat:12"],
    "id": "0190a8f0-0000-7000-8000-000000000002",
}
_READ = {
    "position": 1,
    **_EVENT,
    "stream": None,
    "subject": None,
    "metadata": {},
    "recorded_at": "2026-11-19T12:00:00Z",
}
_PAGE = {"events": [_READ], "head": 1, "condition": _SEEN, "next": None}
_RECORDED = {
    "first": 1,
    "last": 1,
    "condition": _UNSEEN,
    "status": "recorded",
    "recorded_at": "2026-11-19T12:00:00Z",
}


class Example(Struct, frozen=True):
    """A request, by the name of its call, with its answer. Lines are lists of their values."""

    call: str
    target: str
    body: Any = None
    answer: Any = None
    status: int = 200


EXAMPLES = (
    Example(
        "append",
        "events",
        {"events": [_EVENT], "condition": _UNSEEN},
        {"first": 1, "last": 1, "count": 1, "duplicate": False},
        201,
    ),
    Example(
        "append",
        "events",
        {"events": [_LATER], "condition": _UNSEEN},
        {
            "type": "/docs#append_condition_failed",
            "title": "Append condition failed",
            "status": 409,
            "detail": "event 1 (SeatTaken) matches the append condition and is newer than position 0",
            "code": "append_condition_failed",
            "hint": "read the events that match the query again, decide again, append with the new head",
            "retry": "decide",
            "part": _UNSEEN,
            "conflict": _READ,
            "conflicts": [_READ],
            "complete": True,
            "condition": _SEEN,
        },
        409,
    ),
    Example("read", "read", {"query": _QUERY}, _PAGE),
    Example("read_by_parameters", "events?type=SeatTaken&tag=seat:12", None, _PAGE),
    Example("event_at", "events/1", None, _READ),
    Example("event_with_id", "events/id/0190a8f0-0000-7000-8000-000000000001", None, _READ),
    Example(
        "check",
        "check",
        {"condition": _UNSEEN},
        {
            "holds": False,
            "head": 1,
            "conflict": _READ,
            "part": 0,
            "item": 0,
            "conflicts": [_READ],
            "complete": True,
            "condition": _SEEN,
        },
    ),
    Example("exists", "exists", {"query": _QUERY}, {"exists": True}),
    Example("count", "count", {"query": _QUERY, "after": 1}, {"count": 0}),
    Example(
        "append_many",
        "appends",
        [
            {
                "events": [{"type": "SeatTaken", "data": {"guest": "Eve"}, "tags": ["seat:14"]}],
                "tracking": ["orders", 17],
            },
            {"events": [{"type": "", "data": 1}]},
        ],
        [
            {"first": 2, "last": 2, "count": 1, "duplicate": False},
            {
                "type": "/docs#invalid_event",
                "title": "Invalid event",
                "status": 422,
                "detail": "a type has 1 to 256 characters, this one has 0",
                "code": "invalid_event",
                "hint": "leave the type out, or give it a text",
                "retry": "no",
                "path": "$.events[0].type",
            },
        ],
    ),
    Example("head", "head", None, {"head": 2}),
    Example("position_at", "positions?at=2026-11-19T13:00:00Z", None, {"position": 2}),
    Example(
        "types",
        "types",
        None,
        {"types": [{"type": "SeatTaken", "count": 2, "first": 1, "last": 2}], "next": None},
    ),
    Example(
        "tags",
        "tags?prefix=seat:&limit=1",
        None,
        {"tags": [{"tag": "seat:12", "count": 1, "first": 1, "last": 1}], "next": "seat:12"},
    ),
    Example("appends", "appends?until=1", None, [_RECORDED, {"end": {"head": 2}}]),
    Example("append_holding", "appends/1", None, _RECORDED),
    Example("tracked", "tracking/orders", None, {"position": 17}),
    Example(
        "retag",
        "retags",
        {"positions": [1], "add": ["row:3"]},
        {"first": 3, "last": 3, "count": 1, "duplicate": False, "changed": 1},
        201,
    ),
    Example("logs", "/v1/logs", None, {"logs": ["default"]}),
    Example("healthz", "/healthz", None, {"status": "alive"}),
    Example("readyz", "/readyz", None, {"status": "ready"}),
)


def examples_of(call: str) -> list[Example]:
    """Return the examples of a call."""
    return [example for example in EXAMPLES if example.call == call]
