"""The files of deploy/ fit the program: its options exist, what they start runs, what they copy is there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from configparser import RawConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROGRAM = [sys.executable, "-m", "strandline.cli"]


def unit_options() -> list[str]:
    """The words behind the program in the unit, with those of the example of its settings."""
    unit = (DEPLOY / "strandline.service").read_text()
    command = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)[0]
    settings = dict(
        re.findall(r"^(\w+)=(.*)$", (DEPLOY / "strandline.env.example").read_text(), re.MULTILINE)
    )
    return shlex.split(command.replace("$STRANDLINE_OPTIONS", settings["STRANDLINE_OPTIONS"]))[1:]


def container_options() -> list[str]:
    return json.loads(re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)[0])


@pytest.mark.parametrize("options", [unit_options(), container_options()], ids=["unit", "container"])
def test_what_a_file_starts_is_a_server_that_gets_ready_and_ends_with_0(
    options: list[str], tmp_path: Path
) -> None:
    tokens = str(tmp_path / "tokens")
    subprocess.run(
        [*PROGRAM, "token", "create", "--tokens", tokens, "--scope", "read"], check=True, capture_output=True
    )
    options = [tokens if option.endswith("/tokens") else option for option in options]
    options[options.index("--port") + 1] = "0"
    environment = os.environ | {"STRANDLINE_URL": str(tmp_path / "events.db")}
    process = subprocess.Popen([*PROGRAM, *options], stdout=subprocess.PIPE, env=environment, text=True)
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["address"].rpartition(":")[2]
        check = health_check(port)
        subprocess.run([sys.executable, *check[1:]], check=True, timeout=30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def health_check(port: str) -> list[str]:
    """The health check of the container, for a server on this port."""
    words = re.findall(
        r"HEALTHCHECK.*?CMD (\[.*?\])$", (DEPLOY / "Containerfile").read_text(), re.DOTALL | re.MULTILINE
    )
    assert ":4455/" in words[0]
    return json.loads(words[0].replace(":4455/", f":{port}/"))


def test_the_container_is_made_from_what_is_there() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    copied = [
        name
        for names in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)
        for name in names.split()
    ]
    assert len(copied) >= 5
    assert [name for name in copied if not (ROOT / name).exists()] == []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"'\.\[(.*?)\]'", text)
    assert set(named.split(",")) <= extras.keys()


def test_the_unit_waits_as_long_as_the_server_takes_to_end() -> None:
    from strandline.server.application import DRAIN_SECONDS

    unit = RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(DEPLOY / "strandline.service")
    assert unit.getint("Service", "TimeoutStopSec") > DRAIN_SECONDS


def test_the_page_names_every_file() -> None:
    page = (ROOT / "docs" / "deployment.md").read_text()
    for file in DEPLOY.iterdir():
        assert f"../deploy/{file.name})" in page or file.suffix == ".json"


@pytest.mark.long
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    assert shutil.which("systemd-analyze"), "systemd-analyze is not installed: apt-get install systemd"
    text = (DEPLOY / "strandline.service").read_text()
    unit = tmp_path / "strandline.service"
    unit.write_text(text.replace("/opt/strandline/bin/strandline", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    security = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15"]
    subprocess.run([*security, unit], check=True, capture_output=True)
