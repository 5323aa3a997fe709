"""The report: what it counts is so, and nothing in a log becomes markup."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

import strandline.spark as sls
from places import Place
from strandline import AppendCondition, Event, InvalidInput, NotFound, Query
from strandline.spark.report.charts import columns_over_time, heat_map, histogram, number
from strandline.spark.report.closeness import Cell
from strandline.spark.report.elements import el
from strandline.spark.report.figures import Moment, OverTime

NASTY = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "[/red]&amp;", "\u202etxt"]


class Page(HTMLParser):
    """Elements and texts; fails if an element is not closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.opened == []

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes += attrs
        if tag != "meta":  # the one that HTML never closes
            self.opened.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def write(place: Place) -> None:
    with place.connect() as store:
        for number_ in range(250):
            tags = ["course:c1", f"student:s{number_ % 7}"]
            seen = AppendCondition(Query.tag(f"student:s{number_ % 7}"), store.head())
            store.append(Event("Subscribed", {}, tags=tags), seen)
        for text in NASTY[:3]:
            store.append(Event(text, {}, tags=[text]))


def test_the_page_tells_what_is_in_the_log(spark, kept: Place, tmp_path: Path):
    write(kept)
    out = tmp_path / "report.html"
    reported = sls.report(spark, str(kept.url), str(out), **kept.options)
    assert (reported.path, reported.head, reported.appends) == (str(out), 253, 253)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".new")]
    text = out.read_text()
    page = Page(text)
    for told in (
        "Subscribed",
        "course:c1",
        "1 tag has 200 events or more",
        "98.8%",
        "253 appends have 1 events",
        *NASTY[:3],
    ):
        assert any(told in each for each in page.texts), told
    assert page.names.isdisjoint({"script", "img", "link", "iframe", "object", "base"})
    assert not [name for name, _ in page.attributes if name in {"src", "href"} or name.startswith("on")]
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)


def test_an_empty_log_has_a_page_too(spark, kept: Place, tmp_path: Path):
    with kept.connect():
        pass
    sls.report(spark, str(kept.url), str(tmp_path / "report.html"), **kept.options)
    assert any("The log is empty." in text for text in Page((tmp_path / "report.html").read_text()).texts)


def test_what_cannot_be_is_said_before_anything_is_written(spark, tmp_path: Path):
    with pytest.raises(InvalidInput, match="no such folder"):
        sls.report(spark, str(tmp_path / "log.db"), str(tmp_path / "nowhere" / "report.html"))
    with pytest.raises(NotFound):
        sls.report(spark, str(tmp_path / "nothing.db"), str(tmp_path / "report.html"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text", NASTY)
def test_texts_and_attributes_are_escaped(text):
    page = Page(el("p", text, title=text))
    assert page.names == {"p"}
    shown = text.replace("\u202e", "\\u202e")
    assert page.texts == [shown]
    assert page.attributes == [("title", shown)]


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (999, "999"), (1_200, "1.2 k"), (3_400_000, "3.4 M"), (5e9, "5 G")]
)
def test_numbers_for_people(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("hours", "step", "ticks"),
    [
        (20, 1, ["01 Mar 06:00", "01 Mar 09:00", "01 Mar 12:00"]),
        (24 * 21, 24, ["2026-03-02", "2026-03-09", "2026-03-16"]),  # Mondays
        (24 * 7 * 30, 24 * 7, ["2026-03-16", "2026-04-13", "2026-05-11"]),
    ],
)
def test_marks_of_time_are_where_people_expect_them(hours, step, ticks):
    start = datetime(2026, 3, 1 if step < 24 * 7 else 2, 6 if step == 1 else 0, tzinfo=UTC)
    places = hours // step
    drawn = Page(
        columns_over_time(
            OverTime(start, timedelta(hours=step), places, [Moment(n, "Paid", 1 + n) for n in range(places)]),
            ["Paid"],
        )
    )
    told = [text for text in drawn.texts if re.match(r"\d{4}-|\d\d \w{3}", text)]
    assert told[: len(ticks)] == ticks
    assert len(told) <= 10


def test_a_histogram_tells_what_it_counts():
    drawn = Page(histogram([(0, 5), (3, 1)], "appends"))
    assert "5 appends have 1 events" in drawn.texts
    assert "1 appends have 8–15 events" in drawn.texts
    assert "6" in drawn.texts  # the scale ends at a round number


def test_a_heat_map_has_a_cell_for_each_kind_and_distance():
    drawn = Page(heat_map([Cell("course", -1, 5), Cell("course", 2, 1), Cell("", 0, 2)]))
    titles = [text for text in drawn.texts if "appends with" in text]
    assert "course: 5 appends with 0 events in between" in titles
    assert "course: 1 appends with 4–7 events in between" in titles
    assert "no tags: 2 appends with 1 events in between" in titles
