"""A process that forks, or whose other code uses the same file, loses nothing and sells nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import strandline
from places import PostgresUrl, new_log
from strandline import Event
from strandline.engine.sqlite.process import process

needs_native_code = pytest.mark.skipif(
    process.lock_kind == "none",
    reason="Strandline runs without native code here, so a child refuses what its parent had open",
)

ATTACK = Path(__file__).parent / "forking.py"
BEGIN = """
import contextlib, json, os, signal, sqlite3, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from strandline import Event, Query, StoreClosed, connect
from strandline.errors import StrandlineError
path = sys.argv[1]

class Signal:
    def __init__(self):
        self.reader, self.writer = os.pipe()
    def give(self):
        os.write(self.writer, b"x")
    def wait(self):
        os.read(self.reader, 1)

def end(pid):
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def elsewhere(program):
    import subprocess
    begin = "import json, sys; from strandline import Event, Query, connect; path = sys.argv[1]\\n"
    done = subprocess.run([sys.executable, "-c", begin + program, path], capture_output=True, text=True, check=True)
    return done.stdout
"""


def run(program: str, path: Path, **environment: str) -> Any:
    """What a program prints, decoded."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(program), str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def attack(url: object, children: int, witness: Path, *arguments: object) -> str:
    command = [sys.executable, *map(str, (ATTACK, url, children, witness, *arguments))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "school.db"


@needs_native_code
def test_locks_belong_to_open_files(path: Path) -> None:
    with strandline.connect(path) as store:
        store.append(Event("A", {}))
        assert process.lock_kind == "ofd"
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        inodes = {f":{os.stat(f'{path}{end}').st_ino}" for end in ("", "-shm")}
        ours = {lock[1] for lock in locks if any(lock[5].endswith(inode) for inode in inodes)}
    assert ours == {"OFDLCK"}


@needs_native_code
@pytest.mark.parametrize("library", ["sqlite3", "copy"])
def test_other_code_that_closes_the_file_drops_no_lock(path: Path, library: str) -> None:
    types = run(
        f"""
        store = connect(path)
        store.append(Event("A", {{}}))
        if {library!r} == "copy":
            import shutil
            shutil.copy(path, path + ".copy")
        else:
            with contextlib.closing(sqlite3.connect(path)) as other:
                assert other.execute("select count(*) from event").fetchall() == [(1,)]
        elsewhere("with connect(path) as store: store.append(Event('B', {{}})); print(store.head())")
        store.append(Event("C", {{}}))
        print(elsewhere("with connect(path) as store: print(json.dumps([event.type for event in store.read()]))"))
        """,
        path,
    )
    assert types == ["A", "B", "C"]


@needs_native_code
def test_a_parent_that_closes_takes_nothing_from_its_child(path: Path) -> None:
    types = run(
        """
        is_open, is_closed = Signal(), Signal()
        store = connect(path)
        store.append(Event("Parent", {}))
        child = os.fork()
        if not child:
            own = connect(path)
            own.append(Event("Child", {}))
            is_open.give()
            is_closed.wait()
            own.append(Event("Child", {}))
            sys.exit(0)
        is_open.wait()
        store.close()
        third = connect(path)
        third.append(Event("Third", {}))
        is_closed.give()
        end(child)
        print(json.dumps([event.type for event in third.read()]))
        """,
        path,
    )
    assert types == ["Parent", "Child", "Third", "Child"]


@needs_native_code
def test_a_child_goes_on_when_its_parent_was_killed_inside_a_transaction(path: Path) -> None:
    told = run(
        """
        may_begin = Signal()
        parent = os.fork()
        if not parent:
            store = connect(path)
            store.append(Event("A", {}))
            inside, reader = Signal(), os.dup(1)
            threading.Thread(target=lambda: store.follower("f").catch_up(lambda events, tx: (inside.give(), time.sleep(60))), daemon=True).start()
            inside.wait()
            if not os.fork():
                may_begin.wait()
                with connect(path) as own:
                    own.append(Event("B", {}))
                    print(own.head(), flush=True)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(parent, 0)
        may_begin.give()
        with connect(path) as store:
            while store.head() < 2:
                time.sleep(0.01)
            print(store.append(Event("C", {})).position)
        """,
        path,
    )
    assert told == 3


def test_a_handler_that_forks_leaves_its_transaction_to_the_parent(path: Path) -> None:
    told = run(
        """
        store = connect(path)
        store.append(Event("A", {}))
        def handle(events, tx):
            tx.execute("create table seen (position)")
            if not os.fork():
                for call in (store.head, lambda: tx.execute("select 1"), lambda: store.append(Event("B", {}))):
                    with contextlib.suppress(StoreClosed):
                        call()
                        os._exit(3)
                sys.exit(0)
            end(-1)
            tx.execute("insert into seen values (1)")
        store.follower("f").catch_up(handle)
        store.append(Event("C", {}))
        print(json.dumps([store.head(), store.engine.rows("select count(*) from seen")[0][0]]))
        """,
        path,
    )
    assert told == [2, 1]


def test_a_handler_that_forks_while_another_thread_runs_a_follower_ends_in_the_child(path: Path) -> None:
    told = run(
        """
        store = connect(path)
        store.append(Event("A", {}))
        other = store.follower("g")
        def handle(events, tx):
            if not os.fork():
                sys.exit(0)
            end(-1)
        thread = threading.Thread(target=other.run, args=(lambda events, tx: None,))
        thread.start()
        while not store.watch._waiters:
            pass
        store.follower("f").catch_up(handle)
        other.stop()
        thread.join()
        print(json.dumps(store.follower("f").status().position))
        """,
        path,
    )
    assert told == 1


@needs_native_code
def test_a_forked_pool_of_multiprocessing_connects_again(path: Path) -> None:
    told = run(
        """
        import multiprocessing
        store = connect(path)
        store.append(Event("A", {}))

        def begin():
            global own
            own = connect(path)

        def write(number):
            return own.append(Event("B", {"number": number})).position

        with multiprocessing.get_context("fork").Pool(3, begin) as pool:
            positions = pool.map(write, range(60), chunksize=1)
        store.append(Event("C", {}))
        print(json.dumps([sorted(positions) == list(range(2, 62)), store.head()]))
        """,
        path,
    )
    assert told == [True, 62]


def test_without_native_code_a_child_refuses_what_its_parent_had_open(path: Path) -> None:
    told = run(
        """
        def in_child(work):
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                try:
                    os.write(writer, repr(work()).encode())
                except StrandlineError as error:
                    os.write(writer, f"{error.code}: {error.hint}".encode())
                os._exit(0)
            end(child)
            return os.read(reader, 1000).decode()

        def use():
            with connect(path) as own:
                return own.append(Event("B", {})).position

        store = connect(path)
        store.append(Event("A", {}))
        answers = [in_child(use), in_child(lambda: in_child(use))]
        store.close()
        answers.append(in_child(use))
        print(json.dumps(answers))
        """,
        path,
        STRANDLINE_NATIVE="0",
    )
    refused, again, closed = told
    assert refused.startswith("store_closed: close every store before the fork")
    assert "store_closed" in again
    assert closed == "2"


@needs_native_code
@pytest.mark.parametrize("arguments", [(), ("--sqlite3",)], ids=["alone", "beside-sqlite3"])
def test_nothing_is_lost_by_forks_at_any_moment(path: Path, arguments: tuple[str, ...]) -> None:
    assert "none twice, none lost" in attack(path, 16, path.with_suffix(".ids"), *arguments)


@needs_native_code
@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("arguments", [(), ("--sqlite3",)], ids=["alone", "beside-sqlite3"])
def test_nothing_is_lost_by_many_forks(path: Path, arguments: tuple[str, ...], seed: int) -> None:
    assert "none twice, none lost" in attack(path, 150, path.with_suffix(".ids"), "--seed", seed, *arguments)


def test_nothing_is_lost_by_forks_beside_a_database(postgres_url: PostgresUrl, tmp_path: Path) -> None:
    place = new_log(postgres_url("postgres18"))
    assert "none twice, none lost" in attack(place.url, 12, tmp_path / "ids", "--log", place.log)
