"""A retag by a rule, on Spark: complete when nothing is missing, whoever appends meanwhile and whatever interrupts it."""

from __future__ import annotations

from pathlib import Path

import pytest
import rules

import strandline.spark as sls
from places import Place
from strandline import Event, InvalidInput, Query
from strandline.errors import NotFound, Unavailable
from strandline.retag import changes_of


def append(place: Place, numbers: range) -> None:
    with place.connect() as store:
        store.append([Event("Counted", n, tags=["old"]) for n in numbers])


def expect_tagged(place: Place, count: int) -> None:
    with place.connect() as store:
        found = [(event.json(), event.tags) for event in store.read(Query.types("Counted"))]
        assert found == [(n, tuple(sorted(["old", *rules.parity_of(n)]))) for n in range(count)]
        assert store.count(Query.tag("odd")) == count // 2


def test_every_event_gets_its_tags_while_others_append(spark, kept: Place) -> None:
    append(kept, range(2_300))
    late = iter([range(2_300, 2_400)])

    def meanwhile(what: str, done: int, of: int) -> None:
        for numbers in late:
            append(kept, numbers)

    done = sls.retag(spark, str(kept.url), "rules:parity", **kept.options, progress=meanwhile)

    assert (done.complete, done.changed, done.looks, done.rule) == (True, 2_400, 2, "rules:parity")
    expect_tagged(kept, 2_400)
    with kept.connect() as store:
        assert done.head == store.head()
        retags = [len(changes_of(event)) for event in store.read(Query.types("$retagged"))]
        assert retags == [1_000, 1_000, 300, 100]
    again = sls.retag(spark, str(kept.url), rules.parity, **kept.options)
    assert (again.complete, again.changed, again.looks, again.head) == (True, 0, 1, done.head)


@pytest.fixture
def file(tmp_path: Path) -> Place:
    return Place(tmp_path / "log.db")


def test_an_interrupted_retag_goes_on_with_what_is_missing(spark, file: Place) -> None:
    append(file, range(2_300))

    def interrupt(what: str, done: int, of: int) -> None:
        assert (what, of) == ("retagging", 2_300)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sls.retag(spark, str(file.url), "rules:parity", progress=interrupt)
    done = sls.retag(spark, str(file.url), "rules:parity")

    assert (done.complete, done.changed) == (True, 1_300)
    expect_tagged(file, 2_300)


def test_a_worker_that_dies_leaves_the_log_as_it_was(spark, file: Place, tmp_path: Path) -> None:
    mark = tmp_path / "deadly"
    with file.connect() as store:
        store.append([Event("Counted", str(mark)) for _ in range(10)])
        mark.touch()
        with pytest.raises(Unavailable, match=r"Spark could not prepare the events: .*exited unexpectedly"):
            sls.retag(spark, str(file.url), "rules:deadly")
        assert store.head() == 10
    mark.unlink()
    assert sls.retag(spark, str(file.url), "rules:deadly").changed == 10


def test_only_events_of_the_query_are_asked_about(spark, file: Place) -> None:
    append(file, range(100))
    with file.connect() as store:
        store.append(Event("Other", "no number"))
    done = sls.retag(spark, str(file.url), "rules:parity", query=Query.types("Counted"))
    assert (done.complete, done.changed, done.head) == (True, 100, 102)
    expect_tagged(file, 100)


def test_a_rule_that_fails_changes_nothing_and_names_the_event(spark, file: Place) -> None:
    append(file, range(1_600))
    with pytest.raises(InvalidInput, match=r"rules:fails raised ZeroDivisionError: .* at position 1,501\)"):
        sls.retag(spark, str(file.url), "rules:fails")
    with file.connect() as store:
        assert store.head() == 1_600


def test_a_rule_that_fails_at_what_was_appended_meanwhile_declares_nothing(spark, file: Place) -> None:
    append(file, range(10))

    def meanwhile(what: str, done: int, of: int) -> None:
        append(file, range(1_500, 1_501))

    with pytest.raises(InvalidInput, match="at position 12"):
        sls.retag(spark, str(file.url), "rules:fails", progress=meanwhile)


def test_a_log_that_is_not_there_and_one_in_memory_are_refused(spark, tmp_path) -> None:
    with pytest.raises(NotFound):
        sls.retag(spark, str(tmp_path / "nowhere.db"), "rules:parity")
    with pytest.raises(InvalidInput, match="a log in memory"):
        sls.retag(spark, "memory:", "rules:parity")
    assert not list(tmp_path.iterdir())
