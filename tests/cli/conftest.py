"""Ways to run the command line: in this process, as a process of its own, and on a real terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import school_models

import strandline
from places import Place, new_log
from strandline import Event, EventStore, Query
from strandline.cli.app import run
from strandline.server.tokens import create_token
from strandline.testing.postgres import PostgresServer

COMMAND = [sys.executable, "-m", "strandline.cli"]
PATIENCE_SECONDS = 60
UNWANTED = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "STRANDLINE_URL", "STRANDLINE_LOG", "STRANDLINE_TOKEN"}


@dataclass
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Terminal:
    """A command on a pseudo-terminal; stdout and stderr both go there, as for a person."""

    def __init__(self, *arguments: str, columns: int = 120, **environment: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            env=_environment() | {"TERM": "xterm-256color", **environment},
        )
        os.close(slave)
        self.screen = ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.screen:
            assert time.monotonic() < deadline, f"{text!r} did not show up in {self.screen!r}"
            assert self._look(), f"the command ended without {text!r}: {self.screen!r}"

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def finish(self) -> Ran:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._look():
            assert time.monotonic() < deadline, f"the command did not end: {self.screen!r}"
        return Ran(self.process.wait(PATIENCE_SECONDS), self.screen, "")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        os.close(self.master)

    def _look(self) -> bool:
        if not select.select([self.master], [], [], 1)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self.master, 65536)
        except OSError:  # Linux says so when the other side is closed
            return False
        self.screen += data.decode().replace("\r\n", "\n")
        return bool(data)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in UNWANTED}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in UNWANTED:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run in this process, with stdout piped."""

    def call(*arguments: object) -> Ran:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


@pytest.fixture
def command() -> list[str]:
    """The beginning of every command line."""
    return list(COMMAND)


@pytest.fixture
def process() -> Callable[..., Ran]:
    """Run as a process of its own."""

    def call(*arguments: str, stdin: bytes | None = None, **environment: str) -> Ran:
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            env=_environment() | environment,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Run on a terminal."""
    opened: list[Terminal] = []

    def call(*arguments: str, columns: int = 120, **environment: str) -> Terminal:
        opened.append(Terminal(*arguments, columns=columns, **environment))
        return opened[-1]

    yield call
    for each in opened:
        each.close()


def write_school(store: EventStore) -> None:
    store.append(Event("CourseDefined", {"course": "c1", "capacity": 30}, tags=["course:c1"]))
    store.append(Event("CourseDefined", {"course": "c2", "capacity": 5}, tags=["course:c2"]))
    for student in ("s1", "s2", "s3"):
        tags = ["course:c1", f"student:{student}"]
        event = Event("StudentSubscribed", {"student": student}, tags=tags, subject=student)
        store.append(event, stream="subscriptions")


@pytest.fixture
def school(tmp_path: Path) -> str:
    """A store with five events."""
    with strandline.connect(tmp_path / "school.db") as store:
        write_school(store)
    return "school.db"


APPLICATION = (
    Path(school_models.__file__).read_text()
    + """
from strandline import Query
from strandline.follow import Worker

def keep(events, tx):
    for event in events:
        print("handled", event.position, flush=True)

def app(store):
    return [Worker(store.follower("balances", Query.types("CourseDefined")), keep)]
"""
)


@pytest.fixture
def application(tmp_path: Path, school: str) -> str:
    """An application for that store, whose follower has run with another handler and has two dead letters."""
    (tmp_path / "school.py").write_text(APPLICATION)

    def fail(events: Any, tx: Any) -> None:
        raise ValueError("[red]no such\x1b[31m account")

    with strandline.connect(school) as store:
        store.follower("balances", Query.types("CourseDefined")).catch_up(fail, attempts=1)
    return "school:app"


@pytest.fixture
def model(school: str) -> str:
    """The table of a read model of that store."""
    with strandline.connect(school) as store:
        school_models.courses.catch_up(store)
    return school_models.courses.table


@pytest.fixture
def token(tmp_path: Path) -> str:
    """The id of a token in a file of tokens."""
    create_token(str(tmp_path / "tokens.json"), ["read"])
    text = (tmp_path / "tokens.json").read_text()
    (tmp_path / "tokens.json").write_text(re.sub('"id": "[^"]*"', '"id": "5f0c2a9be417"', text))
    return "5f0c2a9be417"


@pytest.fixture
def database(postgres_server: Callable[[str], PostgresServer]) -> Place:
    """A log with the same five events in a database."""
    place = new_log(postgres_server("postgres18").url())
    with place.connect() as store:
        write_school(store)
    return place
