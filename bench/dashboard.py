"""`python -m bench.dashboard`: draw docs/metrics.svg, the Grafana dashboard with real figures.

A server with traffic of every kind runs for a while. Prometheus (`apt-get install prometheus`) scrapes it each second. Then
the queries of deploy/grafana-dashboard.json are asked of it, and drawn where the dashboard has its panels.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import strandline
from strandline import EventStore, Query
from strandline.cli.demo.serving import Traffic
from strandline.server import app
from strandline.server.serve import Server, listen

from .page.panels import Line, drawing

ROOT = Path(__file__).parent.parent
DASHBOARD = ROOT / "deploy" / "grafana-dashboard.json"
RATE_SECONDS = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=120, help="how long the traffic runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "metrics.svg")
    chosen = parser.parse_args()
    if shutil.which("prometheus") is None:
        sys.exit("prometheus is not installed: apt-get install prometheus")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        store = running.enter_context(strandline.connect(f"{folder}/school.db"))
        port = running.enter_context(serving(store))
        running.enter_context(traffic(store, port))
        address = running.enter_context(prometheus(Path(folder), port))
        time.sleep(chosen.seconds)
        panels = answered(address, chosen.seconds - RATE_SECONDS)
    chosen.out.write_text(drawing(panels))
    empty = [panel["title"] for panel, lines in panels if panel["type"] != "row" and not lines]
    print(f"{chosen.out}: {len(panels)} panels, without data: {empty or 'none'}")


@contextmanager
def serving(store: EventStore) -> Generator[int]:
    [listener] = listen("127.0.0.1", 0)
    server = Server(app(store))
    thread = threading.Thread(target=server.run_on, args=([listener],))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.stop_soon()
        thread.join()


@contextmanager
def traffic(store: EventStore, port: int) -> Generator[None]:
    """Decisions of the demo, imports, repeats, requests that fail, and two followers, one of which falls behind."""
    log = f"http://127.0.0.1:{port}/v1/logs/default"
    over = threading.Event()
    jobs = [
        lambda: import_some(log),
        lambda: repeat(log),
        lambda: send(f"{log}/events/999999999"),
        lambda: send(f"{log}/events?limit=100"),
        lambda: follow(store, "model:courses", 10_000),
        lambda: follow(store, "outbox:slow", 100),
        lambda: fail_now_and_then(store),
    ]
    threads = [threading.Thread(target=again, args=(job, over)) for job in jobs]
    with ExitStack() as running:
        for _ in range(4):
            running.enter_context(Traffic(store, port, "/v1/logs/default").running())
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()


def again(job: Callable[[], object], over: threading.Event) -> None:
    chance = random.Random()
    while not over.wait(chance.uniform(0.1, 1.0)):
        job()


def send(url: str, body: Any = None) -> bytes:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
    request = urllib.request.Request(url, data, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            content: bytes = answer.read()
            return content
    except OSError:
        return b""


def import_some(log: str) -> None:
    line = json.dumps({"events": [{"type": "Imported", "data": {}}] * random.randrange(1, 4)}).encode()
    send(f"{log}/appends", (line + b"\n") * random.randrange(5, 200))


def repeat(log: str) -> None:
    body = {"events": [{"type": "Repeated", "data": {}, "id": str(uuid4())}]}
    send(f"{log}/events", body)
    send(f"{log}/events", body)


def follow(store: EventStore, name: str, batch: int) -> None:
    until = store.find_follower(name).status().position + batch if has_follower(store, name) else batch
    store.follower(name).run(lambda events, tx: None, batch, until=min(until, store.head()))


def has_follower(store: EventStore, name: str) -> bool:
    return any(status.name == name for status in store.followers())


def fail_now_and_then(store: EventStore) -> None:
    def handle(events: Any, tx: Any) -> None:
        if events[0].position % 97 == 0:
            raise ValueError("a webhook said no")

    store.follower("outbox:partner", Query.types("StudentSubscribed")).catch_up(handle, 1, attempts=1)


@contextmanager
def prometheus(folder: Path, port: int) -> Generator[str]:
    """Prometheus, scraping the server each second; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        own_port = free.getsockname()[1]
    scrape = (
        f'scrape_configs: [{{job_name: strandline, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]'
    )
    (folder / "prometheus.yml").write_text(f"global: {{scrape_interval: 1s}}\n{scrape}\n")
    options = ["--config.file", f"{folder}/prometheus.yml", "--storage.tsdb.path", f"{folder}/tsdb"]
    command = ["prometheus", *options, "--web.listen-address", f"127.0.0.1:{own_port}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{own_port}"
    finally:
        process.terminate()
        process.wait()


def answered(address: str, seconds: int) -> list[tuple[dict[str, Any], list[Line]]]:
    """Every panel with the lines that its queries give."""
    end = time.time()
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [(panel, list(lines_of(address, panel, end - seconds, end))) for panel in panels]


def lines_of(address: str, panel: dict[str, Any], begin: float, end: float) -> Generator[Line]:
    for target in panel.get("targets", ()):
        asked = {"query": query_of(target["expr"]), "start": begin, "end": end, "step": 1}
        url = f"{address}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            series = json.load(answer)["data"]["result"]
        for each in series:
            points = [(at, float(value)) for at, value in each["values"] if value != "NaN"]
            if points:
                yield legend(target["legendFormat"], each["metric"]), points


def query_of(expression: str) -> str:
    """A query with the variables of the dashboard filled in."""
    filled = expression.replace("$__rate_interval", f"{RATE_SECONDS}s")
    return filled.replace("$instance", ".*").replace("$log", ".*")


def legend(form: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        form = form.replace(f"{{{{{name}}}}}", value)
    return form


if __name__ == "__main__":
    main()
