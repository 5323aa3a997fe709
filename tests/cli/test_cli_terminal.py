"""What a person sees: tables that fit, and nothing that a payload can do to the terminal."""

from __future__ import annotations

import json
import re

import pytest

import strandline
from strandline import Event

HOSTILE_TAGS = ["[/x]", "[red]loud", "[link=http://x]y", "a\u202eb", ":smile:", "zero\u200bwidth"]
STYLE = re.compile("\x1b\\[[0-9;]*m")
HOSTILE_DATA = b"\x1b]0;owned\x07\x1b[2J\xff\x9b31m\r\n[bold]"


@pytest.fixture
def hostile():
    with strandline.connect("hostile.db") as store:
        store.append(Event("[/bold]", HOSTILE_DATA, tags=HOSTILE_TAGS))
        store.append(Event("Text", {"csi": "\u009b31m", "bidi": "\u202e", "plain": "[green]ü"}, tags=["t"]))
    return "hostile.db"


def shown(ran):
    assert ran.code == 0, ran.out
    return ran.out


def test_events_are_a_table_with_headings_on_a_terminal(terminal, school):
    lines = shown(terminal("read", school, NO_COLOR="1").finish()).splitlines()
    assert lines[0].split() == ["position", "time", "UTC", "type", "tags", "data"]
    assert len(lines) == 6
    assert lines[1].split()[0] == "1"
    assert lines[1].endswith('CourseDefined      course:c1             {"course":"c1","capacity":30}')


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(terminal, columns):
    with strandline.connect("wide.db") as store:
        names = "Ünïcödé" * 20
        store.append(
            Event(names, {"text": "漢字" * 500}, tags=[f"tag:{number}{names}" for number in range(9)])
        )
    lines = shown(terminal("read", "wide.db", columns=columns, NO_COLOR="1").finish()).splitlines()
    assert len(lines) == 2
    assert all(len(line) <= columns for line in lines)
    assert "…" in lines[1]


def test_hostile_tags_types_and_data_are_plain_text(terminal, hostile):
    screen = shown(terminal("read", hostile, columns=400, NO_COLOR="1").finish())
    for tag in ("[/x]", "[red]loud", "[link=http://x]y", ":smile:"):
        assert tag in screen
    assert "[/bold]" in screen
    assert "a\\u202eb" in screen
    assert "zero\\u200bwidth" in screen
    assert r"\x1b]0;owned\x07\x1b[2J\xff\x9b31m\r\n[bold]" in screen
    assert all(char.isprintable() or char == "\n" for char in screen)


def test_hostile_text_steers_nothing_in_colour_either(terminal, hostile):
    screen = shown(terminal("read", hostile, columns=400).finish())
    styles = [part.partition("m")[0] for part in screen.split("\x1b[")[1:]]
    assert styles
    assert all(style.replace(";", "").isdigit() for style in styles)
    assert screen.count("\x1b") == len(styles)
    assert "\x07" not in screen


def test_json_on_a_terminal_is_the_same_json_without_raw_control_characters(terminal, cli, hostile):
    screen = shown(terminal("read", hostile, "--json", columns=400).finish())
    assert all(char.isprintable() or char == "\n" for char in screen)
    assert [json.loads(line) for line in screen.splitlines()] == cli("read", hostile).rows
    assert "[green]ü" in screen


def test_hostile_text_in_errors_is_plain_text(terminal):
    ran = terminal("head", "\x1b[31m[red]/x.db", columns=400, NO_COLOR="1").finish()
    assert ran.code == 2
    assert r"\x1b[31m[red]" in ran.out
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("command", ["read", "head", "stats", "check", "doctor"])
def test_no_color_means_no_styles_at_all(terminal, school, command):
    for arguments in ((command, school), (command, "missing.db")):
        ran = terminal(*arguments, NO_COLOR="1").finish()
        assert not STYLE.search(ran.out)


def test_errors_are_coloured_on_a_terminal(terminal):
    ran = terminal("head", "missing.db").finish()
    assert ran.code == 2
    assert "\x1b[1;31merror: \x1b[0m" in ran.out


def test_the_head_is_a_number(terminal, school):
    assert shown(terminal("head", school, NO_COLOR="1").finish()) == "5\n"


def test_stats_are_a_table_of_names_and_values(terminal, school):
    lines = shown(terminal("stats", school, NO_COLOR="1").finish()).splitlines()
    rows = dict(line.strip().split(maxsplit=1) for line in lines)
    assert (rows["engine"], rows["head"], rows["refused"]) == ("sqlite", "5", "0")


def test_an_append_shows_its_position_and_that_the_log_is_new(terminal):
    screen = shown(terminal("append", "new.db", "A", "{}", NO_COLOR="1").finish())
    assert "position   events   duplicate" in screen
    assert "a new log begins in new.db" in screen


def test_nothing_found_is_said(terminal, school):
    screen = shown(terminal("read", school, "--tag", "nobody", NO_COLOR="1").finish())
    assert screen == "no event matches; the head is 5\n"
