"""gunicorn and Celery as people run them: the program opens a store, then forks its workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import strandline
from strandline import Query
from test_forks import needs_native_code

pytestmark = needs_native_code

GUNICORN = """
import json, os
import strandline
from strandline import Event

wsgi_app = "application:answer"
preload_app = True
workers = 3
bind = "127.0.0.1:0"
accesslog = None

def when_ready(server):
    port = server.LISTENERS[0].sock.getsockname()[1]
    print("ready", port, flush=True)

def post_fork(server, worker):
    import application
    application.store = strandline.connect(os.environ["FILE"])

def worker_exit(server, worker):
    import application
    application.store.close()
"""
APPLICATION = """
import json, os
import strandline
from strandline import Event

preloaded = strandline.connect(os.environ["FILE"])
preloaded.append(Event("Preloaded", {}))
store = None

def answer(environ, start_response):
    position = store.append(Event("Requested", {"worker": os.getpid()})).position
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(position).encode()]
"""
CELERY = """
import os
import strandline
from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown
from strandline import Event

folder = os.environ["FOLDER"]
app = Celery("tasks", broker="filesystem://", backend="file://" + folder + "/results")
app.conf.broker_transport_options = {
    "data_folder_in": folder + "/queue", "data_folder_out": folder + "/queue", "control_folder": folder + "/control"
}
preloaded = strandline.connect(os.environ["FILE"])
store = None

@worker_process_init.connect
def begin(**_):
    global store
    store = strandline.connect(os.environ["FILE"])

@worker_process_shutdown.connect
def end(**_):
    store.close()

@app.task
def write(number):
    return store.append(Event("Written", {"worker": os.getpid()})).position
"""
ASK = """
import json, tasks
results = [tasks.write.delay(number) for number in range(30)]
print(json.dumps(sorted(result.get(timeout=60) for result in results)))
"""


@contextmanager
def running(*command: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A program of this virtual environment, ended by SIGTERM."""
    environment = os.environ | {
        "FILE": str(folder / "school.db"),
        "FOLDER": str(folder),
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        "PYTHONWARNINGS": "ignore",
    }
    with subprocess.Popen(
        [sys.executable, "-m", *command], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            yield program
        finally:
            program.terminate()
            program.communicate(timeout=60)


def workers(path: Path) -> tuple[int, int]:
    """How many events workers wrote, and how many workers."""
    with strandline.connect(path) as store:
        events = list(store.read(Query.types("Requested", "Written")))
    return len(events), len({event.json()["worker"] for event in events})


def test_gunicorn_with_preload_app(tmp_path: Path) -> None:
    (tmp_path / "gunicorn.conf.py").write_text(GUNICORN)
    (tmp_path / "application.py").write_text(APPLICATION)
    with running("gunicorn", folder=tmp_path) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline().split()[1])

        def ask(_: int) -> int:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as response:
                return int(json.load(response))

        with ThreadPoolExecutor(8) as clients:
            positions = list(clients.map(ask, range(200)))
    assert sorted(positions) == list(range(2, 202))
    written, processes = workers(tmp_path / "school.db")
    assert written == 200
    assert processes > 1


@pytest.mark.long
def test_the_prefork_pool_of_celery(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(CELERY)
    for name in ("queue", "control", "results"):
        (tmp_path / name).mkdir()
    with running("celery", "-A", "tasks", "worker", "-c", "3", folder=tmp_path):
        environment = os.environ | {"FILE": str(tmp_path / "school.db"), "FOLDER": str(tmp_path)}
        asked = subprocess.run(
            [sys.executable, "-c", ASK],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert asked.returncode == 0, asked.stderr
        assert json.loads(asked.stdout) == list(range(1, 31))
    assert workers(tmp_path / "school.db")[0] == 30
