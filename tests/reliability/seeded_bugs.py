"""Bugs that are planted into a copy of the product, and the tests that find each.

A suite that finds nothing proves little until it has found something. `docs/guarantees.md` shows this table.

    python tests/reliability/seeded_bugs.py            # plant every bug, one after another, and say what finds it
    python tests/reliability/seeded_bugs.py "retag"    # those with the word in their name
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "strandline"
PATIENCE_SECONDS = 240
TESTS_FAILED = 1  # the exit code of pytest

SQLITE, POSTGRES = "engine/sqlite", "engine/postgres"
POWER_CUTS = "tests/reliability/test_power_cuts.py::test_after_a_power_cut_everything_acknowledged_is_there_and_nothing_is_half_there[False]"
FAILING_CALLS = (
    "tests/reliability/test_failing_calls.py::test_a_call_that_fails_is_told_and_nothing_acknowledged_is_lost"
)
ENDED_SESSIONS = "tests/reliability/test_ended_sessions.py::test_whatever_sessions_end_everything_acknowledged_is_there_once"
INTERRUPTS, FORKS = "tests/test_interrupts.py", "tests/test_forks.py"
HAZARDS, OTHERS = "tests/test_hazards.py", "tests/test_hazards_others.py"
ON_POSTGRES = "tests/test_hazards_postgres.py"
CONFORMANCE = "tests/test_conformance.py"
LOOKED = (
    "tests/domain/test_cache.py"
    "::test_a_retag_of_any_tag_refuses_a_decision_whose_handler_may_have_looked_at_it"
)


class Patch(NamedTuple):
    """Text of one file of the product, which is there once, and what it is replaced by."""

    file: str
    old: str
    new: str


class Bug(NamedTuple):
    """A bug, and the test that finds it. `is_quick`: `make test` plants it too."""

    name: str
    patches: tuple[Patch, ...]
    found_by: str
    is_native: bool = True  # whether it has an effect beside the native code
    is_quick: bool = False


BUGS = (
    Bug(
        "An append is acknowledged before the sync",
        (Patch(f"{SQLITE}/connection.py", "pragma synchronous = full", "pragma synchronous = off"),),
        POWER_CUTS,
        is_quick=True,
    ),
    Bug(
        "The write-ahead log is synced only before a checkpoint",
        (Patch(f"{SQLITE}/connection.py", "pragma synchronous = full", "pragma synchronous = normal"),),
        POWER_CUTS,
    ),
    Bug(
        "A checkpoint does not sync the file",
        (
            Patch(
                f"{SQLITE}/connection.py",
                "        self._database = apsw.Connection(path, flags=flags | apsw.SQLITE_OPEN_NOMUTEX)\n",
                """\
        class HastyFile(apsw.VFSFile):
            def __init__(self, name, flags):
                self.is_hasty = flags[0] & apsw.SQLITE_OPEN_MAIN_DB
                super().__init__("", name, flags)

            def xSync(self, flags):
                if not self.is_hasty:
                    super().xSync(flags)

        class Hasty(apsw.VFS):
            def xOpen(self, name, flags):
                return HastyFile(name, flags)

        self._hasty = Hasty(f"hasty-{id(self)}", "")
        self._database = apsw.Connection(
            path, flags=flags | apsw.SQLITE_OPEN_NOMUTEX, vfs=f"hasty-{id(self)}"
        )
""",
            ),
        ),
        POWER_CUTS,
    ),
    Bug(
        "A commit that failed is acknowledged",
        (
            Patch(
                f"{SQLITE}/connection.py",
                "        lock.release_by(partial(self._own.commit, inserts))\n",
                """\
        with contextlib.suppress(apsw.Error):
            lock.release_by(partial(self._own.commit, inserts))
""",
            ),
        ),
        f"{FAILING_CALLS}[pwrite64-ENOSPC-once]",
    ),
    Bug(
        "An error of a read, a write or a sync is not translated",
        (
            Patch(
                f"{SQLITE}/connection.py",
                "        case apsw.IOError() | OSError():\n",
                "        case OSError():\n",
            ),
        ),
        f"{FAILING_CALLS}[sync-EIO-once]",
    ),
    Bug(
        "A lock that cannot be released is kept",
        (
            Patch(
                f"{SQLITE}/file_lock.py",
                "                    self.close()  # a file that is closed has no lock\n",
                "                    pass\n",
            ),
        ),
        f"{INTERRUPTS}::test_a_lock_that_the_system_does_not_let_go_of_is_let_go_of_by_closing_its_file",
    ),
    Bug(
        "A batch is sent again with new event ids after its connection broke",
        (
            Patch(
                f"{POSTGRES}/batch.py",
                "            uuid_array([event.raw_id for event in events]),\n",
                "            uuid_array([__import__('os').urandom(16) for event in events]),\n",
            ),
        ),
        ENDED_SESSIONS,
    ),
    Bug(
        "Requests of one transaction do not see each other (SQLite)",
        (
            Patch(
                f"{SQLITE}/writer.py",
                "        return self._search.first(query, after)\n",
                """\
        found = self._search.first(query, after)
        return found if found is None or found <= self._new.after else None
""",
            ),
        ),
        f"{HAZARDS}::test_unequal_queries_that_overlap_exclude_each_other_whichever_is_first[sqlite-True-wide]",
    ),
    Bug(
        "Requests of one transaction do not see each other (PostgreSQL)",
        (Patch(f"{POSTGRES}/batch.py", "            self._has_rivals = True\n", ""),),
        f"{HAZARDS}::test_unequal_queries_that_overlap_exclude_each_other_whichever_is_first[postgres18-True-wide]",
    ),
    Bug(
        "The position is taken before the lock (SQLite)",
        (
            Patch(
                f"{SQLITE}/__init__.py",
                "                return self._file_lock.hold(self._append, batch)\n",
                "                self._file_lock.open()\n                return self._append(batch)\n",
            ),
            Patch(
                f"{SQLITE}/writer.py",
                "        self._connection.begin()\n        search = self._search\n        search.look()\n",
                "        search = self._search\n        search.look()\n        self._connection.begin()\n",
            ),
        ),
        "tests/test_races.py::test_processes_that_race_decide_exactly[sqlite]",
    ),
    Bug(
        "The position is taken before the lock (PostgreSQL)",
        (
            Patch(f"{POSTGRES}/sql/append_v3.sql", "    perform from log for update;\n", ""),
            Patch(
                f"{POSTGRES}/sql/append_v3.sql",
                "    verdict := 'head';",
                "    perform from log for update;\n    verdict := 'head';",
            ),
        ),
        f"{OTHERS}::test_the_last_seat_is_sold_once_by_stores_that_share_nothing[postgres18]",
    ),
    Bug(
        "A stricter isolation level hides who came first",
        (
            Patch(
                f"{POSTGRES}/sql/append_v3.sql",
                "if current_setting('transaction_isolation') <> 'read committed' then",
                "if false then",
            ),
        ),
        f"{ON_POSTGRES}::test_c11_a_stricter_default_isolation_changes_no_decision[postgres18-repeatable read]",
    ),
    Bug(
        "A session that does not wait for the disk is left as it is",
        (
            Patch(
                f"{POSTGRES}/sql/append_v3.sql",
                "perform set_config('synchronous_commit', 'on', true);",
                "null;",
            ),
        ),
        "tests/test_postgres_crash.py::test_what_is_acknowledged_survives_a_crash_whatever_the_session_says",
    ),
    Bug(
        "SQLite takes POSIX locks instead of open-file-description locks",
        (Patch(f"{SQLITE}/process.py", "_native.use_ofd(True)", "_native.use_ofd(False)"),),
        f"{FORKS}::test_other_code_that_closes_the_file_drops_no_lock",
    ),
    Bug(
        "A forked child goes on with the connections of its parent",
        (
            Patch(
                f"{SQLITE}/process.py",
                "    _register(after_in_child=process.leave_to_parent)\n",
                "    pass\n",
            ),
        ),
        f"{FORKS}::test_a_handler_that_forks_leaves_its_transaction_to_the_parent",
    ),
    Bug(
        "An interrupt leaves the lock between processes taken",
        (
            Patch(
                f"{SQLITE}/file_lock.py",
                "            return work(*args, **kwargs)\n        finally:\n            if self._is_held:\n",
                "            return work(*args, **kwargs)\n        except Exception:\n            self.release()\n"
                "            raise\n        else:\n            if self._is_held:\n",
            ),
        ),
        f"{INTERRUPTS}::test_a_store_works_after_an_interrupt_at_any_moment[sqlite-41]",
    ),
    Bug(
        "Damaged values are raised as Python's own errors",
        (Patch(f"{SQLITE}/connection.py", "if isinstance(error, _UNREADABLE) and", "if False and"),),
        "tests/reliability/test_corruption.py::test_damage_that_once_ended_in_bare_errors_is_told",
    ),
    Bug(
        "Names are kept in memory before the commit",
        (
            Patch(
                f"{SQLITE}/writer.py",
                "        refused, search = self.refused, self._search\n",
                "        refused, search = self.refused, self._search\n        self._interning.committed()\n",
            ),
        ),
        f"{OTHERS}::test_an_append_that_fails_while_it_is_written_leaves_nothing_behind[sqlite-False-1]",
    ),
    Bug(
        "Index entries are kept in memory before the commit",
        (
            Patch(
                f"{SQLITE}/writer.py",
                "        refused, search = self.refused, self._search\n",
                "        refused, search = self.refused, self._search\n"
                "        self._recent.committed(self._new)\n",
            ),
        ),
        f"{OTHERS}::test_an_append_that_fails_while_it_is_written_leaves_nothing_behind[sqlite-False-1]",
        is_quick=True,
    ),
    Bug(
        "Event ids are not looked up",
        (
            Patch(
                f"{SQLITE}/writer.py",
                "        return {id_ for (id_,) in self._execute(_IDS_IN_LOG, (ids,))} if ids else set()\n",
                "        return set()\n",
            ),
        ),
        f"{HAZARDS}::test_c7_a_repeat_is_known_before_the_condition_is_judged[sqlite]",
    ),
    Bug(
        "`unless_exists` is not looked up",
        (Patch("engine/judge.py", "if request.unless_exists is not None:", "if False:"),),
        f"{HAZARDS}::test_c8_an_append_without_condition_can_still_be_guarded_and_idempotent[sqlite]",
    ),
    Bug(
        "Only the first part of a condition is judged",
        (Patch("engine/judge.py", "request.condition.parts:", "request.condition.parts[:1]:"),),
        f"{HAZARDS}::test_o7_each_part_of_a_condition_keeps_its_own_after[sqlite]",
    ),
    Bug(
        "All parts of a condition have the `after` of the last",
        (
            Patch(
                "engine/judge.py",
                "            self._check(part)\n",
                "            self._check(AppendCondition(part.fail_if_events_match, request.condition.parts[-1].after))\n",
            ),
        ),
        f"{HAZARDS}::test_o7_each_part_of_a_condition_keeps_its_own_after[sqlite]",
    ),
    Bug(
        "`after` is ignored",
        (Patch("engine/judge.py", "part.fail_if_events_match, part.after", "part.fail_if_events_match, 0"),),
        f"{HAZARDS}::test_o4_a_condition_does_not_touch_the_keys_that_its_events_do_not_have[sqlite]",
        is_native=False,
    ),
    Bug(
        "A retag refuses no decision",
        (Patch("engine/judge.py", " if self._last_retag() > after else None\n", " if False else None\n"),),
        f"{OTHERS}::test_m9_a_tag_given_later_refuses_the_decision_that_did_not_see_it[sqlite]",
    ),
    Bug(
        "A retag refuses a decision only if the query gains or loses the event",
        (
            Patch(
                "retag.py",
                "return query.matches(event, old) or query.matches(event, new)",
                "return query.matches(event, old) != query.matches(event, new)",
            ),
        ),
        f"{LOOKED}[sqlite-True-Vips]",
    ),
    Bug(
        "A retag is found by the tags that it gave or took only (PostgreSQL)",
        (
            Patch(
                f"{POSTGRES}/sql/retag_v2.sql",
                "        || string_to_array(e.tags, E'\\n') || string_to_array(c.removed, E'\\n')\n",
                "        || string_to_array(c.removed, E'\\n')\n",
            ),
        ),
        f"{LOOKED}[postgres18-True-Vips]",
    ),
    Bug(
        "Reads use the connection of the writer inside its transaction",
        (
            Patch(
                f"{SQLITE}/__init__.py",
                "                with self._lock:\n                    self._check_open()\n                    if not may_be_long",
                "                if True:\n                    self._check_open()\n                    if not may_be_long",
            ),
        ),
        "tests/test_races.py::test_threads_that_race_decide_exactly[sqlite]",
    ),
    Bug(
        "A request that fails takes the others of its transaction with it",
        (
            Patch(
                "engine/sequencer.py",
                "        elif len(batch) == 1:\n            batch[0].settle([], error)\n",
                "        elif batch:\n            for ticket in batch:\n                ticket.settle([], error)\n",
            ),
        ),
        "tests/test_faults.py::test_a_poisoned_request_fails_alone_in_a_batch[sqlite]",
    ),
    Bug(
        "A checkpoint moves in a transaction of its own, before the handler works",
        (
            Patch(
                "follow/delivery.py",
                "            if is_inside:\n",
                """\
            moved = yield Within(tx, lambda: self._moved(tx, row, end, judged))
            yield Within(tx, lambda: tx.commit() or tx.end() or tx.begin())
            row = moved
            if is_inside:
""",
            ),
        ),
        POWER_CUTS,
    ),
    Bug(
        "Who lost a lease may still commit",
        (
            Patch(
                "follow/lease.py",
                "        if row is None or row.epoch != self.use.epoch or row.is_paused:\n",
                "        if row is None or row.is_paused:\n",
            ),
        ),
        "tests/follow/test_leases.py::test_who_slept_beyond_its_lease_cannot_commit[sqlite-False]",
    ),
    Bug(
        "What the server may still do for a broken connection is not ended",
        (
            Patch(
                f"{POSTGRES}/__init__.py",
                "                attempt.end_lost(connection)\n",
                "                pass\n",
            ),
        ),
        "tests/test_postgres_connections.py::test_an_append_that_is_cut_off_while_it_waits_for_its_turn_is_written_once",
    ),
    Bug(
        "An append that is sent again is told as a duplicate",
        (Patch(f"{POSTGRES}/attempt.py", "        if not self.is_unknown:\n", "        if True:\n"),),
        "tests/test_postgres_connections.py::test_an_append_that_cannot_know_its_outcome_is_written_once",
    ),
)

SOUND = Bug("No bug", (), f"{HAZARDS}::test_o7_each_part_of_a_condition_keeps_its_own_after[sqlite]")


def plant(bug: Bug, folder: Path) -> dict[str, str]:
    """Put a copy of the product that has the bug into a folder; returns the environment that uses it."""
    copy = folder / "strandline"
    for source in PACKAGE.rglob("*"):
        target = copy / source.relative_to(PACKAGE)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif source.suffix != ".c":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source)
    for file, old, new in bug.patches:
        target = copy / file
        text = target.read_text()
        assert text.count(old) == 1, f"{file} has {text.count(old)} times: {old}"
        target.unlink()
        target.write_text(text.replace(old, new))
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    if not bug.is_native:
        environment["STRANDLINE_NATIVE"] = "0"
    return environment


def run(bug: Bug) -> subprocess.CompletedProcess[str]:
    """Run the test that finds the bug, with the bug."""
    with tempfile.TemporaryDirectory(prefix="strandline-") as folder:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-m", "", "-p", "no:cacheprovider", bug.found_by],
            cwd=ROOT,
            env=plant(bug, Path(folder)),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )


def is_found(ran: subprocess.CompletedProcess[str]) -> bool:
    """Whether a test failed, or ended in a crash, rather than passed or was not found."""
    return ran.returncode == TESTS_FAILED or ran.returncode < 0


def table() -> str:
    """The rows for `docs/guarantees.md`."""
    return "\n".join(f"| {bug.name} | `{bug.found_by.partition('[')[0]}` |" for bug in BUGS)


def main() -> None:
    survivors = 0
    for bug in BUGS:
        if any(word not in bug.name for word in sys.argv[1:]):
            continue
        begin = time.monotonic()
        ran = run(bug)
        verdict = "found" if is_found(ran) else f"SURVIVES (exit code {ran.returncode})"
        survivors += not is_found(ran)
        said = [line for line in ran.stdout.splitlines() if line.startswith("E  ")]
        print(f"{verdict}, {time.monotonic() - begin:.1f} s: {bug.name}")
        print(f"    {bug.found_by}")
        print(f"    {said[0][:160] if said else ran.stdout[-300:] + ran.stderr[-300:]}", flush=True)
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
