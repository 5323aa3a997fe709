"""A process that keeps the lock of a log and does not go on stops others for a while, not for ever."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import strandline
from strandline import Event, InvalidInput, Unavailable
from strandline.engine.sqlite import file_lock
from strandline.engine.sqlite.file_lock import FileLock, holder_of

HOLD = """
import sys, time
from strandline import connect
def handle(events, tx):
    print("inside", flush=True)
    sys.stdin.readline()
with connect(sys.argv[1]) as store:
    store.follower("f").catch_up(handle)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with strandline.connect(tmp_path / "school.db") as store:
        store.append(Event("A", {}))
    return tmp_path / "school.db"


@contextmanager
def stopped_inside_a_transaction(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "inside\n"
        holder.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield holder
        finally:
            holder.send_signal(signal.SIGCONT)
            holder.communicate("\n")


@pytest.mark.parametrize("native", [file_lock._native is not None, False], ids=["as-built", "python"])
def test_the_error_names_the_process_that_keeps_the_lock(
    path: Path, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(file_lock, "take", file_lock._take)
    else:
        assert hasattr(file_lock._native, "lock")
    with strandline.connect(path, lock_timeout=0.3) as store:
        with stopped_inside_a_transaction(path) as holder:
            with pytest.raises(Unavailable) as caught:
                store.append(Event("B", {}))
            assert f"process {holder.pid} (python" in str(caught.value)
            assert "stopped) has kept the lock of" in str(caught.value)
            assert "for more than 0.3 s" in str(caught.value)
            assert caught.value.written is False
            assert "lock_timeout" in caught.value.hint
            assert store.head() == 1
        assert store.append(Event("B", {})).position == 2


def test_followers_and_tasks_do_not_wait_for_ever_either(path: Path) -> None:
    async def append() -> None:
        async with await strandline.connect_async(path, lock_timeout=0.2) as store:
            await store.append(Event("B", {}))

    with stopped_inside_a_transaction(path), strandline.connect(path, lock_timeout=0.2) as store:
        with pytest.raises(Unavailable, match="has kept the lock"):
            store.follower("other").catch_up(lambda events, tx: None)
        with pytest.raises(Unavailable, match="has kept the lock"):
            asyncio.run(append())


def test_a_wait_can_be_interrupted_in_the_main_thread(path: Path) -> None:
    program = """
import signal, sys, threading
from strandline import Event, connect
with connect(sys.argv[1], lock_timeout=60) as store:
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        store.append(Event("B", {}))
    except KeyboardInterrupt:
        print("interrupted")
"""
    with stopped_inside_a_transaction(path):
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=50, check=True
        )
    assert done.stdout == "interrupted\n"


def test_the_lock_is_had_as_soon_as_it_is_free(path: Path) -> None:
    lock, other = FileLock(str(path)), FileLock(str(path), 30)
    lock.acquire()
    done = threading.Event()

    def wait() -> None:
        with other:
            done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not done.wait(0.1)
    assert holder_of(f"{path}.lock") == "this process (by another store, or by a handler)"
    lock.release()
    thread.join(20)
    assert done.is_set()
    lock.close()
    other.close()


@pytest.mark.parametrize("seconds", [0, -1, True, "30", 100_000, float("nan"), None])
def test_a_timeout_that_is_none_is_refused(tmp_path: Path, seconds: object) -> None:
    with pytest.raises(InvalidInput, match="lock_timeout is a number of seconds"):
        strandline.connect(tmp_path / "new.db", lock_timeout=seconds)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
