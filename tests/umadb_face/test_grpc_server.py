"""The server around the calls: who may call, what it survives, how it ends, and the HTTP API beside it."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import umadb
from faces import PATIENCE_SECONDS, grpc_serving
from wire import Failure, Wire, condition, event, wired

import strandline
from strandline import Event, EventStore
from strandline.server.grpc.messages import umadb as messages
from strandline.server.tokens import create_token, revoke_token

OPENSSL = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
    *("-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
    *("-addext", "basicConstraints=critical,CA:FALSE"),
)
SERVE = [sys.executable, "-m", "strandline.cli", "serve"]
UNAUTHENTICATED = ("UNAUTHENTICATED", "AUTHENTICATION")
FORBIDDEN = ("PERMISSION_DENIED", "AUTHENTICATION")


@pytest.fixture
def store() -> Iterator[EventStore]:
    with strandline.connect("memory:") as store:
        yield store


@pytest.fixture
def tokens(tmp_path: Path) -> str:
    return str(tmp_path / "tokens.json")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run([*OPENSSL, "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=60)
    return cert, key


def bearing(secret: str, scheme: str = "Bearer") -> Any:
    return (("authorization", f"{scheme} {secret}"),)


def append(wire: Wire, given: Any, metadata: Any = None, **fields: Any) -> Any:
    return wire.call(
        "Append", messages.AppendRequest(events=[given], **fields), messages.AppendResponse, metadata=metadata
    )


def read(wire: Wire, metadata: Any = None) -> Any:
    return wire.stream("Read", messages.ReadRequest(), messages.ReadResponse, metadata=metadata)


def test_both_faces_show_one_log(store: EventStore) -> None:
    with grpc_serving(store) as served:
        client = served.client()
        subscription = client.subscribe()
        body = json.dumps({"events": [{"type": "Ordered", "data": {"n": 1}, "tags": ["b", "a"]}]}).encode()
        address = f"{served.http}/v1/logs/default/events"
        request = urllib.request.Request(address, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            assert json.load(answer)["last"] == 1
        assert next(subscription).event.tags == ["a", "b"]
        client.append([umadb.Event("Paid", b"{}", ["z", "b"])])
        with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as answer:
            events = json.load(answer)["events"]
        assert [each["tags"] for each in events] == [["a", "b"], ["b", "z"]]
        assert events[1]["metadata"] == {"$tags": "1 0"}
        subscription.cancel()


def test_appends_and_live_streams_count_in_the_metrics(store: EventStore) -> None:
    with grpc_serving(store) as served, wired(served.grpc) as wire:
        client = served.client()
        subscription = client.subscribe()
        assert wire.append(event(), event()) == 2
        assert isinstance(wire.append(event(), condition=condition()), Failure)
        next(subscription)
        with urllib.request.urlopen(f"{served.http}/metrics", timeout=PATIENCE_SECONDS) as answer:
            page = answer.read().decode()
        subscription.cancel()
    for line in (
        'strandline_appends_total{log="default"} 1.0',
        'strandline_conflicts_total{log="default"} 1.0',
        'strandline_live_streams{log="default"} 1.0',
    ):
        assert line in page


def test_the_old_path_leads_to_the_same_service(store: EventStore) -> None:
    with grpc_serving(store) as served, wired(served.grpc, "umadb.UmaDBService") as wire:
        assert wire.append(event()) == 1
        assert len(wire.events()) == 1
        assert wire.head() == 1
        assert [each.position for each in wire.next_events(1)] == [1]


def test_paths_that_there_are_not_are_unimplemented(store: EventStore) -> None:
    with grpc_serving(store) as served, wired(served.grpc) as wire, wired(served.grpc, "x.Y") as other:
        for answer in (
            wire.call("Nope", messages.HeadRequest(), messages.HeadResponse),
            other.call("Head", messages.HeadRequest(), messages.HeadResponse),
        ):
            assert answer.code == "UNIMPLEMENTED"


def test_malformed_messages_are_answered_and_never_end_the_server(store: EventStore) -> None:
    choose = random.Random(random.randrange(2**32))
    methods = ("Append", "Head", "GetTrackingInfo")
    good = messages.AppendRequest(
        events=[event(tags=["a"], uuid="0190a8f0-0000-7000-8000-000000000001", metadata=[("k", "v")])],
        condition=condition(after=5),
        tracking_info=messages.TrackingInfo(source="s", position=3),
    ).SerializeToString()
    with grpc_serving(store) as served, wired(served.grpc) as wire:
        assert wire.call("Append", b"\xff\xff\xff", messages.AppendResponse)[:2] == ("INTERNAL", None)
        for _ in range(300):
            damaged = bytearray(good[: choose.randrange(len(good) + 1)])
            for _ in range(choose.randrange(4)):
                if damaged:
                    damaged[choose.randrange(len(damaged))] = choose.randrange(256)
            answer = wire.call(choose.choice(methods), bytes(damaged), messages.AppendResponse)
            assert not isinstance(answer, Failure) or answer.code in {
                "INTERNAL",
                "INVALID_ARGUMENT",
                "FAILED_PRECONDITION",
                "DATA_LOSS",
            }, answer
        assert wire.check_health() == "SERVING"


def test_what_is_not_grpc_does_not_end_the_server(store: EventStore) -> None:
    with grpc_serving(store) as served, wired(served.grpc) as wire:
        place = ("127.0.0.1", int(served.grpc.rpartition(":")[2]))
        for garbage in (
            b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
            b"\x00" * 100,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64,
        ):
            with socket.create_connection(place, timeout=PATIENCE_SECONDS) as connection:
                connection.sendall(garbage)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass
        assert wire.append(event()) == 1


def test_a_read_only_server_takes_no_appends(store: EventStore) -> None:
    store.append(Event("Ordered", 1))
    with grpc_serving(store, read_only=True) as served, wired(served.grpc) as wire:
        assert append(wire, event())[:2] == FORBIDDEN
        assert len(wire.events()) == 1


def test_tokens_say_who_may_do_what(store: EventStore, tokens: str) -> None:
    _, reader = create_token(tokens, ["read"])
    _, writer = create_token(tokens, ["append"])
    _, elsewhere = create_token(tokens, ["read", "append"], logs=["other"])
    with grpc_serving(store, tokens=tokens) as served, wired(served.grpc) as wire:
        for metadata in (None, bearing("nope"), bearing(reader, "Basic"), bearing(reader[:-1] + "!")):
            assert read(wire, metadata)[:2] == UNAUTHENTICATED
            assert append(wire, event(), metadata)[:2] == UNAUTHENTICATED
            with pytest.raises(grpc.RpcError) as refused:
                next(wire.subscribe(metadata))
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert wire.check_health() == "SERVING"
        assert append(wire, event(), bearing(reader))[:2] == FORBIDDEN
        assert append(wire, event(tags=["a"]), bearing(writer)).position == 1
        assert read(wire, bearing(writer))[:2] == FORBIDDEN
        assert len(read(wire, bearing(reader))[0].events) == 1
        assert read(wire, bearing(elsewhere)).code == "INTERNAL"
        assert append(wire, event(), bearing(elsewhere)).code == "INTERNAL"


def test_a_token_for_append_alone_can_repeat_an_append(store: EventStore, tokens: str) -> None:
    _, writer = create_token(tokens, ["append"])
    same = event(uuid="0190a8f0-0000-7000-8000-000000000001")
    with grpc_serving(store, tokens=tokens) as served, wired(served.grpc) as wire:
        for _ in range(2):
            assert append(wire, same, bearing(writer), condition=condition()).position == 1
        nothing = messages.AppendRequest(condition=condition())
        answer = wire.call("Append", nothing, messages.AppendResponse, metadata=bearing(writer))
        assert answer[:2] == FORBIDDEN


def test_a_token_with_a_tag_sees_the_events_with_this_tag_only(store: EventStore, tokens: str) -> None:
    _, tenant = create_token(tokens, ["read", "append"], tag="tenant:7")
    with grpc_serving(store, tokens=tokens) as served, wired(served.grpc) as wire:
        store.append([Event("Ordered", 1, tags=["tenant:7"]), Event("Ordered", 2, tags=["tenant:8"])])
        (answer,) = read(wire, bearing(tenant))
        assert [each.position for each in answer.events] == [1]
        assert append(wire, event(tags=["tenant:8"]), bearing(tenant))[:2] == FORBIDDEN
        assert append(wire, event(tags=["tenant:7"]), bearing(tenant)).position == 3
        call = wire.subscribe(bearing(tenant), after=1)
        assert [each.position for each in next(call).events] == [3]
        call.cancel()


def test_a_subscription_ends_with_its_token(store: EventStore, tokens: str) -> None:
    token, secret = create_token(tokens, ["read"])
    with grpc_serving(store, tokens=tokens) as served, wired(served.grpc) as wire:
        store.append(Event("Ordered", 1))
        call = wire.subscribe(bearing(secret))
        assert len(next(call).events) == 1
        revoke_token(tokens, token.id)
        with pytest.raises(grpc.RpcError) as ended:
            next(call)
        assert ended.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_the_client_brings_its_key_over_tls(
    store: EventStore, tokens: str, certificate: tuple[str, str]
) -> None:
    _, secret = create_token(tokens, ["read", "append"])
    with grpc_serving(store, tokens=tokens, tls=certificate) as served:
        client = served.client(ca_path=certificate[0], api_key=secret)
        assert client.append([umadb.Event("Ordered", b"")]) == 1
        assert [each.position for each in client.read()] == [1]
        with pytest.raises(umadb.AuthenticationError):
            served.client(ca_path=certificate[0], api_key="other").head()
        with pytest.raises(umadb.AuthenticationError):
            served.client(ca_path=certificate[0]).head()
        trusted = ssl.create_default_context(cafile=certificate[0])
        with urllib.request.urlopen(f"{served.http}/healthz", timeout=PATIENCE_SECONDS, context=trusted):
            pass
        with pytest.raises(umadb.TransportError):
            umadb.Client(served.grpc.replace("https", "http")).head()


def test_the_end_of_the_server_ends_streams_without_an_error(store: EventStore) -> None:
    with grpc_serving(store) as served:
        client = served.client()
        client.append([umadb.Event("Ordered", b"")])
        subscriptions, watch = [client.subscribe() for _ in range(3)], client.watch_health()
        assert [next(each).position for each in subscriptions] == [1, 1, 1]
        assert next(watch) == umadb.ServingStatus.SERVING
        served.server.stop_soon()
        assert list(watch) == [umadb.ServingStatus.NOT_SERVING]
        assert [list(each) for each in subscriptions] == [[], [], []]


def test_appends_under_way_are_finished(store: EventStore) -> None:
    acknowledged: list[int] = []
    with grpc_serving(store) as served:
        client = served.client()

        def append_until_the_end() -> None:
            try:
                while True:
                    acknowledged.append(client.append([umadb.Event("Ordered", b"")]))
            except Exception:
                pass

        threads = [threading.Thread(target=append_until_the_end) for _ in range(8)]
        for thread in threads:
            thread.start()
        while len(acknowledged) < 50:
            time.sleep(0.01)
        served.server.stop_soon()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert sorted(acknowledged) == list(range(1, len(acknowledged) + 1)) or store.head() >= max(acknowledged)
    assert set(acknowledged) <= set(range(1, store.head() + 1))


def test_an_idle_subscription_outlives_the_pings_of_the_client(store: EventStore) -> None:
    """The clients ping every five seconds, which grpcio takes for abuse by default."""
    with grpc_serving(store) as served:
        client = served.client()
        subscription = client.subscribe()
        time.sleep(12)
        store.append(Event("Ordered", 1))
        assert next(subscription).position == 1
        subscription.cancel()


def test_strandline_serve_speaks_both(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*SERVE, "school.db", "--port", "0", "--grpc-port", "0"],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ,
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told.keys() == {"address", "grpc", "logs"}
        client = umadb.Client(told["grpc"])
        assert client.append([umadb.Event("Ordered", b"{}", ["a"])]) == 1
        subscription = client.subscribe()
        next(subscription)
        process.send_signal(signal.SIGTERM)
        assert list(subscription) == []
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)
    with strandline.connect(tmp_path / "school.db", create=False) as store:
        assert store.head() == 1


def test_a_port_that_is_taken_is_refused(tmp_path: Path, store: EventStore) -> None:
    with grpc_serving(store) as served:
        port = served.grpc.rpartition(":")[2]
        done = subprocess.run(
            [*SERVE, "memory:", "--port", "0", "--grpc-port", port],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--grpc-port" in done.stderr
