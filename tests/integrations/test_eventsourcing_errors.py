"""What users of `eventsourcing` get when something is wrong: their errors, which say what ours say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBAppendCondition, DCBEvent, DCBQuery
from eventsourcing.persistence import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    PersistenceError,
    ProgrammingError,
)
from queries import query, tagged

from strandline import (
    CorruptLog,
    EventIdConflict,
    FollowerFailed,
    Forbidden,
    InvalidEvent,
    InvalidInput,
    InvalidQuery,
    NotFound,
    PayloadTooLarge,
    SchemaMismatch,
    StoreClosed,
    Unauthorized,
    Unavailable,
)
from strandline.integrations.eventsourcing import Recorder

PAGE = Path(__file__).parents[2] / "docs/eventsourcing.md"


@pytest.mark.parametrize(
    "event",
    [
        DCBEvent("", b""),
        DCBEvent("$retagged", b""),
        DCBEvent("eventsourcing:Tracked", b""),
        DCBEvent("a\nb", b""),
        DCBEvent("t" * 257, b""),
        DCBEvent("A", b"", [""]),
        DCBEvent("A", b"", ["$stream:s"]),
        DCBEvent("A", b"", ["a\x00b"]),
        DCBEvent("A", b"", ["t" * 257]),
        DCBEvent("A", b"", [str(number) for number in range(65)]),
        DCBEvent("A", b"", [1]),
        DCBEvent("A", b"", "tag"),
        DCBEvent("A", "text"),
        DCBEvent("A", None),
        DCBEvent("A", b"x" * (1024 * 1024 + 1)),
    ],
    ids=lambda event: f"{event!s:.60}",
)
def test_an_event_that_breaks_our_rules_is_refused_and_nothing_is_written(
    recorder: Recorder, event: DCBEvent
) -> None:
    with pytest.raises(DataError) as refusal:
        recorder.append([DCBEvent("Fine", b""), event])
    assert isinstance(refusal.value.__cause__, InvalidEvent | PayloadTooLarge)
    assert str(refusal.value.__cause__) in str(refusal.value)
    assert recorder.read().head is None


@pytest.mark.parametrize(
    "asked",
    [
        tagged(""),
        tagged("$stream:s"),
        tagged("t" * 257),
        query(([""], [])),
        query((["$retagged"], [])),
        query((["A", "eventsourcing:Tracked"], ["t"])),
        query((["A"], []), (["a\nb"], [])),
    ],
    ids=str,
)
def test_a_query_that_breaks_our_rules_is_refused_everywhere(recorder: Recorder, asked: DCBQuery) -> None:
    for use in (
        recorder.read,
        lambda asked: recorder.read(asked, limit=0),
        recorder.subscribe,
        lambda asked: recorder.append([DCBEvent("A", b"")], DCBAppendCondition(asked)),
    ):
        with pytest.raises(ProgrammingError) as refusal:
            use(asked)
        assert isinstance(refusal.value.__cause__, InvalidQuery)
    assert recorder.read().head is None


def test_an_empty_append_is_refused(recorder: Recorder) -> None:
    with pytest.raises(ProgrammingError):
        recorder.append([])


def test_a_position_that_the_log_has_not_reached_is_refused(recorder: Recorder) -> None:
    recorder.append([DCBEvent("A", b"")])
    with pytest.raises(ProgrammingError, match="restored from a backup"):
        recorder.append([DCBEvent("A", b"")], DCBAppendCondition(after=2))
    assert list(recorder.read(after=2)) == []


ERRORS = [
    (EventIdConflict("x"), IntegrityError),
    (InvalidEvent("x"), DataError),
    (PayloadTooLarge("x"), DataError),
    (InvalidQuery("x"), ProgrammingError),
    (InvalidInput("x"), ProgrammingError),
    (Unavailable("x"), OperationalError),
    (Unauthorized("x"), OperationalError),
    (NotFound("x"), OperationalError),
    (StoreClosed("x"), InterfaceError),
    (CorruptLog("x"), InternalError),
    (SchemaMismatch("x"), OperationalError),
    (Forbidden("x"), OperationalError),
    (FollowerFailed("x"), DatabaseError),
]


@pytest.mark.parametrize(("ours", "theirs"), ERRORS, ids=lambda error: getattr(error, "code", ""))
def test_each_error_of_ours_is_one_of_theirs(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, ours: Exception, theirs: type[PersistenceError]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ours

    for name in ("append", "read", "subscribe"):
        monkeypatch.setattr(recorder.store, name, fail)
    for use in (lambda: recorder.append([DCBEvent("A", b"")]), recorder.read, recorder.subscribe):
        with pytest.raises(theirs) as raised:
            use()
        assert raised.type is theirs
        assert raised.value.__cause__ is ours
        assert ours.hint in str(raised.value)


def test_the_table_of_errors_in_the_documentation_is_the_one_in_the_code() -> None:
    rows = re.findall(r"^\| (.*`|any other) \| `(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    listed = {name: theirs for ours, theirs in rows for name in re.findall(r"`(\w+)`", ours)}
    assert ("any other", "DatabaseError") in rows
    assert listed == {
        "AppendConditionFailed": "IntegrityError",
        **{type(ours).__name__: theirs.__name__ for ours, theirs in ERRORS if theirs is not DatabaseError},
    }


def test_an_error_in_the_middle_of_a_read_is_theirs_too(recorder: Recorder) -> None:
    recorder.append([DCBEvent("A", b"") for _ in range(1_000)])
    read = recorder.read()
    assert next(read).position == 1
    recorder.store.close()
    with pytest.raises(InterfaceError):
        list(read)


def test_an_append_whose_outcome_got_lost_is_written_once(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, calls = recorder.store.append, []

    def lose_the_first_answer(*arguments: Any) -> Any:
        calls.append(arguments)
        result = append(*arguments)
        if len(calls) == 1:
            raise Unavailable("the connection broke", written=None)
        return result

    monkeypatch.setattr(recorder.store, "append", lose_the_first_answer)
    nobody = DCBAppendCondition(tagged("t"))
    assert recorder.append([DCBEvent("A", b"", ["t"]), DCBEvent("B", b"", ["t"])], nobody) == 2
    assert len(calls) == 2
    assert [event.position for event in recorder.read()] == [1, 2]


def test_an_append_whose_outcome_stays_unknown_says_so(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [Unavailable("the connection broke", written=None), Unavailable("no server", written=False)]

    def fail(*_: Any) -> None:
        raise answers.pop(0)

    monkeypatch.setattr(recorder.store, "append", fail)
    with pytest.raises(OperationalError, match="the connection broke") as failure:
        recorder.append([DCBEvent("A", b"")])
    assert failure.value.__cause__.written is None
    assert answers == []


def test_an_append_that_was_not_written_is_not_sent_again(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail(*_: Any) -> None:
        calls.append(1)
        raise Unavailable("the disk is full", written=False)

    monkeypatch.setattr(recorder.store, "append", fail)
    with pytest.raises(OperationalError, match="the disk is full"):
        recorder.append([DCBEvent("A", b"")])
    assert len(calls) == 1
