"""Any system call of SQLite fails: the store says so, loses nothing that it acknowledged, and goes on."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import strandline
from places import Place
from reliability.disk import checkpoints_often
from reliability.failing_calls import ERRORS, FOR_EVER, SYNC, Calls
from reliability.traffic import Writer, follow, judge
from strandline import Event, EventStore, StrandlineError

ACTIONS = 14
FAIL_FOR_EVER = ("open", "pread64", "pwrite64", "ftruncate", "unlink", "mmap", SYNC)
FEW, MANY = 4, 150  # of each call and error


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Calls]:
    strandline.connect(tmp_path / "first.db").close()  # which puts its own system calls in place
    calls = Calls()
    with calls.installed(), checkpoints_often():
        yield calls


def tell_story(place: Place, calls: Calls, told: list[Any]) -> None:
    """Use a store in many ways while a call fails; then the same store must work, or a new one."""
    with suppress(StrandlineError):
        store = place.connect()
        try:
            use(store, told)
            calls.heal()
            assert store.append(Event("Afterwards", {})).count == 1
        except StrandlineError as error:
            raise AssertionError("a store that was open does not work after the call has failed") from error
        finally:
            store.close()
    calls.heal()
    with place.connect() as store:
        use(store, told)


def use(store: EventStore, told: list[Any]) -> None:
    """Do something of each kind; every call may raise an error of the library's, and no other."""
    writer = Writer(f"{len(told)}", told.append)
    actions: list[Callable[[], object]] = [lambda: writer.write(store)] * ACTIONS
    actions += [
        lambda: follow(store, "f", told.append),
        lambda: [event.position for event in store.read()],
        store.stats,
        store.followers,
        lambda: list(store.appends()),
        lambda: writer.write(store),
    ]
    for act in actions:
        with suppress(StrandlineError):
            act()


def judge_story(folder: Path, calls: Calls) -> None:
    """Tell the story in an empty folder, and judge what is there then."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    place, told = Place(folder / "log.db"), []
    tell_story(place, calls, told)
    judge(place, told)


def cases() -> Iterator[Any]:
    for name, errors in ERRORS.items():
        for error in errors:
            for times in (1, FOR_EVER):
                if times > 1 and (error == errno.EINTR or name not in FAIL_FOR_EVER):
                    continue  # SQLite tries again for as long as it is interrupted, or a lock is taken
                yield pytest.param(
                    name,
                    error,
                    times,
                    id=f"{name}-{errno.errorcode[error]}-{'once' if times == 1 else 'for-ever'}",
                )


def fail_each(folder: Path, calls: Calls, name: str, error: int, times: int, most: int) -> int:
    """Have each call of a kind fail in turn, or some that lie far apart; returns how many failed."""
    calls.fail(name, 0, 0, times=0)
    judge_story(folder, calls)
    count = calls.counts[name]
    step = max(1, count // most)
    failed = 0
    for number in range(1 + step // 2, count + 1, step):
        calls.fail(name, number, error, times=times)
        try:
            judge_story(folder, calls)
        except Exception as raised:
            raised.add_note(
                f"call {number} of {count} of {name} failed with {os.strerror(error)}, {times} times"
            )
            raise
        failed += calls.counts[name] >= number
    return failed


@pytest.mark.parametrize(("name", "error", "times"), [*cases()])
def test_a_call_that_fails_is_told_and_nothing_acknowledged_is_lost(
    tmp_path: Path, calls: Calls, name: str, error: int, times: int
) -> None:
    fail_each(tmp_path / "log", calls, name, error, times, FEW)


@pytest.mark.long
@pytest.mark.parametrize(("name", "error", "times"), [*cases()])
def test_each_call_that_fails_is_told_and_nothing_acknowledged_is_lost(
    tmp_path: Path, calls: Calls, name: str, error: int, times: int
) -> None:
    fail_each(tmp_path / "log", calls, name, error, times, MANY)
