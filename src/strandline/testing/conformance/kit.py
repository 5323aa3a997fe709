"""What the topics of the conformance suite share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

import pytest

from ... import AppendCondition, AppendRequest, Event, EventStore, Query, QueryItem, SequencedEvent, connect
from ...errors import AppendConditionFailed, InvalidQuery

T = TypeVar("T")
PATIENCE_SECONDS = 20


class OpenStore(Protocol):
    """Opens the log under test with the keyword options of `strandline.connect`."""

    def __call__(self, **options: Any) -> EventStore: ...


class StoreFixtures:
    """The fixtures of the suite. A subclass gives `url` and perhaps `options`, or `open_store` itself."""

    @pytest.fixture
    def url(self) -> str | os.PathLike[str]:
        """Where an empty log is, or will be."""
        raise NotImplementedError("override the fixture `url` or `open_store`")

    @pytest.fixture
    def options(self) -> dict[str, Any]:
        """What `strandline.connect` needs besides the URL to reach the log, such as `log=`."""
        return {}

    @pytest.fixture
    def open_store(self, url: str | os.PathLike[str], options: dict[str, Any]) -> Iterator[OpenStore]:
        """Opens the log; what a test leaves open is closed after it."""
        opened: list[EventStore] = []

        def open_store(**more: Any) -> EventStore:
            opened.append(connect(url, **options, **more))
            return opened[-1]

        yield open_store
        for store in opened:
            store.close()

    @pytest.fixture
    def store(self, open_store: OpenStore) -> EventStore:
        """An empty store."""
        return open_store()


def happened(type: str = "Happened", *tags: str, **fields: Any) -> Event:
    """An event with tags and data, in few characters."""
    return Event(type, fields, tags=tags)


def item(*tags: str, **criteria: Any) -> QueryItem:
    """A query item with tags."""
    return QueryItem(tags=tags, **criteria)


def positions(events: Iterable[SequencedEvent]) -> list[int]:
    """The positions of the events, in their order."""
    return [event.position for event in events]


def nothing_new(query: Query, after: int = 0) -> AppendCondition:
    """The condition that nothing matching is newer than `after`."""
    return AppendCondition(query, after=after)


def refusal(store: EventStore, condition: AppendCondition) -> AppendConditionFailed:
    """The error with which the store refuses an append under the condition; it must."""
    head = store.head()
    with pytest.raises(AppendConditionFailed) as caught:
        store.append(happened("Refused"), condition)
    assert store.head() == head
    return caught.value


def is_refused(store: EventStore, *queries: Query) -> bool:
    """Whether the store refuses queries with a Python function, which a server cannot call. Then it has to refuse all."""
    given = [query for query in queries if any(callable(part.where) for part in query.items)]
    if store.engine.runs_callables or not given:
        return False
    head = store.head()
    for query in given:
        for ask in (
            lambda query=query: list(store.read(query)),
            lambda query=query: store.count(query),
            lambda query=query: store.exists(query),
            lambda query=query: store.check(nothing_new(query)),
            lambda query=query: next(store.subscribe(query)),
            lambda query=query: store.append(happened(), nothing_new(query)),
            lambda query=query: store.append(happened(), unless_exists=query),
            lambda query=query: store.append_many(
                [AppendRequest(happened()), AppendRequest(happened(), nothing_new(query))]
            ),
            lambda query=query: store.retag(query, add=["x"]),
        ):
            with pytest.raises(InvalidQuery, match="Python function") as caught:
                ask()
            assert "matcher" in caught.value.hint
    assert store.head() == head
    return True


def in_thread(call: Callable[[], T]) -> Callable[[], T]:
    """Run the call in a thread; the returned function waits for its result."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001  (it is raised where the result is asked for)
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> T:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "the thread did not end"
        if errors:
            raise errors[0]
        return results[0]

    return result
