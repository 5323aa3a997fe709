"""The names that users call, and what importing them costs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from typing import Any

import pytest

import strandline
from strandline import errors
from strandline.follow import AsyncFollower, Follower
from strandline.store import MACHINERY, ConnectOptions

STORE = {
    "AppendCondition",
    "AppendRequest",
    "AppendResult",
    "AsyncEventStore",
    "Batch",
    "Check",
    "Event",
    "EventStore",
    "Query",
    "QueryItem",
    "RecordedAppend",
    "SequencedEvent",
    "connect",
    "connect_async",
}
ERRORS = {
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
}
METHODS = {
    "append",
    "append_many",
    "appends",
    "close",
    "count",
    "boundary",
    "check",
    "decide",
    "event",
    "execute",
    "exists",
    "explain",
    "find_follower",
    "follower",
    "followers",
    "head",
    "position_at",
    "project",
    "read",
    "retag",
    "stats",
    "subscribe",
}
HEAVY = (
    "pyspark",
    "pyarrow",
    "psycopg",
    "typer",
    "rich",
    "hypothesis",
    "pytest",
    "starlette",
    "apsw",
    "eventsourcing",
    "cloudevents",
)


def test_the_public_names_are_sorted_and_complete() -> None:
    assert strandline.__all__ == sorted(strandline.__all__, key=lambda name: (not name.isupper(), name))
    assert {*strandline.__all__} >= STORE | ERRORS
    assert all(hasattr(strandline, name) for name in strandline.__all__)
    assert errors.__all__ == sorted(ERRORS)


@pytest.mark.parametrize("store", [strandline.EventStore, strandline.AsyncEventStore])
def test_both_stores_have_every_method(store: type) -> None:
    assert {name for name in METHODS if callable(getattr(store, name, None))} == METHODS


def test_both_ways_to_connect_have_every_option() -> None:
    named = inspect.signature(strandline.connect).parameters
    options = {name for name, parameter in named.items() if parameter.kind is parameter.KEYWORD_ONLY}
    assert options == set(ConnectOptions.__annotations__)


def test_both_followers_have_every_method() -> None:
    names = {name for name in vars(Follower) if not name.startswith("_")} - {
        "begin_lease",
        "begin_run",
        "begin_replay",
        "is_closed",
        "is_over",
        "perform",
    }
    assert {"run", "catch_up", "stop", "status", "pause", "resume", "reset", "replay", "discard"} <= names
    assert {"lease", "ack", "give_up"} <= names
    assert {name for name in vars(AsyncFollower) if not name.startswith("_")} == names


def test_importing_strandline_imports_nothing_heavy() -> None:
    program = "import json, sys, strandline; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    loaded = {name.partition(".")[0] for name in json.loads(output)}
    assert loaded & {*HEAVY} == set()


def test_a_memory_store_needs_no_database() -> None:
    program = "import sys, strandline; strandline.connect('memory:').close(); print('apsw' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert output == b"False\n"


def test_every_error_is_a_direct_child_with_its_row_of_the_table() -> None:
    invalid = {"InvalidEvent", "InvalidQuery", "PayloadTooLarge", "TrackingConflict"}
    codes = set()
    for name in ERRORS:
        error = getattr(strandline, name)
        parent = error.__bases__[0]
        assert parent is (
            Exception
            if name == "StrandlineError"
            else strandline.InvalidInput
            if name in invalid
            else strandline.StrandlineError
        )
        assert error.retry in {"no", "same", "decide"}
        assert error.exit_code in {1, 2}
        codes.add(error.code)
    assert len(codes) == len(ERRORS)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("AppendConditionFailed", 409),
        ("EventIdConflict", 409),
        ("InvalidInput", 422),
        ("InvalidEvent", 422),
        ("InvalidQuery", 422),
        ("PayloadTooLarge", 413),
        ("FollowerFailed", 409),
        ("TrackingConflict", 409),
        ("NotFound", 404),
        ("Unauthorized", 401),
        ("Forbidden", 403),
        ("IdempotencyKeyReused", 422),
        ("Unavailable", 503),
    ],
)
def test_errors_have_the_http_status_of_the_contract(name: str, status: int) -> None:
    assert getattr(strandline, name).status == status


def test_builtin_errors_catch_what_they_should() -> None:
    assert issubclass(strandline.InvalidInput, ValueError)
    assert issubclass(strandline.MissingDependency, ImportError)


def test_completion_shows_what_users_call_and_nothing_else() -> None:
    for_users = METHODS | {
        *("automation", "outbox", "tracked", "inspect", "max_data_bytes", "is_closed", "store"),
    }
    with strandline.connect("memory:") as store:
        shown = {name for name in dir(store) if not name.startswith("_")}
        assert shown >= METHODS
        assert shown <= for_users
        both = strandline.AsyncEventStore(store)
        assert {name for name in dir(both) if not name.startswith("_")} <= for_users
        assert all(hasattr(store, name) or hasattr(both, name) for name in MACHINERY)


def test_a_store_that_is_not_open_yet_says_how_to_open_it() -> None:
    opening: Any = strandline.connect_async("memory:")
    with pytest.raises(
        AttributeError, match=r"not open yet, so it has no 'append': write store = await connect_async"
    ):
        opening.append  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'apend'"):
        opening.apend  # noqa: B018
