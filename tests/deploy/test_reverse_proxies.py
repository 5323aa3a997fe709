"""The proxy configurations of deploy/, in front of a real server: streams pass at once, both ways, and hosts are checked.

Needs nginx and caddy: `apt-get install nginx caddy`.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from serving import Client, serving

import strandline
from strandline import EventStore
from strandline.server import app
from strandline.server.exchange import Limits

pytestmark = pytest.mark.long
DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "events.example.org"
LOG = "/v1/logs/default"


class Proxy(NamedTuple):
    kind: str
    port: int
    plain_port: int
    server: Client
    trusted: ssl.SSLContext

    def connect(self) -> HTTPSConnection:
        """Connect to the proxy by its name, wherever that name leads."""
        connection = HTTPSConnection(NAME, self.port, timeout=30, context=self.trusted)
        plain = socket.create_connection(("127.0.0.1", self.port), 30)
        connection.sock = self.trusted.wrap_socket(plain, server_hostname=NAME)
        return connection

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        with closing(self.connect()) as connection:
            sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            named = {"content-type": "application/json"} if sent is not None else {}
            connection.request(method, path, sent, named | headers)
            answer = connection.getresponse()
            return answer.status, answer.read()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    with strandline.connect(tmp_path / "events.db") as store:
        yield store


@pytest.fixture(params=["nginx", "caddy"])
def proxy(request: pytest.FixtureRequest, tmp_path: Path, store: EventStore) -> Iterator[Proxy]:
    """A proxy with the configuration of deploy/ in front of a server; only names, ports and files are others."""
    kind = request.param
    program = shutil.which(kind)
    assert program, f"{kind} is not installed: apt-get install {kind}"
    certificate(tmp_path)
    port, plain_port = free_port(), free_port()
    with serving(app(store, allow_hosts=[NAME], limits=Limits(body_bytes=100_000))) as server:
        if kind == "nginx":
            command = [program, "-c", str(nginx_file(tmp_path, port, plain_port, server.port))]
        else:
            command = [
                program,
                "run",
                "--adapter",
                "caddyfile",
                "--config",
                str(caddy_file(tmp_path, port, server.port)),
            ]
        with (tmp_path / "proxy.log").open("wb") as log:
            process = subprocess.Popen(
                command, env={"HOME": str(tmp_path), "PATH": "/usr/bin"}, stdout=log, stderr=log
            )
        try:
            wait_for(port, process)
            trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
            yield Proxy(kind, port, plain_port, server, trusted)
        finally:
            process.terminate()
            process.wait(30)


def certificate(folder: Path) -> None:
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={NAME}",
    ]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    names = ["-addext", f"subjectAltName=DNS:{NAME}"]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)


def replaced(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


def nginx_file(folder: Path, port: int, plain_port: int, server_port: int) -> Path:
    changes = {
        "127.0.0.1:4455": f"127.0.0.1:{server_port}",
        "    listen [::]:443 ssl http2;\n": "",
        "    listen [::]:80;\n": "",
        "listen 443": f"listen 127.0.0.1:{port}",
        "listen 80": f"listen 127.0.0.1:{plain_port}",
        "/etc/ssl/strandline/fullchain.pem": str(folder / "cert.pem"),
        "/etc/ssl/strandline/privkey.pem": str(folder / "key.pem"),
    }
    site = replaced((DEPLOY / "nginx.conf").read_text(), changes)
    temporary = "\n".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    file.write_text(
        f"daemon off; user root; pid {folder}/nginx.pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}\n{site}\n}}\n"
    )
    return file


def caddy_file(folder: Path, port: int, server_port: int) -> Path:
    changes = {
        "127.0.0.1:4455": f"127.0.0.1:{server_port}",
        f"\n{NAME} {{\n": f"\n{NAME}:{port} {{\n\ttls {folder}/cert.pem {folder}/key.pem\n",
    }
    site = replaced((DEPLOY / "Caddyfile").read_text(), changes)
    file = folder / "Caddyfile"
    file.write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{site}")
    return file


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None, "the proxy ended"
            assert time.monotonic() < end
            time.sleep(0.05)


def test_a_decision_passes(proxy: Proxy) -> None:
    condition = {"fail_if_events_match": {"items": [{"tags": ["seat:1"]}]}, "after": 0}
    append = {"events": [{"type": "SeatTaken", "data": {}, "tags": ["seat:1"]}], "condition": condition}
    assert proxy.send("POST", f"{LOG}/events", append)[0] == 201
    status, body = proxy.send("POST", f"{LOG}/events", append)
    assert (status, json.loads(body)["code"]) == (409, "append_condition_failed")
    status, body = proxy.send("QUERY", f"{LOG}/events", {"query": {"items": [{"tags": ["seat:1"]}]}})
    assert (status, len(json.loads(body)["events"])) == (200, 1)
    assert proxy.send("GET", f"{LOG}/events?tag=seat%3A1&where=%7B%22a%22%3A1%7D")[0] == 200


def test_only_the_proxys_name_and_pages_of_it_may_come_in(proxy: Proxy) -> None:
    assert proxy.send("GET", f"{LOG}/head", origin=f"https://{NAME}:{proxy.port}")[0] == 200
    assert proxy.send("GET", f"{LOG}/head", origin="https://evil.example")[0] == 403
    if proxy.kind == "nginx":  # Caddy has no site for it, and answers nothing
        assert proxy.send("GET", f"{LOG}/head", host="evil.example")[0] == 403


def test_metrics_stay_inside(proxy: Proxy) -> None:
    assert proxy.send("GET", "/metrics")[0] == 404
    assert proxy.server.get("/metrics").status == 200


@pytest.mark.parametrize("proxy", ["nginx"], indirect=True)  # Caddy answers when the body is complete
def test_an_import_is_answered_while_it_is_sent(proxy: Proxy) -> None:
    line = b'{"events": [{"type": "A", "data": {}}]}\n'
    with closing(proxy.connect()) as connection:
        connection.putrequest("POST", f"{LOG}/appends")
        connection.putheader("content-type", "application/x-ndjson")
        connection.putheader("transfer-encoding", "chunked")
        connection.endheaders()
        for position in (1, 2, 3):
            connection.send(b"%x\r\n%b\r\n" % (len(line), line))
            if position == 1:
                answer = connection.getresponse()
            assert json.loads(answer.readline()) == {
                "first": position,
                "last": position,
                "count": 1,
                "duplicate": False,
            }
        connection.send(b"0\r\n\r\n")
        assert answer.read() == b""


def test_a_large_import_and_a_large_read_pass(proxy: Proxy, store: EventStore) -> None:
    line = b'{"events": [{"type": "A", "data": "%b"}]}\n' % (b"x" * 1_000)
    status, body = proxy.send(
        "POST", f"{LOG}/appends", line * 5_000, **{"content-type": "application/x-ndjson"}
    )
    assert (status, len(body.splitlines())) == (200, 5_000)
    status, body = proxy.send("GET", f"{LOG}/events?format=ndjson")
    *events, end = map(json.loads, body.splitlines())
    assert (len(events), end["end"]["head"]) == (5_000, 5_000)


def test_the_server_says_what_is_too_large(proxy: Proxy) -> None:
    status, body = proxy.send("POST", f"{LOG}/events", b" " * 200_000)
    assert (status, json.loads(body)["code"]) == (413, "payload_too_large")


def test_many_connections_at_once(proxy: Proxy, store: EventStore) -> None:
    def append() -> None:
        event = {"events": [{"type": "A", "data": {}}]}
        statuses.extend([proxy.send("POST", f"{LOG}/events", event)[0] for _ in range(20)])

    statuses: list[int] = []
    threads = [threading.Thread(target=append) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [201] * 320
    assert store.head() == 320


def test_http2_passes(proxy: Proxy, tmp_path: Path) -> None:
    command = ["curl", "-s", "--http2", "--cacert", str(tmp_path / "cert.pem"), "-w", " %{http_version}"]
    place = ["--resolve", f"{NAME}:{proxy.port}:127.0.0.1", f"https://{NAME}:{proxy.port}{LOG}/head"]
    done = subprocess.run([*command, *place], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == '{"head":0} 2'


def test_plain_http_is_sent_on(proxy: Proxy) -> None:
    if proxy.kind == "nginx":  # Caddy does so by itself on its usual ports
        with closing(HTTPConnection("127.0.0.1", proxy.plain_port, timeout=30)) as connection:
            connection.request("GET", f"{LOG}/head?a=1", headers={"host": NAME})
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("location")) == (308, f"https://{NAME}{LOG}/head?a=1")
