"""The page about the HTTP API is true: its shell script runs, its tables are the code's."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from serving import Client

from strandline.server.problem import HTTP_ERRORS
from strandline.server.routes import ROUTES

PAGE = (Path(__file__).parents[2] / "docs/http.md").read_text()


def run(number: int, client: Client, folder: Path) -> str:
    """Run one of the page's shell scripts against a server; returns what it prints."""
    script = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)[number]
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace(":4455", f":{client.port}")],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_the_shell_script_takes_a_seat_once(client: Client, tmp_path: Path) -> None:
    first, status = run(0, client, tmp_path).split()
    assert json.loads(first) == {"first": 1, "last": 1, "count": 1, "duplicate": False}
    assert status == "409"
    problem = json.loads((tmp_path / "conflict.json").read_text())
    assert (problem["complete"], problem["conflicts"][0]["position"]) == (True, 1)


def test_the_shell_consumer_handles_each_event_once(client: Client, tmp_path: Path) -> None:
    guests = ["Ada", "Grace", "Edsger"] * 8
    for guest in guests:
        client.post("events", {"events": [{"type": "SeatTaken", "data": {"guest": guest}}]})
    assert run(1, client, tmp_path) == ""
    assert (tmp_path / "mails.txt").read_text().splitlines() == [f"Dear {guest}" for guest in guests]
    assert client.get("followers").json["followers"][0]["lag"] == 0
    assert run(1, client, tmp_path) == ""
    assert len((tmp_path / "mails.txt").read_text().splitlines()) == len(guests)


def test_the_page_has_every_route() -> None:
    for route in ROUTES:
        path = route.path.replace("/v1/logs/{log}", "…").replace("{id}", "{uuid}")
        if route.path not in {"/", "/docs", "/openapi.json"}:
            assert re.search(rf"`{route.method} {re.escape(path)}[?`]", PAGE), route.path


def test_the_page_has_the_errors_of_http() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (\w+) \| (.*) \|$", PAGE, re.MULTILINE)
    expected = [
        (each.code, str(each.status), each.retry, (each.__doc__ or "").partition("\n")[0])
        for each in HTTP_ERRORS
    ]
    assert rows == expected
