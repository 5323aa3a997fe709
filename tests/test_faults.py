"""What goes wrong around a store gets a clear error, and the store goes on working afterwards."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline
from places import Place
from strandline import (
    AppendCondition,
    AppendRequest,
    AppendResult,
    CorruptLog,
    Event,
    EventStore,
    InvalidInput,
    NotFound,
    Query,
    QueryItem,
    SchemaMismatch,
    StrandlineError,
    Unavailable,
)
from strandline.engine.maintenance import backup_log
from strandline.testing import violations

NOBODY = 65534


def run(program: str, *arguments: object, **options: Any) -> Any:
    """What a program in another process prints, decoded."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that a user without any rights owns."""
    path = Path(tempfile.mkdtemp(prefix="strandline-"))
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    yield path
    path.chmod(0o700)
    shutil.rmtree(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def store(path: Path) -> Iterator[EventStore]:
    with strandline.connect(path) as store:
        store.append(Event("A", {}, tags=["x"]))
        yield store


REPORT = """
import json, sys, strandline
from strandline import *
def tell(call):
    try:
        return str(call())
    except StrandlineError as error:
        return [error.code, error.retry, str(error), error.hint, getattr(error, "written", "-")]
"""
# To root no file is read-only, so the program gives up its rights once everything is imported.
AS_A_USER = f"""{REPORT}
import os, strandline.engine.sqlite
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
"""


def test_a_full_disk_is_told_by_a_store_that_is_opened_then(path: Path) -> None:
    with strandline.connect(path) as store:
        store.append(Event("A", {}))
    told = run(
        REPORT
        + """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
full = [tell(lambda: connect(sys.argv[1]).head()), tell(lambda: connect(sys.argv[1]).append(Event("A", {})))]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(json.dumps([full, connect(sys.argv[1]).append(Event("A", {})).position]))
""",
        path,
    )
    full, position = told
    for code, _, message, hint, _ in full:
        assert (code, position) == ("unavailable", 2)
        assert "no space left" in message
        assert "free some space" in hint


def test_a_full_disk_refuses_the_append_and_the_store_works_once_there_is_space(tmp_path: Path) -> None:
    told = run(
        REPORT
        + """
import resource
store = connect(sys.argv[1])
store.append(Event("A", b"first"))
events = [Event("Big", b"x" * 100_000) for _ in range(20)]
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
full = [tell(lambda: store.append(events)) for _ in range(2)]
head, small = store.head(), tell(lambda: store.count(Query.types("Big")))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
again = store.append(events)
from strandline.testing import violations
print(json.dumps([full, head, small, [again.first, again.last], again.duplicate, len(violations(store))]))
""",
        tmp_path / "log.db",
    )
    full, head, big, again, duplicate, wrong = told
    for code, retry, message, hint, written in full:
        assert (code, retry) == ("unavailable", "same")
        assert message
        assert hint
        assert written in (False, None)
    assert (head, big, again, duplicate, wrong) == (1, "0", [2, 21], False, 0)


def test_a_full_database_fails_all_who_waited_and_nothing_is_half_there(store: EventStore) -> None:
    connection = store.engine._connection.database  # type: ignore[attr-defined]
    (pages,) = connection.execute("pragma page_count").fetchone()
    connection.execute(f"pragma max_page_count = {pages + 20}").fetchall()
    outcomes: list[object] = []

    def write() -> None:
        for _ in range(20):
            try:
                outcomes.append(store.append([Event("B", b"x" * 3_000, tags=["y"]) for _ in range(3)]))
            except StrandlineError as error:
                outcomes.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [outcome for outcome in outcomes if not isinstance(outcome, AppendResult)]
    assert errors
    assert all(isinstance(error, Unavailable) and error.written is False for error in errors)
    assert "space" in str(errors[0])
    written = sum(isinstance(outcome, AppendResult) for outcome in outcomes)
    assert store.head() == 1 + 3 * written
    connection.execute("pragma max_page_count = 1000000").fetchall()
    store.append(Event("C", {}), AppendCondition(Query.tag("y"), after=store.head()))
    assert violations(store) == []


def test_a_read_only_file_can_be_read_and_says_why_it_cannot_be_written(folder: Path) -> None:
    path = folder / "log.db"
    run(AS_A_USER + "connect(sys.argv[1]).append(Event('A', {})); print(1)", path)
    for name in os.listdir(folder):
        (folder / name).chmod(0o400)
    told = run(
        AS_A_USER
        + """
store = connect(sys.argv[1])
print(json.dumps([store.head(), len(list(store.read())), tell(lambda: store.append(Event("A", {})))]))
""",
        path,
    )
    head, count, (code, _retry, message, hint, written) = told
    assert (head, count, code, written) == (1, 1, "unavailable", False)
    assert "log.db" in message
    assert "chmod" in hint
    for name in os.listdir(folder):
        (folder / name).chmod(0o600)
    assert run(AS_A_USER + "print(connect(sys.argv[1]).append(Event('A', {})).position)", path) == 2


def test_a_read_only_folder_says_why_nothing_can_be_made_there(folder: Path) -> None:
    folder.chmod(0o500)
    told = run(AS_A_USER + "print(json.dumps(tell(lambda: connect(sys.argv[1]))))", folder / "log.db")
    assert told[0] == "unavailable"
    assert "log.db" in told[2]
    assert f"chmod u+w {folder}" in told[3]
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "content", [b"this is no database", b"x" * 5_000, b"SQLite format 3\x00" + b"\x00" * 4_080]
)
def test_a_file_that_is_no_store_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StrandlineError) as caught:
        strandline.connect(path)
    assert isinstance(caught.value, (InvalidInput, CorruptLog))
    assert "log.db" in str(caught.value)
    assert caught.value.hint
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("create table customer (name text)")
    other.close()
    content = path.read_bytes()
    with pytest.raises(InvalidInput, match="not a Strandline store"):
        strandline.connect(path)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with strandline.connect(path) as store:
        assert store.append(Event("A", {})).position == 1


def test_a_store_from_a_newer_version_is_refused_and_left_alone(path: Path, store: EventStore) -> None:
    store.close()
    with sqlite3.connect(path) as raw:
        raw.execute("pragma user_version = 999")
    raw.close()
    with pytest.raises(SchemaMismatch, match="999") as caught:
        strandline.connect(path)
    assert "newer" in caught.value.hint


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="folder"):
        strandline.connect(tmp_path)


def test_a_folder_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        strandline.connect(tmp_path / "absent" / "log.db")
    assert "mkdir" in caught.value.hint


@pytest.mark.parametrize("name", ["x" * 300 + ".db", "x" * 250])
def test_a_name_that_is_too_long_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="too long") as caught:
        strandline.connect(tmp_path / name)
    assert "shorter" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_leads_nowhere_names_the_folder_that_is_missing(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "nowhere" / "log.db")
    with pytest.raises(NotFound) as caught:
        strandline.connect(path)
    assert str(tmp_path / "nowhere") in caught.value.hint


def test_without_create_nothing_is_made(path: Path) -> None:
    with pytest.raises(NotFound):
        strandline.connect(path, create=False)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("url", ["", "sqlite://", ":memory:", "mysql://x", "ftp://log.db"])
def test_a_url_that_names_no_store_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        strandline.connect(url)
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_readable_by_its_owner_only(path: Path, store: EventStore) -> None:
    assert store.head() == 1
    assert {entry.stat().st_mode & 0o077 for entry in path.parent.iterdir()} == {0}


def test_a_damaged_file_is_a_corrupt_log(path: Path, store: EventStore) -> None:
    store.append([Event("A", b"x" * 2_000, tags=["x"]) for _ in range(200)])
    store.close()
    with path.open("r+b") as file:
        file.seek(8_192)
        file.write(os.urandom(200_000))
    with pytest.raises(CorruptLog) as caught, strandline.connect(path) as damaged:
        list(damaged.read())
    assert "check" in caught.value.hint


def test_a_forked_child_cannot_use_the_store_and_the_parent_goes_on(path: Path) -> None:
    told = run(
        REPORT
        + """
import os
store = connect(sys.argv[1])
store.append(Event("A", {}, tags=["x"]))
answers = []
for ends in ("exit", "leave", "exit"):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        calls = [store.head, lambda: store.append(Event("B", {})), lambda: list(store.read()), store.subscribe,
                 lambda: store.retag([1], add=["y"]), store.stats, store.close]
        os.write(writer, json.dumps([tell(call) for call in calls]).encode())
        os._exit(0) if ends == "leave" else sys.exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answers.append(json.load(pipe))
    os.waitpid(child, 0)
    store.append(Event("A", {}, tags=["x"]), store.read(Query.tag("x")).condition)
child = os.fork()
if not child:
    with connect(sys.argv[1]) as own:
        own.append(Event("Child", {}))
    sys.exit(0)
os.waitpid(child, 0)
store.append(Event("A", {}))
from strandline.testing import violations
print(json.dumps([answers, store.head(), store.count(Query.types("Child")), len(violations(store))]))
""",
        path,
    )
    answers, head, from_child, wrong = told
    for *refused, closed in answers:
        assert {answer[0] for answer in refused} == {"store_closed"}
        assert "fork" in refused[0][2]
        assert closed == "None"
    assert (head, from_child, wrong) == (6, 1, 0)
    with strandline.connect(path) as store:
        assert store.head() == 6


def test_fork_while_other_threads_write_leaves_the_parent_working(path: Path) -> None:
    told = run(
        REPORT
        + """
import os, threading, warnings
warnings.simplefilter("ignore")
store = connect(sys.argv[1])
results, go_on = [], True
def write():
    while go_on:
        results.append(store.append(Event("A", {}, tags=["x"])).position)
threads = [threading.Thread(target=write) for _ in range(3)]
for thread in threads: thread.start()
codes = []
for _ in range(10):
    child = os.fork()
    if not child:
        try:
            store.append(Event("B", {}))
        except StoreClosed:
            os._exit(7)
        os._exit(1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
go_on = False
for thread in threads: thread.join()
store.close()
print(json.dumps([codes, sorted(results) == list(range(1, len(results) + 1)), len(results) > 0]))
""",
        path,
    )
    assert told == [[7] * 10, True, True]


def queued(store: EventStore, calls: list[Callable[[], Any]]) -> list[Any]:
    """Run the calls so that they share a transaction: they queue up behind one that waits."""
    entered, leave = threading.Event(), threading.Event()

    def waits(_event: object) -> bool:
        entered.set()
        return not leave.wait(20)

    results: list[Any] = [None] * len(calls)

    def call(index: int) -> None:
        try:
            results[index] = calls[index]()
        except Exception as error:
            results[index] = error

    slow = AppendCondition(Query.of(QueryItem(tags=["x"], where=waits)))
    threads = [threading.Thread(target=store.append, args=(Event("Slow", {}), slow))]
    threads[0].start()
    assert entered.wait(20)
    for index in range(len(calls)):
        threads.append(threading.Thread(target=call, args=(index,)))
        threads[-1].start()
        while len(store.sequencer._queue) <= index:
            pass
    leave.set()
    for thread in threads:
        thread.join(20)
    return results


def poisoned() -> AppendCondition:
    """A condition that breaks the engine itself: its matcher was changed behind its back."""
    item = QueryItem(tags=["x"], where={"a": {"$ne": 1}})
    item.where["a"]["$no_operator"] = item.where["a"].pop("$ne")  # type: ignore[index]
    return AppendCondition(Query.of(item))


def test_a_poisoned_request_fails_alone_in_a_batch(place: Place) -> None:
    with place.connect() as store:
        store.append(Event("A", {"a": 2}, tags=["x"]))
        first, *others = queued(
            store,
            [
                lambda: store.append(Event("B", {}, tags=["first"])),
                lambda: store.append(Event("B", {}), poisoned()),
                lambda: store.append([Event("B", {}), Event("B", {})]),
                lambda: store.append(Event("B", {}), AppendCondition(Query.tag("first"))),
            ],
        )
        assert first == AppendResult(3, 3, 1)
        assert isinstance(others[0], KeyError)
        assert others[1] == AppendResult(4, 5, 2)
        assert others[2].conflict.position == 3
        assert store.head() == 5
        assert store.stats().refused == 1
        assert violations(store) == []


def test_requests_that_queue_up_share_a_transaction_and_are_judged_in_order(store: EventStore) -> None:
    never = AppendCondition(Query.tag("seat"))
    calls = [lambda: store.append(Event("Taken", {}, tags=["seat"]), never) for _ in range(6)]
    first, *others = queued(store, calls)
    assert first == AppendResult(3, 3, 1)
    assert [error.conflict.position for error in others] == [3] * 5


def test_append_many_is_all_or_nothing_when_the_database_fails(store: EventStore) -> None:
    connection = store.engine._connection.database  # type: ignore[attr-defined]
    (pages,) = connection.execute("pragma page_count").fetchone()
    connection.execute(f"pragma max_page_count = {pages + 5}").fetchall()
    requests = [AppendRequest(Event("B", b"x" * 3_000)) for _ in range(50)]
    with pytest.raises(Unavailable) as caught:
        store.append_many(requests)
    assert caught.value.written is False
    assert store.head() == 1
    connection.execute("pragma max_page_count = 1000000").fetchall()
    assert all(isinstance(outcome, AppendResult) for outcome in store.append_many(requests))
    assert store.head() == 51


# SQLite calls what we put in the place of open(2): the n-th call fails once.
FAILING_OPEN = (
    REPORT
    + """
import ctypes, os, shutil
import apsw
import strandline.engine.sqlite
from strandline.engine.maintenance import backup_log
libc = ctypes.CDLL(None, use_errno=True)
kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_int, use_errno=True)
left = [0]
def failing(path, flags, mode):
    left[0] -= 1
    if not left[0]:
        ctypes.set_errno(failure)
        return -1
    return libc.open(path, flags, mode)
hook = kind(failing)
apsw.VFS("hooked", "").xSetSystemCall("open", ctypes.cast(hook, ctypes.c_void_p).value)

def use(path):
    told, tries = [], 0
    store = follower = None
    def step():
        global left
        nonlocal store
        store = store or connect(path)
        store.append(Event("A", {}, tags=["x"]))
        store.follower("f").catch_up(lambda events, tx: tx.execute("create table if not exists t (n)"), attempts=1)
        len(list(store.read(Query.tag("x"))))
        store.count(Query.all())
    for _ in range(3):
        try:
            step()
        except Unavailable as error:
            told.append(str(error))
            left[0] = 0
    store.append(Event("B", {}))
    step()
    store.close()
    return told

report, n = {}, 0
for failure in map(int, sys.argv[2:]):
    n = 0
    while True:
        n += 1
        path = f"{sys.argv[1]}-{failure}-{n}"
        with connect(path) as first:  # as there is one usually
            first.append(Event("A", {}))
        left[0] = n
        told = use(path)
        report[f"{failure} {n}"] = told
        if left[0] > 0:  # there are fewer calls
            left[0] = 0
            break
print(json.dumps(report))
"""
)


def test_one_failed_open_never_leaves_a_store_or_a_follower_read_only(tmp_path: Path) -> None:
    codes = [errno.EMFILE, errno.EIO, errno.EACCES]
    told = run(FAILING_OPEN, tmp_path / "log", *codes)
    failed = [number for number, errors in told.items() if errors]
    assert len(told) > 15
    assert len(failed) > 10
    assert all(len(errors) <= 1 for errors in told.values()), told


def test_what_remains_of_a_failed_backup_does_not_hide_why_it_failed(store: EventStore, path: Path) -> None:
    target = path.with_name("copy.db")
    unfinished = path.with_name("copy.db.unfinished")

    def in_the_way(done: int, pages: int) -> None:
        if done == pages:
            unfinished.unlink()
            unfinished.mkdir()  # which can neither be linked nor removed as a file

    with pytest.raises(Unavailable, match=r"copy\.db"):
        backup_log(path, target, in_the_way)
    assert not target.exists()


def test_a_backup_without_descriptors_says_so(path: Path, store: EventStore) -> None:
    told = run(
        REPORT
        + """
import resource
from strandline.engine.maintenance import backup_log, check_log
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
answers = [tell(lambda: backup_log(sys.argv[1], sys.argv[1] + ".copy")), tell(lambda: check_log(sys.argv[1]))]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
print(json.dumps([answers, tell(lambda: backup_log(sys.argv[1], sys.argv[1] + ".copy").head)]))
""",
        path,
    )
    answers, head = told
    assert [answer[0] for answer in answers] == ["unavailable", "unavailable"]
    assert head == "1"
