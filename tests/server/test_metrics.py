"""`GET /metrics`: what it counts, what it says of logs and followers, and that nothing makes it fail or grow."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import Client, serving

import strandline
from strandline import Event, EventStore, Query
from strandline.server import app, scrape

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture(autouse=True)
def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests want the state of a log as of now."""
    monkeypatch.setattr(scrape, "LOOK_SECONDS", 0)


def values(client: Client) -> dict[str, float]:
    """Every sample by its name and labels, as in `name{a="b"}`."""
    reply = client.get("/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain")
    found = {}
    for family in text_string_to_metric_families(reply.body.decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def names(page: bytes) -> set[str]:
    return set(re.findall(r"^# TYPE (\S+) ", page.decode(), re.MULTILINE))


def append(client: Client, *types: str, **more: Any) -> int:
    return client.post("events", {"events": [{"type": type_, "data": {}} for type_ in types], **more}).status


def test_every_metric_is_in_the_docs_and_the_other_way_round(client: Client) -> None:
    documented = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(), re.MULTILINE)
    assert sorted(names(client.get("/metrics").body)) == sorted(documented)
    assert len({*documented}) == len(documented)


def test_the_docs_name_kind_and_labels(client: Client) -> None:
    rows = re.findall(r"^\| `(strandline_\w+)` \| (\w+) \|([^|]*)\|", DOCS.read_text(), re.MULTILINE)
    documented = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert documented == {each.name: (each.kind, each.labels) for each in scrape.METRICS}


def test_appends_events_repeats_and_conflicts_are_counted(client: Client) -> None:
    event = {"type": "A", "data": {}, "id": "00000000-0000-4000-8000-000000000001"}
    condition = {"fail_if_events_match": {"items": [{"types": ["A"]}]}, "after": 0}
    assert client.post("events", {"events": [event]}).status == 201
    assert client.post("events", {"events": [event]}).status == 200
    assert append(client, "B", "C", "D") == 201
    assert append(client, "A", condition=condition) == 409
    assert client.post("retags", {"positions": [1], "add": ["x"]}).status == 201
    found = values(client)
    log = '{log="default"}'
    assert found[f"strandline_appends_total{log}"] == 3
    assert found[f"strandline_events_total{log}"] == 5
    assert found[f"strandline_duplicates_total{log}"] == 1
    assert found[f"strandline_conflicts_total{log}"] == 1
    assert found[f"strandline_append_events_sum{log}"] == 5
    assert found['strandline_append_events_bucket{le="2.0",log="default"}'] == 2
    assert found['strandline_append_events_bucket{le="+Inf",log="default"}'] == 3
    assert found['strandline_problems_total{code="append_condition_failed"}'] == 1
    assert found[f"strandline_head{log}"] == 5


def test_lines_of_a_bulk_import_are_counted_each(client: Client) -> None:
    good = b'{"events": [{"type": "A", "data": {}}, {"type": "B", "data": {}}]}\n'
    assert client.post("appends", good * 3 + b"{}\n").status == 200
    found = values(client)
    assert found['strandline_appends_total{log="default"}'] == 3
    assert found['strandline_events_total{log="default"}'] == 6
    assert found['strandline_bulk_appends_sum{log="default"}'] == 4
    assert found['strandline_problems_total{code="invalid_input"}'] == 1


def test_requests_are_counted_by_the_pattern_of_their_path(client: Client) -> None:
    append(client, "A")
    client.get("events/1")
    client.get("events/2")
    client.get("/v1/logs/other/head")
    client.get("/secret-path")
    client.send("PATCH", "/healthz")
    client.send("HEAD", "/healthz")
    page = client.get("/metrics").body.decode()
    found = values(client)
    counted = "strandline_request_seconds_count"
    one_event = 'method="GET",route="/v1/logs/{log}/events/{position}"'
    assert found[f'{counted}{{{one_event},status="200"}}'] == 1
    assert found[f'{counted}{{{one_event},status="404"}}'] == 1
    assert found[f'{counted}{{method="none",route="none",status="404"}}'] == 1
    assert found[f'{counted}{{method="none",route="none",status="405"}}'] == 1
    assert found[f'{counted}{{method="HEAD",route="/healthz",status="200"}}'] == 1
    assert found['strandline_problems_total{code="not_found"}'] == 3
    for raw in ("secret-path", "PATCH", 'log="other"', "/events/1"):
        assert raw not in page


def test_a_client_that_goes_away_is_counted(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), 30) as connection:
        head = f"POST {client.base}/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n"
        connection.sendall(head.encode() + b"{")
        wait_until(lambda: values(client)["strandline_requests_under_way"] == 2)
    key = 'strandline_request_seconds_count{method="POST",route="/v1/logs/{log}/events",status="499"}'
    wait_until(lambda: values(client).get(key) == 1)
    assert values(client)["strandline_requests_under_way"] == 1  # the one that asks


def test_followers_have_their_lag_and_dead_letters(store: EventStore, client: Client) -> None:
    store.append([Event("A", {}), Event("B", {}), Event("C", {})])
    store.follower("idle", Query.all())
    store.follower("model", Query.types("A")).catch_up(pass_over)
    failing = store.follower("failing", Query.types("A"))
    failing.catch_up(fail, attempts=1, on_failure="dead_letter")
    store.follower("outbox", Query.all()).catch_up(pass_over)
    store.append(Event("D", {}))
    found = values(client)
    assert found['strandline_followers{log="default"}'] == len(store.followers())
    for status in store.followers():
        labels = f'{{follower="{status.name}",log="default"}}'
        assert found[f"strandline_follower_lag_events{labels}"] == status.lag
        assert found[f"strandline_follower_dead_letters{labels}"] == status.dead_letters
        assert found[f"strandline_follower_lag_seconds{labels}"] >= 0
    assert found['strandline_follower_dead_letters{follower="failing",log="default"}'] == 1


def pass_over(events: Any, tx: Any) -> None:
    """Do nothing with them."""


def fail(events: Any, tx: Any) -> None:
    raise ValueError("no")


def test_only_so_many_followers_have_metrics(
    store: EventStore, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape, "FOLLOWERS", 2)
    store.append(Event("A", {}))
    for name in "dcba":
        store.follower(name).catch_up(pass_over)
    found = values(client)
    assert found['strandline_followers{log="default"}'] == 4
    shown = [key for key in found if key.startswith("strandline_follower_lag_events")]
    assert [re.findall(r'follower="(\w)"', key) for key in shown] == [["a"], ["b"]]


def test_applications_in_one_process_count_for_themselves() -> None:
    with (
        strandline.connect("memory:") as one,
        strandline.connect("memory:") as other,
        serving(app(one)) as first,
        serving(app({"b": other})) as second,
    ):
        append(first, "A")
        assert values(first)['strandline_appends_total{log="default"}'] == 1
        assert values(second)['strandline_appends_total{log="b"}'] == 0
        assert 'strandline_appends_total{log="default"}' not in values(second)


@pytest.fixture
def deaf() -> Iterator[int]:
    """The port of a database that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_logs_that_fail_do_not_make_the_metrics_fail(
    store: EventStore, deaf: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape, "PATIENCE_SECONDS", 0.2)
    (tmp_path / "torn.db").write_bytes(b"this is no database" * 1000)
    closed = strandline.connect(tmp_path / "closed.db")
    closed.close()
    logs = {
        "good": store,
        "closed": closed,
        "deaf": f"postgresql://postgres@127.0.0.1:{deaf}/postgres?connect_timeout=3",
        "nobody": "postgresql://postgres@127.0.0.1:1/postgres",
        "torn": tmp_path / "torn.db",
    }
    with serving(app(logs)) as client:
        for _ in range(3):
            found = values(client)
            up = {name: found[f'strandline_log_up{{log="{name}"}}'] for name in logs}
            assert up == {"good": 1, "closed": 0, "deaf": 0, "nobody": 0, "torn": 0}
            assert {key for key in found if key.startswith("strandline_head")} == {
                'strandline_head{log="good"}'
            }


def test_a_log_is_looked_at_every_few_seconds_only(
    store: EventStore, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape, "LOOK_SECONDS", 3600)
    assert values(client)['strandline_head{log="default"}'] == 0
    store.append(Event("A", {}))
    assert values(client)['strandline_head{log="default"}'] == 0
    monkeypatch.setattr(scrape, "LOOK_SECONDS", 0)
    assert values(client)['strandline_head{log="default"}'] == 1


def test_the_process_and_the_version_are_there(client: Client) -> None:
    found = values(client)
    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found[f'strandline_build_info{{version="{strandline.__version__}"}}'] == 1
    assert found["strandline_draining"] == 0


def test_scrapers_that_want_openmetrics_get_it(client: Client) -> None:
    reply = client.get("/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    assert reply.body.endswith(b"# EOF\n")


def wait_until(is_so: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)
