"""A log in a file that is removed, renamed or replaced while a store has it open."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strandline
from strandline import AppendRequest, CorruptLog, Event, EventStore, InvalidInput, Query, QueryItem
from strandline.engine import Snapshot
from strandline.engine.maintenance import check_log
from strandline.engine.sqlite import log_file

PATIENCE = 60


def happened(count: int = 1) -> list[Event]:
    return [Event("Happened", {}, tags=["a:1"]) for _ in range(count)]


def remove(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def move_the_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def replace_by_another_log(path: Path) -> None:
    other = path.with_name("other.db")
    with strandline.connect(other) as store:
        store.append(happened(9))
    other.replace(path)


def replace_by_a_copy(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    copy.replace(path)


CHANGES = [remove, rename, move_the_folder, replace_by_another_log, replace_by_a_copy]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder / "log.db"


def await_refusal(use: Callable[[], object]) -> CorruptLog:
    """Reads look at the name of the file now and then: they find out after a moment."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            use()
        except CorruptLog as error:
            return error
    raise AssertionError("it went on")


def refuses(store: EventStore) -> None:
    uses: list[Callable[[], object]] = [
        lambda: store.append(happened()),
        lambda: store.append_many([AppendRequest(happened()), AppendRequest(happened())]),
        lambda: store.retag(1, add=["vip"]),
        store.read,
        store.head,
        lambda: store.exists(Query.all()),
        store.count,
        store.stats,
        lambda: next(store.appends()),
        lambda: next(store.subscribe()),
        lambda: store.follower("new").catch_up(lambda events, tx: None),
        store.followers,
        lambda: store.engine.save_snapshot(Snapshot("P", "k", "1", 1, b"{}")),
    ]
    messages = set()
    for use in uses:
        with pytest.raises(CorruptLog, match="no longer the file") as caught:
            use()
        assert "connect again" in caught.value.hint
        messages.add(str(caught.value))
    assert len(messages) == 1


@pytest.mark.parametrize("change", CHANGES)
def test_an_append_is_refused_at_once_and_for_good(path: Path, change: Callable[[Path], None]) -> None:
    with strandline.connect(path) as store:
        store.append(happened(3))
        change(path)
        with pytest.raises(CorruptLog, match="no longer the file"):
            store.append(happened())
        refuses(store)


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.append(happened()),
        lambda store: store.engine.save_snapshot(Snapshot("P", "k", "1", 1, b"{}")),
        lambda store: store.follower("f").forget(),
    ],
    ids=["append", "snapshot", "follower"],
)
def test_a_write_looks_although_a_read_has_just_looked(
    path: Path, write: Callable[[EventStore], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "LOOK_EVERY_SECONDS", 3_600)
    with strandline.connect(path) as store:
        store.append(happened(3))
        store.head()
        remove(path)
        assert store.head() == 3
        with pytest.raises(CorruptLog, match="removed or renamed"):
            write(store)


def test_what_comes_back_is_refused_too(path: Path) -> None:
    with strandline.connect(path) as store:
        store.append(happened(3))
        rename(path)
        with pytest.raises(CorruptLog, match="removed or renamed"):
            store.append(happened())
        path.with_name("elsewhere.db").rename(path)
        refuses(store)
    with strandline.connect(path) as store:
        assert store.head() == 3
        assert store.append(happened()).position == 4
    assert check_log(path).problems == []


def test_the_file_that_came_in_its_place_is_left_alone(path: Path) -> None:
    with strandline.connect(path) as store:
        store.append(happened(3))
        path.rename(path.with_name("elsewhere.db"))
        for ending in ("-wal", "-shm"):
            path.with_name(f"log.db{ending}").rename(path.with_name(f"elsewhere.db{ending}"))
        with strandline.connect(path) as other:
            other.append(happened(5))
            with pytest.raises(CorruptLog):
                store.append(happened())
            store.close()
            assert other.append(happened()).position == 6
    assert check_log(path).events == 6
    with strandline.connect(path) as other:
        assert other.head() == 6


@pytest.mark.parametrize("change", CHANGES)
def test_reads_that_wait_and_followers_end(path: Path, change: Callable[[Path], None]) -> None:
    with strandline.connect(path) as store:
        store.append(happened(3))
        errors: list[BaseException] = []

        def ends(work: Callable[[], object]) -> threading.Thread:
            def run() -> None:
                try:
                    work()
                except BaseException as error:
                    errors.append(error)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            return thread

        handled: list[int] = []
        subscription, follower = store.subscribe(after=3), store.follower("f")
        threads = [
            ends(lambda: next(subscription)),
            ends(lambda: follower.run(lambda events, tx: handled.extend(e.position for e in events))),
        ]
        end = time.monotonic() + PATIENCE
        while len(handled) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        change(path)
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert [type(error) for error in errors] == [CorruptLog, CorruptLog]
        refuses(store)


def test_a_read_notices_it_soon(path: Path) -> None:
    with strandline.connect(path) as store:
        store.append(happened(3))
        remove(path)
        assert "removed or renamed" in str(await_refusal(lambda: list(store.read(limit=1))))
        refuses(store)


def test_a_handler_at_work_is_the_last(path: Path) -> None:
    with strandline.connect(path) as store:
        store.append(happened(3))
        handled: list[int] = []

        def handle(events: Any, tx: Any) -> None:
            handled.extend(event.position for event in events)
            if path.exists():
                path.rename(path.with_name("elsewhere.db"))

        with pytest.raises(CorruptLog):
            store.follower("f").catch_up(handle, batch=1)
        assert handled == [1]


def test_an_async_store_notices_it(path: Path) -> None:
    async def use() -> None:
        async with strandline.connect_async(path) as store:
            await store.append(happened(3))
            waiting = asyncio.create_task(anext(store.subscribe(after=3)))
            await store.head()
            remove(path)
            with pytest.raises(CorruptLog):
                await asyncio.wait_for(waiting, PATIENCE)
            with pytest.raises(CorruptLog):
                await store.append(happened())
            with pytest.raises(CorruptLog):
                await store.read(limit=1)

    asyncio.run(use())


def test_a_file_that_cannot_be_opened_again_because_it_is_gone_is_reported_as_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "LOOK_EVERY_SECONDS", 3600)
    with strandline.connect(path) as store:
        store.append(happened())
        store.read()
        remove(path)
        with pytest.raises(CorruptLog, match="it was removed or renamed"):  # a long read opens a connection
            store.count(Query.of(QueryItem(where={"a": 1})))


def test_a_hard_link_is_refused(path: Path) -> None:
    link = path.with_name("link.db")
    with strandline.connect(path) as store:
        store.append(happened())
        os.link(path, link)
        for name in (path, link):
            with pytest.raises(InvalidInput, match="2 names"):
                strandline.connect(name)
        store.append(happened())  # who has it open already goes on
        with pytest.raises(InvalidInput, match="2 names"):
            check_log(link)
        link.unlink()
        with strandline.connect(path) as other:
            assert other.head() == 2
    assert sorted(each.name for each in path.parent.iterdir()) == ["log.db", "log.db.lock"]


def test_a_symbolic_link_and_a_missing_lock_file_are_no_matter(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    with strandline.connect(path) as store, strandline.connect(link) as other:
        store.append(happened())
        path.with_name("log.db.lock").unlink()
        link.unlink()
        assert other.append(happened()).position == 2
        assert store.head() == 2
