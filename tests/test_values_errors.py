"""Errors as values: they can be pickled, they say what to do."""

from __future__ import annotations

import ast
import copy
import pickle
import traceback
from pathlib import Path

import pytest

import strandline
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    Event,
    InvalidInput,
    InvalidQuery,
    Query,
    QueryItem,
    SequencedEvent,
    StrandlineError,
    TrackingConflict,
    Unavailable,
)
from strandline.errors import __all__ as names

SOURCES = sorted(Path(strandline.__file__).parent.rglob("*.py"))
CONFLICT = SequencedEvent.of(Event("A", {"n": 1}, tags=["x"]), 3, 1)


def made(name: str) -> StrandlineError:
    if name == "AppendConditionFailed":
        return AppendConditionFailed(
            conflict=CONFLICT,
            part=AppendCondition(Query.tag("x"), after=2),
            conflicts=(CONFLICT,),
            complete=True,
            condition=AppendCondition(Query.tag("x"), after=3),
            hint="look",
        )
    if name == "Unavailable":
        return Unavailable("gone", written=None)
    if name == "TrackingConflict":
        return TrackingConflict(source="orders", position=3, tracked=4)
    error: StrandlineError = getattr(strandline, name)("what happened", hint="what to do")
    return error


@pytest.mark.parametrize("name", names)
def test_every_error_can_be_pickled_and_copied(name: str) -> None:
    error = made(name)
    error.add_note("attempt 3")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert (str(twin), twin.hint, twin.args) == (str(error), error.hint, error.args)
        assert twin.__dict__ == error.__dict__


def test_a_failed_condition_keeps_its_conflict() -> None:
    twin = pickle.loads(pickle.dumps(made("AppendConditionFailed")))
    assert (twin.conflict, twin.query, twin.after, twin.hint) == (CONFLICT, Query.tag("x"), 2, "look")
    assert twin.part == AppendCondition(Query.tag("x"), after=2)
    assert (twin.conflicts, twin.complete) == ((CONFLICT,), True)
    assert twin.condition == AppendCondition(Query.tag("x"), after=3)
    assert "event 3 (A)" in str(twin)
    assert "position 2" in str(twin)


@pytest.mark.parametrize("written", [True, False, None])
def test_unavailable_keeps_what_is_known_of_the_write(*, written: bool | None) -> None:
    assert pickle.loads(pickle.dumps(Unavailable("gone", written=written))).written is written


@pytest.mark.parametrize("name", names)
def test_a_traceback_shows_the_hint(name: str) -> None:
    error = made(name)
    assert "".join(traceback.format_exception(error)).endswith(f"hint: {error.hint}\n")


def test_a_traceback_without_a_hint_says_nothing_about_one() -> None:
    assert "hint" not in "".join(traceback.format_exception(InvalidInput("what happened")))


def test_hints_have_defaults_where_the_class_knows_better() -> None:
    assert "again" in Unavailable("gone").hint
    assert Unavailable("gone", hint="wait").hint == "wait"


def test_a_refusal_by_a_lambda_can_leave_its_process() -> None:
    query = Query.of(QueryItem(types=["A"], where=lambda event: event.type == "A"))
    with strandline.connect("memory:") as store:
        store.append(Event("A", {}))
        with pytest.raises(AppendConditionFailed) as refusal:
            store.append(Event("A", {}), AppendCondition(query))
    twin = pickle.loads(pickle.dumps(refusal.value))
    assert twin.conflict == refusal.value.conflict
    assert twin.query.items[0].types == ("A",)
    with pytest.raises(InvalidQuery, match="stayed in the process"):
        twin.query.matches(twin.conflict)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_an_error_is_never_made_without_a_hint(path: Path) -> None:
    bare = {name for name in names if not getattr(strandline.errors, name).hint}
    for call in ast.walk(ast.parse(path.read_text())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in bare:
            given = {keyword.arg for keyword in call.keywords}
            assert given & {"hint", None}, f"{path.name}, line {call.lineno}: {call.func.id}"
