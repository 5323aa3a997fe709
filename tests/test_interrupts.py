"""Whatever interrupts a transaction, the next one judges exactly, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import apsw
import pytest

import strandline
from places import Place
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    Event,
    InvalidInput,
    InvalidQuery,
    Query,
    QueryItem,
    Unavailable,
)
from strandline.engine.maintenance import check_log
from strandline.engine.threads import LoopBell
from strandline.retag import Retag
from strandline.testing import violations
from tiny_segments import LIMITS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in LIMITS:
        monkeypatch.setattr(module, name, value)


def poison(event: object) -> bool:
    raise KeyboardInterrupt


def test_numbers_given_in_a_transaction_that_was_rolled_back_are_forgotten(path: Path) -> None:
    """The same number goes to another type afterwards; a condition must not mean that one."""
    with strandline.connect(path) as store:
        store.append([Event("S", {}), Event("S", {})])
        with pytest.raises(KeyboardInterrupt):
            store.append_many(
                [
                    AppendRequest([Event("T", 1)]),
                    AppendRequest([Event("X", 1)], AppendCondition(Query.types("T"), after=2)),
                    AppendRequest([Event("Y", 1)], AppendCondition(Query.of(QueryItem(where=poison)))),
                ]
            )
        store.append(Event("U", 1))
        store.append(Event("T", 1))
        with pytest.raises(AppendConditionFailed):
            store.append(Event("Z", 1), AppendCondition(Query.types("T"), after=store.head() - 1))
        assert store.append(Event("Z", 1), AppendCondition(Query.types("T"), after=4)).position == 5
        assert violations(store) == []
    assert check_log(path).problems == []


@pytest.mark.usefixtures("tiny")
def test_a_database_that_is_full_now_and_then_loses_no_index_entry_and_counts_on(path: Path) -> None:
    """SQLite ends the transaction by itself then; entries on their way and numbers must start again."""
    written = failed = 0
    with strandline.connect(path) as store:
        database = store.engine._connection.database  # type: ignore[attr-defined]
        for number in range(300):
            if number % 20 == 15:
                pages = database.pragma("page_count")
                database.pragma("max_page_count", pages)
            if number % 20 == 19:
                database.pragma("max_page_count", 1_000_000)
            try:
                tags = [f"t:{number % 13}", f"u:{number}"]
                store.append([Event("A", b"x" * 900, tags=tags) for _ in range(3)])
                written += 1
            except Unavailable:
                failed += 1
        assert store.stats().appends == written == len(list(store.appends()))
        for value in range(13):
            expected = [event.position for event in store.read() if f"t:{value}" in event.tags]
            assert [event.position for event in store.read(Query.tag(f"t:{value}"))] == expected
    assert failed > 10
    assert check_log(path).problems == []


@pytest.mark.usefixtures("tiny")
def test_a_commit_that_fails_takes_the_entries_that_were_settling_back(path: Path) -> None:
    """SQLite has ended the transaction by itself when the error arrives."""
    with strandline.connect(path) as store:
        connection = store.engine._connection  # type: ignore[attr-defined]
        commit, commits = connection.commit, 0

        def fail_now_and_then(*arguments: object) -> None:
            nonlocal commits
            commits += 1
            if commits % 3 == 0:
                connection.rows("rollback")
                raise apsw.FullError("database or disk is full")
            commit(*arguments)

        connection.commit = fail_now_and_then
        for number in range(200):
            with contextlib.suppress(Unavailable):
                store.append(Event("A", number, tags=[f"t:{number % 13}", f"u:{number}"]))
        assert commits == 200
        assert store.head() == store.stats().appends == 134
    assert check_log(path).problems == []


def test_a_retag_whose_clock_fails_changes_nothing(place: Place) -> None:
    is_broken = False

    def clock() -> object:
        if is_broken:
            raise OSError("no clock")
        return datetime.now(UTC)

    with place.connect(clock=clock) as store:  # type: ignore[arg-type]
        store.append(Event("A", 1, tags=["x"]))
        is_broken = True
        with pytest.raises(InvalidInput, match="no clock"):
            store.retag(Query.all(), add=["y"])
        outcomes = store.sequencer.run([Retag(Query.all(), ["y"]), AppendRequest(Event("B", 1))])
        assert [type(outcome) for outcome in outcomes] == [InvalidInput, InvalidInput]
        is_broken = False
        assert [event.tags for event in store.read()] == [("x",)]
        assert store.append(Event("C", 1)).position == 2
    if place.url != "memory:":
        assert check_log(place.url, **place.options).problems == []


class Name(str, Enum):  # noqa: UP042  (which formats as its own name)
    STREAM = "orders"
    TAG = "k:1"


def test_a_text_that_is_an_enum_means_its_value(place: Place) -> None:
    with place.connect() as store:
        store.append(Event(Name.STREAM, 1, stream=Name.STREAM, subject=Name.STREAM, tags=[Name.TAG]))
        for query in (
            Query.stream("orders"),
            Query.subject("orders"),
            Query.types("orders"),
            Query.tag("k:1"),
        ):
            assert store.count(query) == 1
        assert Query.stream(Name.STREAM).keys() == ("stream:orders",)
        (event,) = store.read()
        assert type(event.type) is type(event.stream) is type(event.tags[0]) is str
        store.retag([1], replace={"k": [Name.STREAM]})
        assert store.count(Query.tag("k:orders")) == 1


def test_a_matcher_that_exits_fails_its_own_append_only(place: Place) -> None:
    def leave(event: object) -> bool:
        sys.exit()

    async def use() -> None:
        async with place.connect_async() as store:
            await store.append(Event("A", 1))
            with pytest.raises(InvalidQuery, match="SystemExit"):
                await store.append(Event("B", 1), AppendCondition(Query.of(QueryItem(where=leave))))
            assert (await store.append(Event("C", 1))).position == 2

    asyncio.run(asyncio.wait_for(use(), 20))


def test_a_matcher_cannot_close_the_store(place: Place) -> None:
    with place.connect() as store:
        store.append(Event("A", 1))
        query = Query.of(QueryItem(where=lambda _event: store.close() or True))  # type: ignore[func-returns-value]
        with pytest.raises(InvalidQuery, match="must not call the store"):
            store.append(Event("B", 1), AppendCondition(query))
        assert not store.is_closed


def test_an_event_loop_that_is_gone_stops_nobody(path: Path) -> None:
    """A future of a closed loop is among those to wake."""
    store = strandline.connect(path)

    async def leave_behind() -> None:
        store.watch._waiters[LoopBell()] = 0

    asyncio.run(leave_behind())
    assert store.append(Event("A", 1)).position == 1

    async def use() -> None:
        other = strandline.AsyncEventStore(store)
        assert (await other.append(Event("B", 1))).position == 2

    asyncio.run(asyncio.wait_for(use(), 20))
    store.close()


def test_a_forked_child_does_not_keep_the_lock_of_a_parent_that_was_killed(path: Path) -> None:
    program = f"""
import os, time, strandline
store = strandline.connect({str(path)!r})
store.engine._file_lock.acquire()
child = os.fork()
if child == 0:
    os.close(1)
    time.sleep(60)
print(child, flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        parent.kill()
        parent.communicate()
        appended = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import strandline; strandline.connect({str(path)!r}).append(strandline.Event('A', 1))",
            ],
            timeout=20,
            check=True,
        )
        assert appended.returncode == 0
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


STORM = """
import faulthandler, json, random, signal, sys, strandline
from strandline import AppendConditionFailed, Event, Query

faulthandler.dump_traceback_later(60, exit=True)
random.seed(int(sys.argv[3]))
store = strandline.connect(sys.argv[1], **json.loads(sys.argv[2]))


def interrupt(*_):
    raise KeyboardInterrupt


signal.signal(signal.SIGALRM, interrupt)
interrupts = 0
while interrupts < 300:
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 2e-3))
        while True:
            read = store.read(Query.tag(f"k:{random.randrange(3)}"))
            store.append(Event("A", {}, tags=[f"k:{random.randrange(3)}"]), read.condition)
            store.count(Query.types("A"))
    except (KeyboardInterrupt, AppendConditionFailed):
        interrupts += 1
signal.setitimer(signal.ITIMER_REAL, 0)
store.append(Event("Last", {}))
store.close()
print("sound")
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_of_interrupts_leaves_a_store_that_works(kept: Place, seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STORM, *kept.arguments, str(seed)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("sound\n", 0), done.stderr[-2000:]
    with kept.connect() as store:
        assert [event.type for event in store.read(backwards=True, limit=1)] == ["Last"]
        assert violations(store) == []
    assert check_log(kept.url, **kept.options).problems == []


SIGNALLED = """
import random, signal, sys, time
import strandline
from strandline import Event, InvalidInput, Query
from strandline.testing import violations

store, told = strandline.connect(sys.argv[1]), []

def use(number, frame):
    for ask in (lambda: store.append(Event("Signalled", {})), store.head, lambda: list(store.read(limit=1)),
                lambda: store.exists(Query.tag("x")), store.stats):
        try:
            ask()
            told.append("done")
        except InvalidInput as refusal:
            assert "a signal's handler" in str(refusal), refusal
            told.append("refused")
    if number == signal.SIGALRM:
        signal.setitimer(signal.ITIMER_REAL, random.random() / 500)

def leave(number, frame):
    try:
        store.close()
    except InvalidInput as refusal:
        raise SystemExit(3) from refusal
    raise SystemExit(3)

signal.signal(signal.SIGALRM, use)
signal.signal(signal.SIGTERM, leave)
signal.setitimer(signal.ITIMER_REAL, 0.001)
appended, end = [], time.monotonic() + 1
while time.monotonic() < end or not {"done", "refused"} <= set(told):
    appended.append(store.append(Event("A", {}, tags=["x"])).position)
    list(store.read(Query.tag("x"), after=max(appended[-1] - 20, 0)))
signal.signal(signal.SIGALRM, signal.SIG_IGN)
assert violations(store) == [], violations(store)
assert len(set(appended)) == len(appended) and store.count(Query.types("A")) >= len(appended)
print(store.head(), flush=True)
try:
    while True:
        store.append(Event("A", {}))
finally:
    store.close()
"""


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_signal_handler_is_refused_instead_of_waiting_for_itself(path: Path, kind: str) -> None:
    url = "memory:" if kind == "memory" else str(path)
    program = subprocess.Popen(
        [sys.executable, "-c", SIGNALLED, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert program.stdout is not None
        head = program.stdout.readline()
        program.send_signal(signal.SIGTERM)
        _, errors = program.communicate(timeout=20)
    finally:
        program.kill()
    assert head, errors
    assert program.returncode == 3, errors
    if kind == "sqlite":
        report = check_log(path)
        assert report.problems == []
        assert report.events >= int(head)


def test_a_clock_cannot_ask_the_store(path: Path) -> None:
    def clock() -> datetime:
        if stores:
            stores[0].head()
        return datetime.now(UTC)

    stores: list[strandline.EventStore] = []
    with strandline.connect(path, clock=clock) as store:
        store.append(Event("A", {}))
        stores.append(store)
        with pytest.raises(InvalidInput):
            store.append(Event("A", {}))
        stores.clear()
        assert store.append(Event("A", {})).position == 2


EVERYWHERE = str(Path(__file__).with_name("interrupting.py"))


def interrupted(place: Place, what: str, *arguments: object) -> int:
    """How often the program interrupted the store, which worked each time."""
    done = subprocess.run(
        [sys.executable, EVERYWHERE, what, *place.arguments, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.stdout.startswith("sound "), done.stdout + done.stderr[-4000:]
    assert done.returncode == 0
    return int(done.stdout.split()[1])


# How many moments are left out between two that are tried. A prime, so that loops are met at each of their lines.
FEW, ALL = 41, 1


@pytest.mark.parametrize("stride", [FEW, pytest.param(ALL, marks=pytest.mark.long)])
def test_a_store_works_after_an_interrupt_at_any_moment(place: Place, stride: int) -> None:
    assert interrupted(place, "moments", stride, os.getpid() if stride > 1 else 0) > 80


@pytest.mark.parametrize("stride", [FEW, pytest.param(5, marks=pytest.mark.long)])
def test_a_signal_handler_that_uses_the_store_at_any_moment_never_waits_for_itself(
    place: Place, stride: int
) -> None:
    assert interrupted(place, "handlers", stride, os.getpid()) > 80


@pytest.mark.parametrize("stride", [7, pytest.param(ALL, marks=pytest.mark.long)])
def test_close_goes_on_where_an_interrupt_ended_it(place: Place, stride: int) -> None:
    assert interrupted(place, "close", stride, os.getpid() if stride > 1 else 0) > 4


@pytest.mark.parametrize("interrupts", [150, pytest.param(3_000, marks=pytest.mark.long)])
def test_a_storm_of_interrupts_over_all_that_a_store_does_leaves_it_working(
    place: Place, interrupts: int
) -> None:
    count = (
        interrupts if place.url != "memory:" else min(interrupts, 400)
    )  # where every read looks at all events
    assert interrupted(place, "storm", count, os.getpid()) == count


@pytest.mark.parametrize("stopped", ["execute", "rows"])
def test_a_statement_that_an_interrupt_stopped_does_not_keep_later_reads_in_the_past(
    path: Path, stopped: str
) -> None:
    """It has its first row already, and holds on to the state of the log that it sees."""

    def stop(_: object, event: str, called: object) -> None:
        if event == "c_return" and getattr(called, "__name__", "") == "execute":
            raise KeyboardInterrupt

    with strandline.connect(path) as store:
        store.append([Event("A", {}), Event("B", {})])
        connection = store.engine._take_reader()  # type: ignore[attr-defined]
        calls = {"execute": connection.execute, "rows": connection.rows}
        kept: BaseException | None = None
        sys.setprofile(stop)
        try:
            calls.pop(stopped)("select * from event", ())
        except KeyboardInterrupt as interrupt:
            kept = interrupt  # with its traceback, as a debugger or a notebook keeps it
        finally:
            sys.setprofile(None)
        store.append(Event("C", {}))
        (look,) = calls.values()
        assert look("select count(*) from event", ())[0][0] == 3, kept
        connection.close()


def test_a_thread_that_cannot_be_started_is_one_clear_error_and_the_next_try_works(place: Place) -> None:
    """There is no address space left for another stack: the real error of the system."""
    program = """
import json, resource, sys, threading
import strandline
from strandline import Event, Unavailable

store = strandline.connect(sys.argv[1], **json.loads(sys.argv[2]))
store.append(Event("A", {}))
follower = store.follower("f", lease=1.0)
threading.stack_size(1 << 30)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
try:
    follower.catch_up(lambda events, tx: None)
except Unavailable as error:
    assert "no thread left" in str(error), error
    assert "ulimit" in error.hint
else:
    raise AssertionError("it needs a thread that renews the lease")
store.append(Event("B", {}))
resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
threading.stack_size(0)
assert follower.catch_up(lambda events, tx: None) == 2
store.close()
print("sound")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, *place.arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("sound\n", 0), done.stderr


def test_no_memory_in_sqlite_is_unavailable(path: Path) -> None:
    with strandline.connect(path) as store:
        store.append(Event("A", b"x" * 100_000))
        before = apsw.hard_heap_limit(apsw.memory_used() + 1)
        try:
            with pytest.raises(Unavailable, match="no memory left"):
                store.append(Event("A", b"x" * 1_000_000))
        finally:
            apsw.hard_heap_limit(before or 0)
        head = store.head()
        assert store.append(Event("B", {})).position == head + 1


def test_a_lock_that_the_system_does_not_let_go_of_is_let_go_of_by_closing_its_file(path: Path) -> None:
    """`flock` refuses a descriptor that was opened with O_PATH, as it may refuse any on a file system over a network."""
    with strandline.connect(path) as store:
        engine = store.engine
        lock = engine._file_lock  # type: ignore[attr-defined]
        acquire = lock.acquire

        def acquire_and_lose() -> None:
            acquire()
            os.close(lock._file)
            lock._file = os.open(f"{path}.lock", os.O_PATH)

        lock.acquire = acquire_and_lose
        assert store.append(Event("A", {})).position == 1
        assert lock._file is None
        del lock.acquire
        assert store.append(Event("B", {})).position == 2
        assert store.follower("f").catch_up(lambda events, tx: None) == 2


def test_a_signal_handler_cannot_write_while_its_thread_handles_events(path: Path) -> None:
    """FINDINGS D3: it waited for the lock that its own thread held."""
    program = f"""
import faulthandler, signal, time
import strandline
from strandline import Event, InvalidInput, Query

faulthandler.dump_traceback_later(60, exit=True)
store = strandline.connect({str(path)!r})
store.append(Event("A", {{}}))
told = set()

def use(*_):
    try:
        store.append(Event("Signalled", {{}}))
        told.add("done")
    except InvalidInput:
        told.add("refused")

signal.signal(signal.SIGALRM, use)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
number = 0
while told < {{"done", "refused"}} or number < 50:
    store.follower(f"f{{number}}", Query.types("A")).catch_up(lambda events, tx: None)
    number += 1
signal.setitimer(signal.ITIMER_REAL, 0)
store.close()
print("sound")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.stdout, done.returncode) == ("sound\n", 0), done.stderr[-3000:]


SOURCES = Path(strandline.__file__).parent


def test_locks_of_the_store_are_written_in_c_and_none_is_asked_for_its_owner() -> None:
    """An interrupt inside `threading.Condition` leaves its lock taken for ever."""
    for file in [*SOURCES.glob("*.py"), *SOURCES.glob("engine/**/*.py"), *SOURCES.glob("follow/**/*.py")]:
        text = file.read_text()
        for name in ("threading.Condition(", "threading.Event(", "threading.Semaphore(", "_is_owned"):
            assert name not in text, f"{name} in {file}"
