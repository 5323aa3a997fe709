"""What followers tell `logging.getLogger("strandline")`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from lessons import Course, define, other_version, table_in

from following import Seen, some
from places import Place
from strandline import Event, EventStore, FollowerFailed, Unavailable
from strandline.follow import ReadModel


@pytest.fixture(autouse=True)
def _everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="strandline")


def told(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [each.message for each in caplog.records if (each.name, each.levelno) == ("strandline", level)]


def refuse(events: Any, tx: Any) -> None:
    if events[0].json() == 2:
        raise ValueError("not two")


def test_an_event_that_is_given_up_is_a_warning_with_the_error(
    store: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.append([Event("A", 1), Event("A", 2)])
    assert store.follower("f").catch_up(refuse, batch=1, attempts=2, backoff=0) == 2
    assert told(caplog, logging.INFO) == [
        "follower 'f' runs from position 0 on",
        "follower 'f' failed at event 2 (A), attempt 1 of 2: ValueError: not two",
    ]
    assert told(caplog, logging.WARNING) == [
        "follower 'f' gave up on event 2 (A), which is a dead letter now, attempt 2: ValueError: not two"
    ]
    assert told(caplog, logging.ERROR) == []
    assert caplog.records[-1].exc_info is not None


def test_what_ends_a_run_is_an_error(store: EventStore, caplog: pytest.LogCaptureFixture) -> None:
    store.append([Event("A", 1), Event("A", 2)])
    with pytest.raises(FollowerFailed) as failed:
        store.follower("f").catch_up(refuse, batch=1, attempts=1, on_failure="stop")
    assert told(caplog, logging.ERROR) == [f"follower 'f' has stopped: {failed.value}; {failed.value.hint}"]


def test_a_fault_that_may_pass_is_a_warning_until_it_does_not(
    store: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    def cannot(events: Any, tx: Any) -> None:
        raise Unavailable("the database is away")

    store.append(some("a"))
    with pytest.raises(Unavailable):
        store.follower("f").catch_up(cannot, attempts=3, backoff=0)
    assert told(caplog, logging.WARNING) == ["follower 'f' tries again in 0.0 s: the database is away"] * 2
    assert [line.partition(";")[0] for line in told(caplog, logging.ERROR)] == [
        "follower 'f' has stopped: the database is away"
    ]


def test_a_run_that_ends_well_is_no_news(store: EventStore, caplog: pytest.LogCaptureFixture) -> None:
    store.append(some("a"))
    store.follower("f").catch_up(Seen())
    assert [record.levelno for record in caplog.records] == [logging.INFO]


def test_a_read_model_that_dies_in_the_background_says_so(
    kept: Place, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_in(kept)

    async def main() -> None:
        async with kept.connect_async() as store:
            await store.append(define("c1"))
            await ReadModel(Course, table=table).catch_up(store)
            await asyncio.wait([asyncio.create_task(ReadModel(other_version(), table=table).run(store))])

    asyncio.run(main())
    (line,) = told(caplog, logging.ERROR)
    assert line.startswith(
        f"follower 'model:{table}' has stopped: 'model:{table}' was made by another version"
    )
