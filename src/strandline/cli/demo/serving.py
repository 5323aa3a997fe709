"""The log of the demo over HTTP, with a few clients that go on deciding until the server ends."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

import msgspec

from strandline import EventStore, SequencedEvent
from strandline.server import app

from ..serve import without_server
from .courses import Course, Refused, Student, subscribe
from .race import open_term

if TYPE_CHECKING:
    from socket import socket

HOST = "127.0.0.1"
CLIENTS = 3
THOUGHT_SECONDS = 0.15
"""A client thinks so long at most between what it reads and its append: others are faster now and then."""
PAUSE_SECONDS = 0.6
WISHES_PER_TERM = 400
"""After so many wishes the courses are full, and new ones are offered."""


def listeners_on(port: int) -> list[socket]:
    """Return the sockets of a server on loopback."""
    try:
        from strandline.server.serve import listen
    except ImportError as error:
        raise without_server(error) from error
    return listen(HOST, port)


def serve(store: EventStore, log: str, listeners: list[socket]) -> None:
    """Serve a log with traffic on it, until SIGTERM or Ctrl-C."""
    from strandline.server.serve import Server

    server = Server(app({log: store}))
    traffic = Traffic(store, listeners[0].getsockname()[1], f"/v1/logs/{log}")
    with traffic.running():
        server.run_on(listeners)


class Traffic:
    """Clients that read, decide and append over HTTP, some times per second."""

    def __init__(self, store: EventStore, port: int, base: str) -> None:
        self._store = store
        self._port = port
        self._base = base
        self._over = threading.Event()
        self._wishes = self._next_wishes()
        self._lock = threading.Lock()

    @contextmanager
    def running(self) -> Generator[None]:
        """Let the clients work meanwhile."""
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _next_wishes(self) -> Iterator[tuple[str, str]]:
        chance = random.Random()
        while True:
            try:
                term = open_term(self._store)
            except Refused:  # another demo on this log opened it at the same moment
                continue
            for _ in range(WISHES_PER_TERM // CLIENTS):
                course = chance.choice(term.courses())
                for _ in range(CLIENTS):  # all want the same course, so that they meet
                    yield term.name(f"v{chance.randrange(1_000)}"), course

    def _work(self, number: int) -> None:
        chance = random.Random(number)
        while not self._over.wait(chance.uniform(0, PAUSE_SECONDS)):
            with self._lock:
                student, course = next(self._wishes)
            connection = HTTPConnection(HOST, self._port, timeout=10)
            try:
                while not self._over.is_set() and not self._decide(connection, student, course, chance):
                    """Somebody was faster: decide again."""
            except (OSError, HTTPException):
                pass  # the server is about to end, or was stopped for a while
            finally:
                connection.close()

    def _decide(self, connection: HTTPConnection, student: str, course: str, chance: random.Random) -> bool:
        """Read, decide and append. Return whether the wish is answered."""
        states = Student(student), Course(course)
        query = states[0].query() | states[1].query()
        _, page = self._post(connection, "read", {"query": query.to_fields()})
        if "events" not in page:
            return True  # a refusal: the server is about to end
        for fields in page["events"]:
            event = SequencedEvent.from_json(json.dumps(fields))
            for state in states:
                if state.query().matches(event):
                    state.apply(event)
        self._over.wait(chance.uniform(0, THOUGHT_SECONDS))
        try:
            events = [json.loads(event.to_event().to_json()) for event in subscribe(*states)]
        except Refused:
            return True
        status, _ = self._post(connection, "events", {"events": events, "condition": page["condition"]})
        return status != 409

    def _post(self, connection: HTTPConnection, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"{self._base}/{path}", msgspec.json.encode(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
