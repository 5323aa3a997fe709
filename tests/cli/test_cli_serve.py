"""`strandline serve`: a server process from its start to its end."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import ssl
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import BadStatusLine, HTTPConnection, HTTPSConnection

import pytest

import strandline

COMMAND = [sys.executable, "-m", "strandline.cli", "serve"]


@pytest.fixture
def certificate(tmp_path):
    """Options with a certificate for localhost that signs itself."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    return ["--tls-cert", "cert.pem", "--tls-key", "key.pem"]


@contextmanager
def served(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        yield process, int(json.loads(line)["address"].rpartition(":")[2])
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)


def call(port: int, method: str, path: str, body: object = None) -> tuple[int, object]:
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_it_makes_the_store_serves_it_and_ends_with_0(tmp_path):
    with served("school.db", "--port", "0") as (process, port):
        assert call(port, "GET", "/readyz") == (200, {"status": "ready"})
        body = {"events": [{"type": "CourseDefined", "data": {}}]}
        assert call(port, "POST", "/v1/logs/default/events", body)[0] == 201
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with strandline.connect("school.db", create=False) as store:
        assert store.head() == 1


def test_half_sent_requests_do_not_keep_it_from_ending(tmp_path):
    with served("memory:", "--port", "0") as (process, port):
        halves = (
            b"",
            b"GET /healthz HTT",
            b"POST /v1/logs/default/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
        )
        connections = [socket.create_connection(("127.0.0.1", port), 60) for _ in halves]
        for connection, half in zip(connections, halves, strict=True):
            connection.sendall(half)
        assert call(port, "GET", "/healthz")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert b" 503 " in connections[2].makefile("rb").readline()
        for connection in connections:
            connection.close()


def test_a_second_signal_ends_it_at_once(tmp_path):
    with served("memory:", "--port", "0") as (process, port):
        connection = socket.create_connection(("127.0.0.1", port), 60)
        connection.sendall(
            b"POST /v1/logs/default/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"
        )
        assert call(port, "GET", "/healthz")[0] == 200
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        connection.close()


def test_a_port_that_is_taken_is_an_error(cli):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        done = cli("serve", "memory:", "--port", taken.getsockname()[1])
    assert (done.code, done.out) == (2, "")
    assert "cannot listen on 127.0.0.1" in done.err
    assert "--port" in done.err


def test_an_address_that_others_reach_needs_a_word(cli):
    done = cli("serve", "memory:", "--host", "0.0.0.0", "--port", 0)
    assert (done.code, done.out) == (2, "")
    assert "--insecure" in done.err


def test_tokens_without_tls_stay_on_loopback(cli, token):
    done = cli("serve", "memory:", "--host", "0.0.0.0", "--port", 0, "--tokens", "tokens.json")
    assert (done.code, done.out) == (2, "")
    assert "--tls-cert" in done.err


def test_tls_alone_does_not_open_a_server(cli, certificate):
    done = cli("serve", "memory:", "--host", "0.0.0.0", "--port", 0, *certificate)
    assert (done.code, done.out) == (2, "")
    assert "--tokens" in done.err


@pytest.mark.parametrize("missing", ["--tls-cert", "--tls-key"])
def test_tls_needs_both_files(cli, certificate, missing):
    index = certificate.index(missing)
    done = cli("serve", "memory:", "--port", 0, *certificate[:index], *certificate[index + 2 :])
    assert (done.code, done.out) == (2, "")
    assert "--tls-cert and --tls-key" in done.err


def test_files_that_are_no_certificate_are_refused(cli, tmp_path, token):
    done = cli("serve", "memory:", "--port", 0, "--tls-cert", "tokens.json", "--tls-key", "tokens.json")
    assert (done.code, done.out) == (2, "")
    assert "PEM" in done.err


def test_a_file_of_tokens_that_is_missing_is_an_error(cli):
    done = cli("serve", "memory:", "--port", 0, "--tokens", "tokens.json")
    assert (done.code, done.out) == (2, "")
    assert "strandline token create --tokens tokens.json" in done.err


def test_it_speaks_tls_and_knows_the_holders_of_tokens(cli, certificate):
    secret = cli("token", "create", "--tokens", "tokens.json", "--scope", "read").out.strip()
    options = ("--host", "0.0.0.0", "--port", "0", "--tokens", "tokens.json")
    with served("memory:", *options, *certificate) as (_, port):
        trusted = ssl.create_default_context(cafile=certificate[1])
        for headers, status in (({}, 401), ({"authorization": f"Bearer {secret}"}, 200)):
            connection = HTTPSConnection("localhost", port, timeout=60, context=trusted)
            connection.request("GET", "/v1/logs/default/head", headers=headers)
            assert connection.getresponse().status == status
            connection.close()
        untrusted = HTTPSConnection("localhost", port, timeout=60, context=ssl.create_default_context())
        with pytest.raises(ssl.SSLCertVerificationError):
            untrusted.request("GET", "/healthz")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, OSError)):
            HTTPSConnection("localhost", port, timeout=60, context=old).connect()
        with pytest.raises((BadStatusLine, OSError)):
            call(port, "GET", "/healthz")  # in the clear


def test_changes_are_audited_and_a_trusted_proxy_is_believed(tmp_path):
    options = ("--port", "0", "--audit", "audit.ndjson", "--rate", "1000")
    for proxy, address in (((), "127.0.0.1"), (("--trust-proxy", "127.0.0.1"), "203.0.113.9")):
        with served("memory:", *options, *proxy) as (_, port):
            event = {"events": [{"type": "T", "data": 1}]}
            assert call(port, "POST", "/v1/logs/default/events", event)[0] == 201
            with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                headers = {"x-forwarded-for": "203.0.113.9", "content-type": "application/json"}
                body = json.dumps({"positions": [1], "add": ["vip"]})
                connection.request("POST", "/v1/logs/default/retags", body, headers)
                assert connection.getresponse().status == 201
        line = (tmp_path / "audit.ndjson").read_text().splitlines()[-1]
        assert (json.loads(line)["what"], json.loads(line)["address"]) == ("retag", address)


@pytest.mark.parametrize("option", [("--rate", "0"), ("--audit", "nowhere/audit"), ("--audit", "open")])
def test_options_that_cannot_be_are_refused(cli, tmp_path, option):
    (tmp_path / "open").touch(0o644)
    done = cli("serve", "memory:", "--port", 0, *option)
    assert (done.code, done.out) == (2, "")


def test_a_read_only_server_refuses_changes(tmp_path):
    with served("memory:", "--port", "0", "--read-only") as (_, port):
        assert call(port, "POST", "/v1/logs/default/events", {"events": []})[0] == 403


def test_the_example_of_the_help_serves(cli):
    example = cli("serve", "--help").out.partition("\nExample:\n")[2].split()
    assert example[:2] == ["strandline", "serve"]
    with served(*example[2:-1], "0") as (_, port):
        assert call(port, "GET", "/healthz")[0] == 200
