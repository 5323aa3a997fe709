"""What a server takes on, and the audit file."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from serving import Client, serving

from raw import connected, read_all, request, statuses
from strandline import Event, EventStore, InvalidInput
from strandline.server import app
from strandline.server.audit import Audit
from strandline.server.exchange import Limits
from strandline.server.load import MOST_CALLERS, Rate, neighbourhood
from strandline.server.problem import TooManyRequests
from strandline.server.tokens import create_token

EVENTS = "/v1/logs/default/events"


def half_a_body(size: int = 100, body: bytes = b"{") -> bytes:
    return request(EVENTS, f"content-length: {size}", method="POST", body=body)


def test_requests_beyond_the_bound_are_refused_and_probes_are_not(store: EventStore) -> None:
    with serving(app(store, limits=Limits(requests=3))) as client, contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(connected(client.port)) for _ in range(3)]
        for connection in waiting:
            connection.sendall(half_a_body())
        reply = wait_for(client, 503)
        assert (reply.json["code"], reply.json["retry"], reply.headers["retry-after"]) == (
            "overloaded",
            "same",
            "1",
        )
        assert client.get("/healthz").status == client.get("/readyz").status == 200
        waiting[0].close()
        wait_for(client, 200)


def wait_for(client: Client, status: int) -> Any:
    deadline = time.monotonic() + 20
    while (reply := client.get("head")).status != status:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return reply


def test_bodies_hold_no_more_bytes_than_the_bound(store: EventStore) -> None:
    application = app(store, limits=Limits(held_bytes=1_000_000))
    with serving(application) as client, contextlib.ExitStack() as stack:
        large = {"events": [{"type": "T", "data": "x" * 500_000}]}
        assert client.post("events", large).status == 201
        first = stack.enter_context(connected(client.port))
        first.sendall(half_a_body(700_001, b" " * 700_000))
        deadline = time.monotonic() + 20
        while application._service.load.held_bytes < 700_000:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        reply = client.post("events", large)
        assert (reply.status, reply.json["code"]) == (503, "overloaded")
        lines = client.post("appends", json.dumps(large).encode() + b"\n").lines
        assert [line["status"] for line in lines] == [503]
        assert client.post("events", {"events": [{"type": "T", "data": 1}]}).status == 201
        first.close()
        while client.post("events", large).status != 201:
            assert time.monotonic() < deadline
        assert client.post("appends", json.dumps(large).encode() + b"\n").lines[0]["count"] == 1


def test_large_answers_count_until_they_are_taken(store: EventStore) -> None:
    store.append([Event("T", "x" * 100_000) for _ in range(150)])
    with serving(app(store, limits=Limits(held_bytes=20_000_000))) as client, contextlib.ExitStack() as stack:
        slow = stack.enter_context(connected(client.port))
        slow.sendall(request(EVENTS))
        assert slow.recv(15) == b"HTTP/1.1 200 OK"
        assert client.get("events").status == 503
        assert client.get("events?limit=1").status == 200
        assert len(read_all(slow)) > 10_000_000
        deadline = time.monotonic() + 20
        while client.get("events").status != 200:
            assert time.monotonic() < deadline


def test_a_rate_is_kept_and_says_when_to_come_again(store: EventStore, tmp_path: Path) -> None:
    path = str(tmp_path / "tokens.json")
    secrets = [create_token(path, ["read"])[1] for _ in range(2)]
    with serving(app(store, tokens=path, rate=5)) as client:
        holders = [{"authorization": f"Bearer {secret}"} for secret in secrets]
        replies = [client.get("head", **holders[0]) for _ in range(20)]
        refused = [reply for reply in replies if reply.status == 429]
        assert replies[0].status == 200
        assert refused
        assert refused[0].json["code"] == "too_many_requests"
        assert refused[0].headers["retry-after"] == "1"
        assert client.get("head", **holders[1]).status == 200
        strangers = [client.get("head").status for _ in range(20)]
        assert strangers[0] == 401
        assert 429 in strangers
        assert {client.get("/healthz").status for _ in range(20)} == {200}
        time.sleep(1.1)
        assert client.get("head", **holders[0]).status == 200


def test_logins_have_the_rate_of_their_address(store: EventStore, tmp_path: Path) -> None:
    path = str(tmp_path / "tokens.json")
    create_token(path, ["read"])
    with serving(app(store, tokens=path, rate=2)) as client:
        form = {"content_type": "application/x-www-form-urlencoded"}
        answers = [client.send("POST", "/login", b"csrf=a&token=b", **form).status for _ in range(10)]
        assert answers[0] == 403
        assert 429 in answers


def test_an_address_that_a_client_claims_does_not_count(store: EventStore) -> None:
    with serving(app(store, rate=3)) as client:
        answers = [client.get("head", x_forwarded_for=f"192.0.2.{number}").status for number in range(20)]
        assert 429 in answers


def test_a_rate_lets_bursts_of_a_second_through() -> None:
    rate = Rate(100)
    passed = 0
    began = time.monotonic()
    while time.monotonic() - began < 0.5:
        with contextlib.suppress(TooManyRequests):
            rate.check("a")
            passed += 1
    assert 100 <= passed <= 100 + 100 * (time.monotonic() - began) + 1


def test_a_slow_rate_takes_one_request_at_a_time() -> None:
    rate = Rate(0.1)
    rate.check("a")
    with pytest.raises(TooManyRequests) as refused:
        rate.check("a")
    assert 5 < refused.value.seconds <= 10


def test_many_callers_do_not_fill_the_memory() -> None:
    rate = Rate(0.001)
    for number in range(MOST_CALLERS * 3):
        rate.check(str(number))
    assert len(rate._ends) <= MOST_CALLERS
    with pytest.raises(TooManyRequests):
        rate.check(str(MOST_CALLERS * 3 - 1))


@pytest.mark.parametrize("per_second", [0, -1, float("nan")])
def test_a_rate_that_is_none_is_refused(store: EventStore, per_second: float) -> None:
    with pytest.raises(InvalidInput):
        app(store, rate=per_second)


def test_addresses_of_one_network_are_one_caller() -> None:
    assert neighbourhood("192.0.2.1") == "192.0.2.1"
    assert neighbourhood("::ffff:192.0.2.1") == "192.0.2.1"
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::ffff:1") == "2001:db8::/64"
    assert neighbourhood("") == ""


def test_changes_are_in_the_audit_file_and_appends_are_not(store: EventStore, tmp_path: Path) -> None:
    path, audit = str(tmp_path / "tokens.json"), tmp_path / "audit.ndjson"
    token, secret = create_token(path, ["read", "append", "manage"], note="ops")
    _, reader = create_token(path, ["read"])
    store.append(Event("T", 1))
    store.follower("mails").catch_up(lambda events, tx: None)
    with serving(app(store, tokens=path, audit=audit)) as client:
        own = {"authorization": f"Bearer {secret}"}
        assert client.post("events", {"events": [{"type": "T", "data": "payload"}]}, **own).status == 201
        assert client.get("events", **own).status == 200
        assert client.post("retags", {"positions": [1], "add": ["vip"]}, **own).status == 201
        assert client.post("retags", {"positions": [99], "add": ["vip"]}, **own).status == 422
        assert client.post("followers/mails/pause", b"", **own).status == 200
        assert client.get("followers/mails/dead-letters", **own).status == 200
        assert (
            client.post("retags", {"positions": [1], "add": ["x"]}, authorization=f"Bearer {reader}").status
            == 403
        )
        assert client.post("retags", {"positions": [1], "add": ["x"]}).status == 401
        assert client.post("retags", {"positions": [*range(1, 9_999)], "add": ["x"]}, **own).status == 422
    assert stat.S_IMODE(os.stat(audit).st_mode) == 0o600
    text = audit.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["what"], line["status"]) for line in lines] == [
        ("retag", 201),
        ("retag", 422),
        ("pause", 200),
        ("retag", 403),
        ("retag", 422),
    ]
    first = lines[0]
    assert (first["who"], first["note"], first["address"]) == (token.id, "ops", "127.0.0.1")
    assert (first["log"], first["request"]["positions"], first["request"]["add"]) == ("default", [1], ["vip"])
    assert first["result"]["first"] == 3
    assert lines[2]["path"] == {"name": "mails"}
    assert lines[4]["request"].keys() == {"bytes"}
    assert secret not in text
    assert "payload" not in text


def test_an_audit_file_that_others_read_is_refused(store: EventStore, tmp_path: Path) -> None:
    (tmp_path / "audit").touch(0o644)
    with pytest.raises(InvalidInput) as refused:
        app(store, audit=tmp_path / "audit")
    assert "chmod 600" in refused.value.hint


def test_lines_that_are_written_at_once_are_whole_and_the_file_may_be_moved(
    store: EventStore, tmp_path: Path
) -> None:
    store.append(Event("T", 1))
    with serving(app(store, audit=tmp_path / "audit")) as client:

        def retag(number: int) -> None:
            assert client.post("retags", {"positions": [1], "add": [f"t:{number}"]}).status == 201

        for begin in (0, 10):
            threads = [threading.Thread(target=retag, args=(begin + number,)) for number in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            os.rename(tmp_path / "audit", tmp_path / f"audit.{begin}")
    for begin in (0, 10):
        lines = [json.loads(line) for line in (tmp_path / f"audit.{begin}").read_text().splitlines()]
        assert len(lines) == 10
        assert {line["who"] for line in lines} == {None}


def test_an_audit_file_that_cannot_be_written_is_an_error_in_the_log(
    store: EventStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").mkdir()
    store.append(Event("T", 1))
    application = app(store, audit=tmp_path / "folder/audit")
    (tmp_path / "folder/audit").unlink()
    (tmp_path / "folder").rmdir()
    with serving(application) as client:
        assert client.post("retags", {"positions": [1], "add": ["a"]}).status == 201
    assert "audit" in caplog.text
    with pytest.raises(OSError, match="No such file"):
        Audit(tmp_path / "nowhere/audit")


def test_statuses_are_told_from_bytes() -> None:
    assert statuses(b"HTTP/1.1 200 OK\r\n\r\n{}HTTP/1.1 404 Not Found\r\n") == [200, 404]
