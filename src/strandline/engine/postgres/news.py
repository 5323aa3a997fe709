"""Telling other processes that the head moved, and hearing it from them. Polling stands behind it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

import psycopg
from psycopg import errors as pg

from ...errors import StrandlineError
from .address import Address
from .connection import Connection

NOTIFY_EVERY_SECONDS = 0.01
LISTEN_SECONDS = 0.1
POLL_SECONDS = 0.02
LISTEN_AGAIN_SECONDS = 1.0


class Notifier:
    """Tells that the head moved, from a thread of its own and after the commit.

    Inside the transaction, notifications of all logs of a cluster would wait for each other.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        # A queue that is written in C: an interrupt in `threading.Event` would leave its lock taken.
        self._news: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="strandline-notify", daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """Tell soon."""
        self._news.put(True)

    def close(self) -> None:
        """Tell what is still to be told, and end."""
        self._news.put(False)
        self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            news = [self._news.get()]
            with contextlib.suppress(Empty):
                while True:
                    news.append(self._news.get_nowait())
            is_open = all(news)
            if any(news):
                with contextlib.suppress(psycopg.Error, StrandlineError):  # listeners poll as well
                    self._notify()
            if is_open:
                time.sleep(NOTIFY_EVERY_SECONDS)


class Listener:
    """Waits for news from other processes. One thread at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Connection | None = None
        self._not_before = 0.0

    def wait(self) -> None:
        """Wait a moment, less if there is news."""
        try:
            connection = self._listening()
            if connection is None:
                time.sleep(POLL_SECONDS)
            else:
                connection.notifications(LISTEN_SECONDS)
        except psycopg.Error:
            self.close()
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """Stop listening."""
        connection, self._connection = self._connection, None
        self._not_before = time.monotonic() + LISTEN_AGAIN_SECONDS
        if connection is not None:
            connection.close()

    def _listening(self) -> Connection | None:
        """A connection that listens, None if there can be none."""
        if self._connection is None and time.monotonic() >= self._not_before:
            self._not_before = float("inf")
            connection = Connection(self._address)
            try:
                if connection.is_direct:  # a pooler would not keep it for us
                    connection.run(f"listen {self._address.identifier}")
                    self._connection = connection
            except pg.ReadOnlySqlTransaction:
                pass  # a replica gets no news
            finally:
                if self._connection is None:
                    connection.close()
        return self._connection
