"""Events as rows of CSV and as Arrow columns, and what a stream that fails looks like."""

from __future__ import annotations

import csv
import http.client
import io
import json
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import Client, serving

import strandline
from strandline import AppendCondition, Event, EventStore, Query, QueryItem
from strandline.server import app
from strandline.testing.strategies import events as any_events

CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
COLUMNS = ["position", "id", "type", "tags", "stream", "subject", "data", "metadata", "recorded_at"]


def rows_of(body: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(body.decode(), newline="")))


def test_rows_are_the_events(everywhere: Client) -> None:
    event = {"type": "Taken", "data": {"guest": 'Ada "A", B\r\n'}, "tags": ["x:1", "y,2"]}
    everywhere.post(
        "events", {"events": [event | {"metadata": {"by": "me"}, "stream": "s", "subject": "u"}, event]}
    )
    reply = everywhere.get("events", accept=CSV)
    assert reply.headers["content-type"] == CSV
    header, *_ = reply.body.split(b"\r\n")
    assert header.decode().split(",") == COLUMNS
    first, second = rows_of(reply.body)
    for row, answered in zip((first, second), everywhere.get("events").json["events"], strict=True):
        assert int(row["position"]) == answered["position"]
        assert [row["id"], row["type"]] == [answered["id"], answered["type"]]
        assert [row["stream"], row["subject"]] == [answered[name] or "" for name in ("stream", "subject")]
        assert [json.loads(row[name]) for name in ("tags", "data", "metadata")] == [
            answered[name] for name in ("tags", "data", "metadata")
        ]
        assert row["recorded_at"].replace("+00:00", "Z") == answered["recorded_at"]


def test_columns_are_the_events(everywhere: Client) -> None:
    everywhere.post("events", {"events": [{"type": "T", "data": n, "tags": ["x"]} for n in range(1_200)]})
    reply = everywhere.get("events?format=arrow")
    assert reply.headers["content-type"] == ARROW
    table = pa.ipc.open_stream(reply.body).read_all()
    assert table.schema.names == COLUMNS
    assert table["position"].to_pylist() == [*range(1, 1_201)]
    assert [json.loads(data) for data in table["data"].to_pylist()] == [*range(1_200)]


def test_an_answer_without_events_has_its_columns(client: Client) -> None:
    assert client.get("events?format=csv").body == (",".join(COLUMNS) + "\r\n").encode()
    table = pa.ipc.open_stream(client.get("events?format=arrow").body).read_all()
    assert (table.schema.names, table.num_rows) == (COLUMNS, 0)


@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_head_and_condition_come_with_the_answer(client: Client, store: EventStore, form: str) -> None:
    store.append([Event("A", 1) for _ in range(3)])
    query = Query.of(QueryItem(types=["A"], tags=["naïve:☃"]))
    reply = client.send("QUERY", f"events?format={form}", {"query": json.loads(query.to_json()), "until": 2})
    assert reply.headers["strandline-head"] == "2"
    condition = AppendCondition.from_json(reply.headers["strandline-condition"])
    assert condition == AppendCondition(query, after=2)
    assert client.send("HEAD", f"events?format={form}").headers["strandline-head"] == "3"
    if form == "arrow":
        facts = pa.ipc.open_stream(reply.body).schema.metadata
        assert facts[b"head"] == b"2"
        assert AppendCondition.from_json(facts[b"condition"].decode()) == condition


def test_a_condition_that_is_too_long_for_a_header_is_left_out(client: Client, store: EventStore) -> None:
    store.append(Event("A", 1))
    query = Query([QueryItem(tags=[f"tag:{number}" * 20]) for number in range(100)])
    reply = client.post("read?format=arrow", {"query": json.loads(query.to_json())})
    assert "strandline-condition" not in reply.headers
    assert int(reply.headers["strandline-condition-too-long"]) > 4_096
    facts = pa.ipc.open_stream(reply.body).schema.metadata
    assert AppendCondition.from_json(facts[b"condition"].decode()) == AppendCondition(query, after=1)


def test_no_cell_begins_a_formula(client: Client, store: EventStore) -> None:
    formulas = ["=1+1", "+1", "-1", "@x", "'quoted", "plain"]
    store.append([Event(text, -1, tags=[text], stream=text, subject=text) for text in formulas])
    store.append(Event("bytes", b"=1+1"))
    *rows, of_bytes = rows_of(client.get("events?format=csv").body)
    for row, text in zip(rows, formulas, strict=True):
        escaped = text if text == "plain" else f"'{text}"
        assert [row["type"], row["stream"], row["subject"]] == [escaped] * 3
        assert row["data"] == "-1"
        assert json.loads(row["tags"]) == [text]
    assert of_bytes["data"] == "base64:PTErMQ=="


@settings(max_examples=50, deadline=None)
@given(st.lists(any_events(), min_size=1, max_size=5))
def test_every_event_survives_its_row(events: list[Event]) -> None:
    from strandline.server.formats import COLUMNS as NAMES
    from strandline.server.formats import _csv, _row

    with strandline.connect("memory:") as store:
        store.append(events)
        read = list(store.read())
    for row, event in zip(
        rows_of(_csv([NAMES, *(_row(event, str(event.id)) for event in read)])), read, strict=True
    ):
        assert row["type"] in (event.type, f"'{event.type}")
        assert row["id"] == str(event.id)
        assert json.loads(row["tags"]) == [*event.tags]
        assert json.loads(row["metadata"]) == dict(event.metadata)
        assert not row["data"].startswith(("=", "+", "@"))


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/csv, application/json;q=0.5", CSV),
        ("application/vnd.apache.arrow.stream;q=0.9, text/csv;q=0.1", ARROW),
        ("text/*", "application/json"),
        ("application/x-ndjson, text/csv", "application/x-ndjson"),
    ],
)
def test_accept_chooses_the_form(client: Client, accept: str, kind: str) -> None:
    assert client.get("events", accept=accept).headers["content-type"] == kind
    assert client.post("read", {}, accept=accept).headers["content-type"] == kind


BIG = 4_000
FORMS = ["ndjson", "csv", "arrow"]


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_that_fails_never_looks_complete(form: str) -> None:
    store = strandline.connect("memory:")
    store.append([Event("T", b"x" * 16_000) for _ in range(BIG)])
    with (
        serving(app(store)) as client,
        closing(http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)) as connection,
    ):
        connection.request("GET", f"{client.base}/events?format={form}")
        answer = connection.getresponse()
        assert answer.read(100)
        store.close()
        if form == "ndjson":
            *events, last = answer.read().splitlines()
            assert len(events) < BIG
            assert json.loads(last)["error"]["code"] == "store_closed"
        else:
            with pytest.raises(http.client.IncompleteRead):
                answer.read()


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_read_for_a_client_that_has_left(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = 0
    read_page = EventStore.read_page

    def counted(*arguments: Any) -> Any:
        nonlocal pages
        pages += 1
        return read_page(*arguments)

    monkeypatch.setattr(EventStore, "read_page", counted)
    with strandline.connect("memory:") as store:
        store.append([Event("T", b"x" * 16_000) for _ in range(BIG)])
        application = app(store)
        with serving(application) as client:
            with socket.create_connection(("127.0.0.1", client.port), 10) as connection:
                connection.sendall(
                    f"GET {client.base}/events?format={form} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
                )
                assert connection.recv(100)
            deadline = time.monotonic() + 20
            while application._metrics.under_way and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not application._metrics.under_way
            assert pages < 8  # of some 10 with 8 MiB each


def test_without_pyarrow_arrow_is_501_and_csv_is_fine() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
import strandline
from serving import serving
from strandline.server import app
with strandline.connect("memory:") as store, serving(app(store)) as client:
    reply = client.get("events?format=arrow")
    print(reply.status, reply.json["code"], reply.json["hint"], client.get("events?format=csv").status)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).parent,
    )
    assert ran.stdout.split("\n")[0] == "501 missing_dependency pip install 'strandline[arrow]' 200"
