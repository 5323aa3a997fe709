from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

import strandline

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
ANY_A = '{"items": [{"types": ["A"]}]}'


DEEP = '{"type": "A", "deep": ' + "[" * 10_000 + "]" * 10_000 + "}"


def only_event(path="new.db"):
    with strandline.connect(path, create=False) as store:
        (event,) = store.read()
    return event


def test_append_writes_the_event_as_given_and_prints_its_position(cli):
    done = cli(
        *("append", "new.db", "A", '{"b": 1,  "a": [true]}', "--tag", "t:2", "--tag", "t:1"),
        *("--stream", "s", "--subject", "who", "--id", ID, "--metadata", "user=u1", "--metadata", "why=a=b"),
    )
    assert (done.code, done.err) == (0, "")
    assert done.rows == [{"first": 1, "last": 1, "count": 1, "duplicate": False, "position": 1}]
    event = only_event()
    assert event.data == b'{"b": 1,  "a": [true]}'
    assert (event.type, event.tags, event.stream, event.subject) == ("A", ("t:1", "t:2"), "s", "who")
    assert (event.id, event.metadata) == (UUID(ID), {"user": "u1", "why": "a=b"})


@pytest.mark.parametrize("arguments", [["-"], []])
def test_data_comes_from_a_pipe(process, arguments):
    assert process("append", "new.db", "A", *arguments, stdin=b' {"x": 1}\n').code == 0
    assert only_event().data == b'{"x": 1}'


def test_an_event_without_data_has_an_empty_object(process):
    assert process("append", "new.db", "A").code == 0
    assert only_event().json() == {}


def test_data_comes_from_a_file_byte_for_byte_with_bytes(cli):
    Path("raw").write_bytes(b" \x00\xff\n")
    assert cli("append", "new.db", "A", "@raw", "--bytes").code == 0
    assert only_event().data == b" \x00\xff\n"


@pytest.mark.parametrize("text", ["{", "hello", '{"a": NaN}', "{} {}"])
def test_data_that_is_not_json_is_refused_before_a_store_is_made(cli, text):
    done = cli("append", "new.db", "A", text)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: DATA is not JSON")
    assert "\nhint: " in done.err
    assert not Path("new.db").exists()


def test_a_refused_append_exits_with_1_and_says_why(cli, school):
    done = cli("append", school, "A", "{}", "--fail-if-type", "CourseDefined", "--fail-if-tag", "course:c2")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: event 2 (CourseDefined) matches the append condition")
    assert "\nhint: " in done.err
    assert cli("head", school).rows == [{"head": 5}]


def test_with_json_a_refusal_is_one_json_line_on_stderr(cli, school):
    done = cli("append", school, "A", "{}", "--fail-if-tag", "course:c2", "--json")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    told = json.loads(done.err)
    assert (told["code"], told["retry"], told["conflict"]) == ("append_condition_failed", "decide", 2)
    assert told["message"]
    assert told["hint"]


def test_after_limits_what_the_condition_looks_at(cli, school):
    guarded = ("append", school, "A", "{}", "--fail-if-tag", "course:c2", "--after")
    assert cli(*guarded, 1).code == 1
    assert cli(*guarded, 2).code == 0


@pytest.mark.parametrize(("query", "code"), [('{"items": [{"types": ["B"]}]}', 0), (ANY_A, 1)])
def test_a_whole_query_can_be_the_condition(cli, query, code):
    assert cli("append", "new.db", "A", "{}").code == 0
    assert cli("append", "new.db", "A", "{}", "--fail-if-events-match", query).code == code


def test_both_forms_of_the_condition_refuse(cli, school):
    either = ("--fail-if-events-match", ANY_A, "--fail-if-tag", "course:c2")
    assert cli("append", school, "B", "{}", *either, "--after", 2).code == 0
    assert cli("append", school, "B", "{}", *either, "--after", 1).code == 1
    assert cli("append", school, "A", "{}").code == 0
    assert cli("append", school, "B", "{}", *either, "--after", 2).code == 1


def test_unless_exists_writes_once(cli):
    first = cli("append", "new.db", "A", "{}", "--unless-exists", ANY_A)
    again = cli("append", "new.db", "A", "{}", "--unless-exists", ANY_A)
    assert (first.code, again.code) == (0, 0)
    assert [done.rows[0]["duplicate"] for done in (first, again)] == [False, True]
    assert only_event().position == 1


def test_the_same_id_again_is_a_repeat_and_other_data_a_conflict(cli):
    assert cli("append", "new.db", "A", "{}", "--id", ID).code == 0
    assert cli("append", "new.db", "A", "{}", "--id", ID).rows[0]["duplicate"] is True
    done = cli("append", "new.db", "A", "[]", "--id", ID)
    assert done.code == 1
    assert only_event().data == b"{}"


@pytest.mark.parametrize(
    "options",
    [
        ["--after", "1"],
        ["--metadata", "novalue"],
        ["--id", "7"],
        ["--tag", "$mine"],
        ["--tag", "a\x1b[31mb"],
        ["--fail-if-events-match", "{"],
        ["--fail-if-events-match", '{"items": []}'],
        ["--unless-exists", '{"item": []}'],
        ["--fail-if-tag", "t", "--after", "-1"],
        ["--fail-if-type", "Z", "--after", "9"],
    ],
)
def test_bad_options_exit_with_2_and_make_no_store(cli, options):
    done = cli("append", "new.db", "A", "{}", *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert "\x1b" not in done.err
    assert not Path("new.db").exists()


@pytest.mark.parametrize("arguments", [["A", DEEP], [DEEP, "--type-from", "type"]])
def test_data_that_is_nested_too_deeply_is_refused_before_a_store_is_made(cli, arguments):
    done = cli("append", "new.db", *arguments)
    assert (done.code, done.out) == (2, "")
    assert "DATA is not JSON" in done.err
    assert not Path("new.db").exists()


def test_an_event_needs_a_type(cli):
    done = cli("append", "new.db")
    assert done.code == 2
    assert "type" in done.err


def test_the_store_of_the_environment_takes_events(cli, monkeypatch):
    monkeypatch.setenv("STRANDLINE_URL", "new.db")
    assert cli("append", "A", '{"x": 1}').code == 0
    assert only_event().json() == {"x": 1}


def test_a_named_store_wins_over_that_of_the_environment(cli, monkeypatch):
    monkeypatch.setenv("STRANDLINE_URL", "new.db")
    assert cli("append", "other.db", "A", "{}").code == 0
    assert cli("append", "other.db", "B").code == 0
    assert cli("head", "other.db").rows == [{"head": 2}]
    assert not Path("new.db").exists()


def test_a_lone_word_is_the_type_if_the_environment_names_the_store(cli, monkeypatch):
    monkeypatch.setenv("STRANDLINE_URL", "new.db")
    assert cli("append", "A").code == 0
    assert only_event().type == "A"


ORDER = '{"meta": {"kind": "OrderPlaced", "id": "01890a5d-ac96-774b-bcce-b302099a8057"},  "orderId": "o1"}'


def test_any_object_is_an_event_if_its_type_can_be_found(cli):
    paths = ("--type-from", "meta.kind", "--tag-from", "order=orderId", "--id-from", "meta.id")
    assert cli("append", "new.db", ORDER, *paths, "--tag", "t", "--metadata", "by=me").code == 0
    event = only_event()
    assert (event.type, event.tags, event.id) == ("OrderPlaced", ("order:o1", "t"), UUID(ID))
    assert (event.data, event.metadata) == (ORDER.encode(), {"by": "me"})
    assert cli("append", "new.db", ORDER, *paths, "--tag", "t").rows[0]["duplicate"] is True
    other = "01890a5d-ac96-774b-bcce-b302099a8058"
    own = ("--id", other, "--stream", "s", "--subject", "u", "--fail-if-tag", "order:o1", "--after", 1)
    assert cli("append", "new.db", ORDER, *paths, *own).code == 0
    with strandline.connect("new.db") as store:
        (event,) = store.read(after=1)
    assert (event.id, event.stream, event.subject) == (UUID(other), "s", "u")


def test_a_path_through_a_list_gives_a_tag_for_each_object_in_it(cli):
    order = '{"type": "OrderPlaced", "items": [{"sku": "a"}, {"sku": "b"}]}'
    assert cli("append", "new.db", order, "--type-from", "type", "--tag-from", "sku=items.sku").code == 0
    assert only_event().tags == ("sku:a", "sku:b")


def test_an_object_comes_from_a_pipe_or_a_file_too(process):
    Path("order.json").write_text(ORDER)
    assert process("append", "new.db", "--type-from", "meta.kind", stdin=ORDER.encode()).code == 0
    assert process("append", "new.db", "@order.json", "--type-from", "meta.kind").code == 0
    assert process("append", ORDER, "--type-from", "meta.kind", STRANDLINE_URL="new.db").code == 0
    piped = process("append", "--type-from", "orderId", stdin=ORDER.encode(), STRANDLINE_URL="new.db")
    assert piped.rows[0]["position"] == 4
    with strandline.connect("new.db") as store:
        assert [event.type for event in store.read()] == ["OrderPlaced"] * 3 + ["o1"]
        assert {event.data for event in store.read()} == {ORDER.encode()}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((ORDER, "--type-from", "kind"), "no type at 'kind'"),
        ((ORDER, "--type-from", "meta."), "not a path"),
        ((ORDER, "--type-from", "orderId", "--id-from", "meta.uuid"), "no id at 'meta.uuid'"),
        (("[]", "--type-from", "kind"), "not a JSON object"),
        (("A", ORDER, "--type-from", "meta.kind"), "the type is in DATA"),
        ((ORDER, "--type-from", "meta.kind", "--tag-from", "orderId"), "PREFIX=PATH"),
        ((ORDER, "--type-from", "meta.kind", "--tag-from", "a=b", "--tag-from", "a=c"), "each prefix once"),
        (("A", ORDER, "--tag-from", "order=orderId"), "go with --type-from"),
        (("A", ORDER, "--id-from", "meta.id"), "go with --type-from"),
    ],
)
def test_an_object_that_is_no_event_is_refused_before_a_store_is_made(cli, arguments, told):
    done = cli("append", "new.db", *arguments)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "\nhint: " in done.err
    assert not Path("new.db").exists()


def test_data_over_the_limit_is_refused_before_a_store_is_made(cli):
    Path("large").write_bytes(b"x" * 1_100_000)
    done = cli("append", "new.db", "A", "@large", "--bytes")
    assert (done.code, done.out) == (2, "")
    assert "the limit is" in done.err
    assert not Path("new.db").exists()


@pytest.mark.parametrize("data", ["{}", '{"a": 1}', "[]", "7", "-", "@event.json"])
def test_data_in_the_place_of_the_type_is_refused_before_a_store_is_made(cli, data):
    done = cli("append", "CourseDefined", data)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: TYPE is {data!r}, which is data: the store is missing\n"
        "hint: run: strandline append URL CourseDefined '{…}', or set STRANDLINE_URL=school.db\n"
    )
    assert list(Path().iterdir()) == []


def test_an_object_in_the_place_of_the_store_is_refused_before_a_store_is_made(process):
    done = process("append", '{"kind": "A"}', "--type-from", "kind")
    assert (done.code, done.out) == (2, "")
    assert "which is data: the store is missing" in done.err
    assert list(Path().iterdir()) == []
