from __future__ import annotations

import json
from pathlib import Path

import pytest

import strandline
from strandline import Event

ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def write_lines(*events, path="events.ndjson"):
    Path(path).write_text(
        "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in events)
    )
    return path


def numbered(count):
    return [{"type": "A", "data": {"n": number}, "tags": [f"n:{number}"]} for number in range(1, count + 1)]


def test_the_lines_of_a_file_become_events_in_order(cli):
    done = cli("append", "new.db", "--ndjson", write_lines(*numbered(25)), "--chunk", 10)
    assert (done.code, done.err) == (0, "")
    assert done.rows == [{"lines": 25, "written": 25, "repeated": 0, "refused": 0, "skipped": 0, "head": 25}]
    with strandline.connect("new.db", create=False) as store:
        assert [event.json()["n"] for event in store.read()] == list(range(1, 26))
        assert len(list(store.appends())) == 25


def test_a_log_is_copied_through_a_pipe_and_again_changes_nothing(cli, process, school):
    lines = cli("read", school).out
    for repeated in (0, 5):
        done = process("append", "copy.db", "--ndjson", "-", stdin=lines.encode())
        assert done.rows == [
            {"lines": 5, "written": 5 - repeated, "repeated": repeated, "refused": 0, "skipped": 0, "head": 5}
        ]
    kept = [{**row, "recorded_at": ""} for row in cli("read", "copy.db").rows]
    assert kept == [{**json.loads(line), "recorded_at": ""} for line in lines.splitlines()]


def test_a_log_that_was_retagged_is_copied_without_its_retags(cli, process, school):
    with strandline.connect(school) as store:
        store.retag([1], add=["topic:$retagged"])
        store.append(Event("Said", {"type": "$retagged"}))
    lines = cli("read", school).out
    for written in (6, 0):
        done = process("append", "copy.db", "--ndjson", "-", "--chunk", "1", stdin=lines.encode())
        assert (done.code, "warning" in done.err) == (0, written > 0)
        assert done.rows == [
            {
                "lines": 7,
                "written": written,
                "repeated": 6 - written,
                "refused": 0,
                "skipped": 1,
                "head": 6,
            }
        ]
    with strandline.connect("copy.db") as copy:
        assert [event.tags for event in copy.read(limit=1)] == [("course:c1", "topic:$retagged")]


def test_a_copy_warns_once_that_events_get_another_time(cli, process, school):
    lines = cli("read", school).out.encode()
    done = process("append", "copy.db", "--ndjson", "-", "--chunk", "2", stdin=lines)
    assert done.err == (
        "warning: the events get the time of this append: their recorded_at, the conditions of their appends and the"
        " history of their tags stay in the log that they come from\n"
        "hint: a rule that looks at recorded_at decides otherwise here. strandline backup copies a file as it is,"
        " pg_dump a PostgreSQL log\n"
    )
    assert process("append", "copy.db", "--ndjson", "-", stdin=lines).err == ""
    told = json.loads(process("append", "other.db", "--ndjson", "-", "--json", stdin=lines).err)
    assert (told["code"], told["retry"]) == ("times_change", "no")
    own = json.dumps({"type": "A", "data": {"recorded_at": "x"}}).encode()
    assert process("append", "own.db", "--ndjson", "-", stdin=own).err == ""


BAD_LINES = [
    ("{", "JSON"),
    ('{"type": "$retagged"', "JSON"),
    ("[" * 10_000 + "$retagged", "JSON"),
    ("[]", "JSON"),
    ({"type": "A"}, "data"),
    ({"type": "", "data": 1}, "characters"),
    ({"type": "A", "data": 1, "tags": ["$x"]}, "reserved"),
    ({"type": "A", "data_base64": "abc"}, ""),
    ({"type": "A", "data": 1, "extra": 1}, "extra"),
    ({"type": "A", "data": "x" * 1_100_000}, "limit"),
]


@pytest.mark.parametrize(("bad", "why"), BAD_LINES)
def test_a_bad_line_in_the_first_chunk_makes_no_store(cli, bad, why):
    done = cli("append", "new.db", "--ndjson", write_lines(*numbered(3), bad))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: line 4: ")
    assert why in done.err
    assert "0 events were written before it" in done.err
    assert not Path("new.db").exists()


@pytest.mark.parametrize(("bad", "why"), BAD_LINES)
def test_a_bad_line_is_named_and_nothing_of_its_chunk_is_written(cli, bad, why):
    lines = [*numbered(7), bad, *numbered(3)]
    done = cli("append", "new.db", "--ndjson", write_lines(*lines), "--chunk", 5)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: line 8: ")
    assert why in done.err
    assert "5 events were written before it" in done.err
    assert cli("head", "new.db").rows == [{"head": 5}]


def test_empty_lines_are_passed_over_but_counted(cli):
    done = cli("append", "new.db", "--ndjson", write_lines(numbered(1)[0], "", "  ", "{"))
    assert done.err.startswith("error: line 4: ")


def test_a_line_whose_id_is_taken_is_refused_alone(cli):
    events = numbered(3)
    events[0]["id"] = events[2]["id"] = ID
    done = cli("append", "new.db", "--ndjson", write_lines(*events))
    assert done.code == 1
    assert done.rows == [{"lines": 3, "written": 2, "repeated": 0, "refused": 1, "skipped": 0, "head": 2}]
    assert done.err.startswith("error: line 3: ")


@pytest.mark.parametrize(
    "more", [["A"], ["--tag", "x"], ["--id", ID], ["--after", "1"], ["--unless-exists", "{}"]]
)
def test_options_of_one_event_do_not_go_with_many(cli, more):
    done = cli("append", "new.db", *more, "--ndjson", write_lines(*numbered(1)))
    assert done.code == 2
    assert not Path("new.db").exists()


def test_a_missing_file_is_an_error_without_traceback(cli):
    done = cli("append", "new.db", "--ndjson", "nowhere.ndjson")
    assert (done.code, done.err) == (2, "error: No such file or directory: nowhere.ndjson\n")
    assert not Path("new.db").exists()


def orders(count):
    return [{"meta": {"kind": f"Order{n % 2}"}, "orderId": n, "skus": ["a", "b"]} for n in range(count)]


def test_lines_may_be_any_objects_if_their_type_can_be_found(cli):
    paths = ("--type-from", "meta.kind", "--tag-from", "order=orderId", "--tag-from", "sku=skus")
    done = cli("append", "new.db", "--ndjson", write_lines(*orders(5)), *paths, "--chunk", 2)
    assert done.rows == [{"lines": 5, "written": 5, "repeated": 0, "refused": 0, "skipped": 0, "head": 5}]
    with strandline.connect("new.db", create=False) as store:
        assert [event.json() for event in store.read()] == orders(5)
        assert (
            store.count(strandline.Query.types("Order1") & strandline.Query.tag("order:3", "sku:a", "sku:b"))
            == 1
        )


def test_lines_with_an_id_of_their_own_may_be_sent_again(cli):
    lines = write_lines({"kind": "A", "uuid": ID})
    for repeated in (0, 1):
        done = cli("append", "new.db", "--ndjson", lines, "--type-from", "kind", "--id-from", "uuid")
        assert (done.rows[0]["written"], done.rows[0]["repeated"]) == (1 - repeated, repeated)


def test_a_line_without_a_type_is_named_with_the_path(cli):
    lines = [*orders(3), {"meta": {}, "orderId": 3}]
    done = cli("append", "new.db", "--ndjson", write_lines(*lines), "--type-from", "meta.kind")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: line 4: this object has no type at 'meta.kind'")
    assert not Path("new.db").exists()


def test_a_file_without_lines_is_no_mistake(cli):
    done = cli("append", "new.db", "--ndjson", write_lines("", " "))
    counts = {"lines": 0, "written": 0, "repeated": 0, "refused": 0, "skipped": 0}
    assert done.rows == [counts | {"head": 0}]
