"""The HTTP API against a real server: what each request answers."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import Client, serving

import strandline
from strandline import AppendCondition, Event, EventStore, Query, SequencedEvent
from strandline.server import app


def seat(number: int, guest: str = "ada") -> dict[str, Any]:
    return {"type": "SeatTaken", "data": {"guest": guest}, "tags": [f"seat:{number}"]}


SEAT_1 = {"items": [{"types": ["SeatTaken"], "tags": ["seat:1"]}]}
NEVER = {"fail_if_events_match": SEAT_1, "after": 0}


def test_an_append_answers_its_positions(everywhere: Client) -> None:
    reply = everywhere.post("events", {"events": [seat(1), seat(2)]})
    assert (reply.status, reply.json) == (201, {"first": 1, "last": 2, "count": 2, "duplicate": False})


def test_a_read_hands_over_the_condition_to_append_with(everywhere: Client) -> None:
    everywhere.post("events", {"events": [seat(2)]})
    read = everywhere.post("read", {"query": SEAT_1}).json
    assert (read["events"], read["head"], read["next"]) == ([], 1, None)
    assert everywhere.post("events", {"events": [seat(1)], "condition": read["condition"]}).status == 201
    refused = everywhere.post("events", {"events": [seat(1)], "condition": read["condition"]})
    assert refused.status == 409
    assert refused.headers["content-type"] == "application/problem+json"
    problem = refused.json
    assert (problem["code"], problem["retry"], problem["status"]) == (
        "append_condition_failed",
        "decide",
        409,
    )
    assert problem["part"] == read["condition"]
    assert problem["conflict"]["position"] == 2
    assert problem["conflicts"] == [problem["conflict"]]
    assert problem["complete"] is True
    assert everywhere.post("events", {"events": [seat(1)], "condition": problem["condition"]}).status == 201
    assert everywhere.get("head").json == {"head": 3}


def test_after_a_retag_there_is_no_renewed_condition(everywhere: Client) -> None:
    everywhere.post("events", {"events": [seat(1)]})
    condition = everywhere.post("read", {"query": SEAT_1}).json["condition"]
    everywhere.post("retags", {"positions": [1], "add": ["vip"]})
    problem = everywhere.post("events", {"events": [seat(1)], "condition": condition}).json
    assert problem["conflict"]["type"] == "$retagged"
    assert (problem["complete"], problem["condition"]) == (False, None)


def test_a_check_is_a_dry_run(everywhere: Client) -> None:
    assert everywhere.post("check", {"condition": NEVER}).json["holds"] is True
    everywhere.post("events", {"events": [seat(1)]})
    found = everywhere.post("check", {"condition": NEVER}).json
    assert (found["holds"], found["part"], found["item"], found["head"]) == (False, 0, 0, 1)
    assert found["conflict"]["position"] == 1
    assert found["condition"] == NEVER | {"after": 1}
    without = everywhere.post("check", {"condition": NEVER, "conflicts": 0}).json
    assert (len(found["conflicts"]), without["conflicts"], without["complete"]) == (1, [], False)
    refused = everywhere.post("check", {"condition": NEVER | {"after": 9}})
    assert refused.status == 422
    assert everywhere.get("head").json == {"head": 1}


def test_an_event_is_found_by_its_position_and_by_its_id(everywhere: Client) -> None:
    everywhere.post("events", {"events": [seat(1)]})
    event = everywhere.get("events/1").json
    assert (event["type"], event["position"]) == ("SeatTaken", 1)
    assert everywhere.get(f"events/id/{event['id']}").json == event
    for path in ("events/2", "events/99999999999999999999", "events/id/0190a8f0-0000-7000-8000-00000000000f"):
        assert everywhere.get(path).status in {404, 422}
    assert everywhere.get("events/x").status == 422
    assert everywhere.get("events/id/x").status == 422


def test_an_append_tracks_the_position_of_a_source(everywhere: Client) -> None:
    assert everywhere.get("tracking/orders").status == 404
    assert everywhere.post("events", {"events": [seat(1)], "tracking": ["orders", 17]}).status == 201
    assert everywhere.post("events", {"events": [], "tracking": ["orders", 18]}).json["count"] == 0
    assert everywhere.get("tracking/orders").json == {"position": 18}
    refused = everywhere.post("events", {"events": [seat(2)], "tracking": ["orders", 18]})
    assert (refused.status, refused.json["code"], refused.json["tracked"]) == (409, "tracking_conflict", 18)
    answered = everywhere.get("events/1").json
    assert answered["tracking"] == ["orders", 17]
    assert everywhere.get("head").json == {"head": 1}


def test_types_and_tags_come_in_pages(everywhere: Client) -> None:
    everywhere.post(
        "events", {"events": [seat(1), seat(2), {"type": "Closed", "data": 1, "tags": ["seat:2"]}]}
    )
    types = everywhere.get("types?limit=1").json
    assert types == {"types": [{"type": "Closed", "count": 1, "first": 3, "last": 3}], "next": "Closed"}
    rest = everywhere.get("types?limit=1&after=Closed").json
    assert rest == {"types": [{"type": "SeatTaken", "count": 2, "first": 1, "last": 2}], "next": None}
    tags = everywhere.get("tags?prefix=seat:").json["tags"]
    assert [(row["tag"], row["count"]) for row in tags] == [("seat:1", 1), ("seat:2", 2)]


def test_an_append_that_was_refused_is_not_in_the_log(everywhere: Client) -> None:
    everywhere.post("events", {"events": [seat(1)]})
    assert everywhere.post("events", {"events": [seat(1)], "condition": NEVER}).status == 409
    assert everywhere.get("head").json == {"head": 1}


def test_the_same_append_again_is_a_repeat(everywhere: Client) -> None:
    event = seat(1) | {"id": "0190a8f0-0000-7000-8000-000000000001"}
    first = everywhere.post("events", {"events": [event], "condition": NEVER})
    again = everywhere.post("events", {"events": [event], "condition": NEVER})
    assert (first.status, again.status) == (201, 200)
    assert again.json == first.json | {"duplicate": True}
    other = everywhere.post("events", {"events": [event | {"data": 2}]})
    assert (other.status, other.json["code"]) == (409, "event_id_conflict")


def test_unless_exists_answers_the_append_that_was_there(everywhere: Client) -> None:
    everywhere.post("events", {"events": [seat(1)]})
    reply = everywhere.post("events", {"events": [seat(1, "bob")], "unless_exists": SEAT_1})
    assert (reply.status, reply.json["first"], reply.json["duplicate"]) == (200, 1, True)


def test_events_are_those_of_an_embedded_read(everywhere: Client) -> None:
    event = seat(1) | {"metadata": {"user": "ada"}, "stream": "seats", "subject": "row/1"}
    everywhere.post("events", {"events": [event]})
    (answered,) = everywhere.get("events").json["events"]
    read = SequencedEvent.from_json(json.dumps(answered))
    assert (read.position, read.type, read.tags) == (1, "SeatTaken", ("seat:1",))
    assert (read.stream, read.subject, dict(read.metadata)) == ("seats", "row/1", {"user": "ada"})


def test_bytes_go_and_come_as_base64(client: Client, store: EventStore) -> None:
    client.post("events", {"events": [{"type": "T", "data_base64": "AP8="}]})
    assert next(iter(store.read())).data == b"\x00\xff"
    assert client.get("events").json["events"][0]["data_base64"] == "AP8="


def test_data_written_over_several_lines_is_json_all_the_same(client: Client) -> None:
    client.post("events", b'{"events": [{"type": "T", "data": {\n  "text": "a\\nb"\r\n}}]}')
    assert client.get("events").json["events"][0]["data"] == {"text": "a\nb"}


@pytest.mark.parametrize(
    ("parameters", "positions"),
    [
        ("type=A", [1, 3]),
        ("type=A&type=B", [1, 2, 3]),
        ("tag=x:1", [1, 2]),
        ("tag=x:1&tag=y:1", [2]),
        ("exclude_type=A", [2]),
        ("stream=s", [3]),
        ("subject=u", [1]),
        ("where=%7B%22n%22%3A%7B%22%24gte%22%3A2%7D%7D", [2, 3]),
        ("query=%7B%22items%22%3A%5B%7B%22types%22%3A%5B%22B%22%5D%7D%5D%7D", [2]),
        ("after=1&until=2", [2]),
        ("backwards=true&limit=2", [3, 2]),
        ("at=2000-01-01T00:00:00Z", []),
        ("at=2999-01-01T00:00:00%2B01:00", [1, 2, 3]),
    ],
)
def test_parameters_choose_events(
    client: Client, store: EventStore, parameters: str, positions: list[int]
) -> None:
    store.append(Event("A", {"n": 1}, tags=["x:1"], subject="u"))
    store.append(Event("B", {"n": 2}, tags=["x:1", "y:1"]))
    store.append(Event("A", {"n": 3}), stream="s")
    events = client.get(f"events?{parameters}").json["events"]
    assert [event["position"] for event in events] == positions


def test_pages_lead_from_one_to_the_next_up_to_the_same_head(everywhere: Client) -> None:
    everywhere.post("events", {"events": [{"type": "T", "data": n} for n in range(2_500)]})
    page = everywhere.post("read", {}).json
    everywhere.post("events", {"events": [{"type": "Late", "data": 0}]})
    positions = []
    while True:
        positions += [event["position"] for event in page["events"]]
        assert page["head"] == 2_500
        if page["next"] is None:
            break
        assert page["condition"] is None  # nobody decides on half of what there is
        page = everywhere.post("read", page["next"]).json
    assert positions == list(range(1, 2_501))
    assert page["condition"]["after"] == 2_500


def test_pages_go_backwards_too(client: Client, store: EventStore) -> None:
    store.append([Event("T", n) for n in range(5)])
    page = client.get("events?backwards=true&limit=2").json
    positions = [event["position"] for event in page["events"]]
    assert page["condition"]["after"] == 5  # the caller chose the limit
    while page["next"] is not None:
        page = client.post("read", page["next"]).json
        positions += [event["position"] for event in page["events"]]
    assert positions == [5, 4, 3, 2, 1]


def test_a_page_of_large_events_is_cut_and_carries_no_condition(client: Client, store: EventStore) -> None:
    store.append([Event("T", b"x" * 1024 * 1024) for _ in range(20)])
    page = client.get("events?limit=20").json
    assert 0 < len(page["events"]) < 20
    assert page["condition"] is None
    rest = client.post("read", page["next"]).json
    assert len(page["events"]) + len(rest["events"]) == 20


def test_a_stream_of_lines_ends_with_the_condition(everywhere: Client) -> None:
    everywhere.post("events", {"events": [{"type": "T", "data": n} for n in range(1_200)]})
    reply = everywhere.get("events", accept="application/x-ndjson")
    assert reply.headers["content-type"] == "application/x-ndjson"
    *events, end = reply.lines
    assert [line["event"]["position"] for line in events] == list(range(1, 1_201))
    assert end == {
        "end": {"head": 1_200, "condition": {"after": 1_200, "fail_if_events_match": {"items": [{}]}}}
    }
    assert everywhere.get("events?format=ndjson&limit=1").lines[1]["end"]["head"] == 1_200


def test_an_unknown_accept_means_json(client: Client) -> None:
    for accept in ("*/*", "image/png", "application/x-ndjson;q=0, application/json", "", ";;,q=x"):
        assert client.get("events", accept=accept).headers["content-type"] == "application/json"


def test_the_method_query_reads(client: Client, store: EventStore) -> None:
    store.append(Event("A", 1))
    assert len(client.send("QUERY", "events", {"query": {"items": [{"types": ["A"]}]}}).json["events"]) == 1


def test_exists_and_count(everywhere: Client) -> None:
    everywhere.post("events", {"events": [seat(1), seat(2)]})
    assert everywhere.post("exists", {"query": SEAT_1}).json == {"exists": True}
    assert everywhere.post("exists", {"query": SEAT_1, "after": 1}).json == {"exists": False}
    assert everywhere.post("count", {"query": SEAT_1}).json == {"count": 1}
    assert everywhere.post("count", {"query": SEAT_1, "after": 1}).json == {"count": 0}
    assert everywhere.post("count", {}).json == {"count": 2}


def test_figures_of_a_log(everywhere: Client) -> None:
    everywhere.post("events", {"events": [seat(1)]})
    described = everywhere.get("").json
    assert described["uuid"] == described["stats"]["log"]
    assert described["engine"] in {"memory", "sqlite", "postgres", "postgresql"}
    assert described["stats"]["head"] == 1
    assert everywhere.get("/v1/logs/default").json["uuid"] == described["uuid"]
    assert everywhere.get("positions?at=2999-01-01T00:00:00Z").json == {"position": 1}


def test_retags(everywhere: Client) -> None:
    everywhere.post("events", {"events": [seat(1)]})
    reply = everywhere.post("retags", {"query": SEAT_1, "add": ["vip"]})
    assert (reply.status, reply.json["count"]) == (201, 1)
    reply = everywhere.post("retags", {"positions": [1], "replace": {"seat": ["seat:2"]}})
    assert reply.json["count"] == 1
    assert everywhere.get("events?type=SeatTaken").json["events"][0]["tags"] == ["seat:seat:2", "vip"]
    refused = everywhere.post("retags", {"add": ["vip"]})
    assert (refused.status, refused.json["path"]) == (422, "$.query")


def test_the_recorded_appends_come_with_their_conditions(everywhere: Client) -> None:
    everywhere.post("events", {"events": [seat(1)], "condition": NEVER})
    everywhere.post("events", {"events": [seat(2)]})
    first, second, end = everywhere.get("appends").lines
    assert (first["first"], first["last"], first["status"]) == (1, 1, "recorded")
    assert AppendCondition.from_json(json.dumps(first["condition"])) == AppendCondition(
        Query.from_json(json.dumps(SEAT_1))
    )
    assert (second["condition"], second["status"]) == (None, "unconditional")
    assert end == {"end": {"head": 2}}
    assert everywhere.get("appends?after=1").lines == [second, end]
    assert everywhere.get("appends?until=1").lines == [first, end]
    assert everywhere.get("appends?backwards=true&limit=1").lines == [second, end]
    assert everywhere.get("appends/2").json == second
    assert everywhere.get("appends/9").json["code"] == "not_found"


def test_many_appends_are_answered_line_by_line(everywhere: Client) -> None:
    lines = [
        json.dumps({"events": [seat(1)], "condition": NEVER}),
        "not json",
        json.dumps({"events": [seat(1)], "condition": NEVER}),
        "",
        json.dumps({"events": [{"type": "T", "data": 1, "tags": [""]}]}),
        json.dumps({"events": [{"type": "T", "data": "x" * 2_000_000}]}),
        json.dumps({"events": [seat(3), seat(4)]}),
    ]
    reply = everywhere.post("appends", "\n".join(lines).encode(), content_type="application/x-ndjson")
    answers = reply.lines
    assert [answer.get("status") for answer in answers] == [None, 422, 409, 422, 422, 413, None]
    assert (answers[0]["first"], answers[6]["first"], answers[6]["last"]) == (1, 2, 3)
    assert answers[4]["path"] == "$.events[0].tags[0]"
    assert answers[5]["path"] == "$.events"
    assert answers[2]["conflict"]["position"] == 1
    assert everywhere.get("head").json == {"head": 3}


def test_a_client_may_send_all_lines_before_it_reads_an_answer(tmp_path: Path) -> None:
    line = json.dumps({"events": [{"type": "T", "data": 1}]}).encode() + b"\n"
    # In memory an append looks at all events: 60,000 of them would take minutes.
    with strandline.connect(tmp_path / "log.db") as store, serving(app(store)) as client:
        reply = client.post("appends", line * 60_000, content_type="application/x-ndjson")
    assert [answer["first"] for answer in reply.lines] == list(range(1, 60_001))


def test_a_line_is_answered_before_the_next_one_is_sent(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), 10) as connection:
        head = f"POST {client.base}/appends HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        answers = connection.makefile("rb")
        line = b'{"events":[{"type":"T","data":1}]}\n'
        for expected in (1, 2, 3):
            connection.sendall(b"%x\r\n%b\r\n" % (len(line), line))
            while not (answer := answers.readline()).startswith(b"{"):
                pass
            assert json.loads(answer)["first"] == expected


def test_traces_come_back_and_are_stored_on_request(client: Client, store: EventStore) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    reply = client.post("events", {"events": [seat(1)]}, traceparent=parent)
    assert reply.headers["traceparent"] == parent
    client.post("events", {"events": [seat(2)]}, traceparent=parent, strandline_trace="store")
    assert [dict(event.metadata) for event in store.read()] == [{}, {"traceparent": parent}]


def test_several_logs_by_name(tmp_path: Any) -> None:
    with (
        strandline.connect("memory:") as orders,
        serving(app({"orders": orders, "school": tmp_path / "school.db"})) as client,
    ):
        assert client.get("/v1/logs").json == {"logs": ["orders", "school"]}
        client.post("/v1/logs/school/events", {"events": [seat(1)]})
        assert client.get("/v1/logs/school/head").json == {"head": 1}
        assert client.get("/v1/logs/orders/head").json == {"head": 0}
        missing = client.get("/v1/logs/other/head")
        assert (missing.status, missing.json["code"]) == (404, "not_found")


def test_a_read_only_server_takes_no_changes(store: EventStore) -> None:
    with serving(app(store, read_only=True)) as client:
        for path, body in (("events", {"events": [seat(1)]}), ("retags", {"positions": [1], "add": ["x"]})):
            assert client.post(path, body).status == 403
        assert client.post("read", {}).status == 200
    assert store.head() == 0


def test_it_runs_below_a_path_of_another_application_and_without_a_lifespan(store: EventStore) -> None:
    store.append(Event("T", 1))

    async def mounted(path: str) -> httpx.Response:
        from starlette.applications import Starlette
        from starlette.routing import Mount

        site = Starlette(routes=[Mount("/events-api", app=app(store))])
        transport = httpx.ASGITransport(site)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.get(f"/events-api{path}")

    assert asyncio.run(mounted("/v1/logs/default/head")).json() == {"head": 1}
    assert 'href="/events-api/docs"' in asyncio.run(mounted("/")).text
    problem = asyncio.run(mounted("/v1/logs/other/head")).json()
    assert problem["type"] == "/events-api/docs#not_found"
