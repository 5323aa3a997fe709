"""`strandline run`: run the followers of an application until a signal ends it."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.live import Live

from strandline import EventStore, FollowerFailed, NotFound, Unavailable
from strandline.engine.open import DEFAULT_LOG, without_password
from strandline.follow import FollowerStatus, Worker
from strandline.names import counted

from .application import rebuild_command, workers_of
from .failure import warn
from .options import Json, Log, Url, opened, store_url
from .screen import console, for_people, note, table_of, visible, write_json
from .status_table import HEADINGS, cells

NAME = "run"
EXAMPLE = "strandline run school:app school.db --once"

LOOK_SECONDS = 0.5
OBSTACLE_SECONDS = 1.0
"""How often to see whether a worker that could not run can run now."""

Application = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:FUNCTION", help="A function that takes the store and returns its workers."
    ),
]
Once = Annotated[bool, typer.Option("--once", help="End when all have reached the present head.")]

Create = Annotated[bool, typer.Option("--create", help="Make the log if there is none yet.")]

Show = Callable[[list[FollowerStatus]], None]


def run(
    application: Application,
    url: Url = None,
    *,
    once: Once = False,
    create: Create = False,
    log: Log = DEFAULT_LOG,
    as_json: Json = False,
) -> None:
    """Run an application's followers, automations and outboxes.

    Ctrl-C or SIGTERM ends it: what was begun is finished first. If one of them fails, all end. A read model whose table
    has to be rebuilt stops no other: it waits until that was done.
    """
    place = store_url(url)
    with _opened(place, log, create=create) as store:
        workers = workers_of(application, store)
        crew = Crew(
            workers, until=store.head() if once else None, tell=_teller(application, place, as_json=as_json)
        )
        with _showing(as_json=as_json) as show, crew.ended_by_signals():
            crew.start()
            while not crew.is_over.wait(LOOK_SECONDS):
                _look(workers, show)
            crew.end()
            _look(workers, show)
    if crew.failures:
        raise crew.failures[0]


class Crew:
    """Workers, each in a thread; they end together."""

    def __init__(
        self, workers: list[Worker], *, until: int | None, tell: Callable[[Worker, FollowerFailed], None]
    ) -> None:
        self._workers = workers
        self._until = until
        self._tell = tell
        self._threads = [
            threading.Thread(target=self._run, args=(worker,), name=worker.name, daemon=True)
            for worker in workers
        ]
        self._still_running = len(workers)
        self._changing = threading.Lock()
        self.failures: list[BaseException] = []
        self.is_over = threading.Event()

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop them all, and wait until they have."""
        for worker in self._workers:
            worker.stop()
        for thread in self._threads:
            thread.join()

    @contextlib.contextmanager
    def ended_by_signals(self) -> Iterator[None]:
        """The first signal ends them kindly, the next one does what it always does."""
        before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}

        def restore() -> None:
            for name, handler in before.items():
                signal.signal(name, handler)

        def end(*_: Any) -> None:
            restore()
            self.is_over.set()

        for name in before:
            signal.signal(name, end)
        try:
            yield
        finally:
            restore()

    def _run(self, worker: Worker) -> None:
        try:
            obstacle = self._wait_for(worker)
            if obstacle is None:
                worker.run(until=self._until)
            elif self._until is not None:
                self.failures.append(obstacle)
        except BaseException as error:  # noqa: BLE001  (it is raised again when all have ended)
            self.failures.append(error)
            self.is_over.set()
        with self._changing:
            self._still_running -= 1
            if not self._still_running:
                self.is_over.set()

    def _wait_for(self, worker: Worker) -> FollowerFailed | None:
        """Wait until nothing prevents a worker from running, or they are to end; return what still prevents it."""
        obstacle = worker.obstacle()
        if obstacle is not None:
            self._tell(worker, obstacle)
        while obstacle is not None and self._until is None and not self.is_over.wait(OBSTACLE_SECONDS):
            obstacle = worker.obstacle()
        return obstacle


def _opened(place: str, log: str, *, create: bool) -> EventStore:
    try:
        return opened(place, log, create=create)
    except NotFound as error:
        error.advise("check the URL; if the log is to begin with this application, add --create")
        raise


def _teller(application: str, place: str, *, as_json: bool) -> Callable[[Worker, FollowerFailed], None]:
    def tell(worker: Worker, obstacle: FollowerFailed) -> None:
        command = rebuild_command(application, worker, without_password(place))
        warn(obstacle.code, f"{worker.name} waits: {obstacle}", f"run: {command}", as_json=as_json)

    return tell


def _look(workers: list[Worker], show: Show) -> None:
    with contextlib.suppress(Unavailable):  # the workers try again, and so does this
        show([worker.status() for worker in workers])


@contextlib.contextmanager
def _showing(*, as_json: bool) -> Iterator[Show]:
    """A table that changes on a terminal, or a line for whatever changed."""
    if not for_people(as_json=as_json):
        yield _Lines(as_json=as_json)
        return
    note("running; Ctrl-C ends it")
    with Live(console=console(), auto_refresh=False) as live:
        yield lambda statuses: live.update(table_of(HEADINGS, map(cells, statuses)), refresh=True)


class _Lines:
    """Says how a follower is when that is news."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._told: dict[str, FollowerStatus] = {}

    def __call__(self, statuses: list[FollowerStatus]) -> None:
        for status in statuses:
            news = msgspec.structs.replace(status, head=0, lag=0, lag_seconds=0.0)
            if self._told.get(status.name) != news:
                self._told[status.name] = news
                self._tell(status)
        sys.stdout.flush()

    def _tell(self, status: FollowerStatus) -> None:
        if self._as_json:
            write_json(msgspec.structs.asdict(status))
            return
        letters = f", {counted(status.dead_letters, 'dead letter')}" if status.dead_letters else ""
        error = f": {status.error}" if status.error else ""
        line = f"{status.name} {status.state} at {status.position} of {status.head}{letters}{error}"
        sys.stdout.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {visible(line)}\n")
