"""Damage files of logs at random, and use each in every way. Run by `test_corruption.py`, in a process that it can lose.

    python tests/reliability/damage.py FOLDER SEED...

prints a line of JSON for each seed: what was damaged, and each call that ended in an error that is not ours.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw

import strandline
from strandline import AppendCondition, Event, EventStore, Query, QueryItem, StrandlineError
from strandline.engine.maintenance import backup_log, check_log

PAGE = 4_096
HANG_SECONDS = 60
COLUMNS = {
    "log": ("uuid", "refused", "indexed_to"),
    "name": ("id", "text"),
    "event": (
        *("position", "type", "tags", "stream", "subject", "id", "metadata"),
        *("recorded_at", "append", "span", "shape", "arguments", "data"),
    ),
    "posting": ("tag", "type", "position"),
    "shape": ("id", "text"),
    "appended_tags": ("position", "tags"),
    "follower": ("name", "query", "start", "position", "judged", "epoch", "owner", "renewed_at", "lease"),
    "dead_letter": ("follower", "position", "error", "attempts"),
    "snapshot": ("projection", "key", "position", "state"),
}
VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 3, 999, 2**31, 2**62, -(2**62), 2**63 - 1),
    *("", "x", "a\nb", "\0", "[]", '{"items":1}', "[1,2,3]", "é" * 300),
    *(
        b"",
        b"\xff\xfe",
        b"x" * 16,
        b"x" * 15,
        b"[1]",
        b'{"changes":[{"position":99,"removed":[],"added":["q"]}]}',
        None,
    ),
)


def ids(seed: int) -> UUID:
    """Ids that are the same in every log."""
    return UUID(int=(7 << 76) | (2 << 62) | seed)


def fail(events: Any, tx: Any) -> None:
    """Make dead letters."""
    raise ValueError("no")


def make(path: Path) -> None:
    """A log with everything in it."""
    with strandline.connect(path) as store:
        for number in range(150):
            tags = [f"t:{number % 7}", f"u:{number}"]
            event = Event(
                "AB"[number % 2], {"n": number, "x": "y" * (number * 10)}, tags=tags, id=ids(number)
            )
            store.append(event, AppendCondition(Query.tag(f"u:{number}"), after=store.head()))
        store.append([Event("C", {}, tags=["t:1"], stream="s", subject="p") for _ in range(5)])
        store.retag(Query.tag("u:3"), add=["late:1"])
        store.append(Event("A", {}, metadata={"k": "v"}), AppendCondition(Query.types("D")))
        store.retag([5, 9], replace={"t": ["7"]})
        store.follower("f").catch_up(lambda events, tx: None)
        store.follower("g", Query.types("C")).catch_up(fail, attempts=1)
    connection = apsw.Connection(str(path))
    settled = connection.execute("select position from event").fetchall()
    assert len(settled) == 158
    # Settle a part of the index, as longer logs have it: the rest is read from the events.
    for (position,) in settled[:100]:
        type_, tags = connection.execute(
            "select type, tags from event where position = ?", (position,)
        ).fetchone()
        for name in ("", *tags.split("\n")):
            connection.execute(
                "insert or ignore into posting select t.id, y.id, ? from name t, name y where t.text = ? and y.text = ?",
                (position, name, type_),
            )
    connection.execute("update log set indexed_to = 100")
    connection.close()


def damage(path: Path, seed: int) -> str:
    """Damage a file in one way; says which."""
    random_ = random.Random(seed)
    if seed % 3 == 0:
        return damage_column(path, random_)
    content = bytearray(path.read_bytes())
    pages = len(content) // PAGE
    page = random_.randrange(pages)
    start = page * PAGE
    way = random_.choice(("bytes", "flip", "zeros", "head", "other"))
    if way == "bytes":
        at, size = start + random_.randrange(PAGE - 64), random_.randrange(1, 64)
        content[at : at + size] = random_.randbytes(size)
    elif way == "flip":
        content[start + random_.randrange(PAGE)] ^= 1 << random_.randrange(8)
    elif way == "zeros":
        at = start + random_.randrange(PAGE)
        content[at : start + PAGE] = bytes(start + PAGE - at)
    elif way == "head":
        content[start : start + 12] = random_.randbytes(12)
    else:
        other = random_.randrange(pages) * PAGE
        content[start : start + PAGE] = content[other : other + PAGE]
    path.write_bytes(content)
    return f"{way} in page {page + 1}"


def damage_column(path: Path, random_: random.Random) -> str:
    """Put a value that was never written into a column of some rows."""
    table = random_.choice([*COLUMNS, "event", "event"])
    column = random_.choice(COLUMNS[table])
    connection = apsw.Connection(str(path))
    connection.execute("pragma ignore_check_constraints = on")
    for _ in range(10):
        value = random_.choice(VALUES)
        rows = connection.execute(f"select count(*) from {table}").fetchone()[0]
        where = "" if random_.randrange(3) == 0 else f" limit 1 offset {random_.randrange(max(1, rows))}"
        key = "rowid" if table != "posting" else None
        within = f" where rowid in (select rowid from {table}{where})" if key else ""
        with contextlib.suppress(apsw.Error):
            connection.execute(f"update or ignore {table} set {column} = ?{within}", (value,))
            break
    connection.close()
    return f"{table}.{column} = {value!r:.40}"


def look_at(store: EventStore, query: Query, **options: Any) -> None:
    """Read events and everything that they say."""
    for event in store.read(query, **options):
        event.to_line(), event.tags, event.metadata, event.id, event.recorded_at


def calls(path: Path) -> dict[str, Callable[[EventStore], object]]:
    """Every use of a store."""
    matched = QueryItem(tags=["t:2"], where={"n": {"$gt": 50}})
    old = AppendCondition(Query.tag("t:1"), after=2)
    return {
        "read": lambda store: look_at(store, Query.all()),
        "backwards": lambda store: look_at(store, Query.all(), backwards=True),
        "tag": lambda store: look_at(store, Query.tag("t:1")),
        "tags": lambda store: look_at(store, Query.of(QueryItem(tags=["t:1", "u:8"]), QueryItem(stream="s"))),
        "type": lambda store: look_at(store, Query.types("A", "$retagged"), backwards=True),
        "scan": lambda store: look_at(store, Query.user()),
        "where": lambda store: look_at(store, Query.of(matched)),
        "ndjson": lambda store: list(store.read().ndjson()),
        "head": lambda store: store.head(),
        "exists": lambda store: store.exists(Query.tag("late:1")),
        "count": lambda store: store.count(Query.tag("t:1")),
        "position_at": lambda store: store.position_at(datetime(2020, 1, 1, tzinfo=UTC)),
        "stats": lambda store: store.stats(),
        "appends": lambda store: list(store.appends()),
        "append": lambda store: store.append(Event("A", {}, tags=["new:1"])),
        "condition": lambda store: store.append(Event("A", {}), AppendCondition(Query.tag("none:1"))),
        "conflict": lambda store: store.append(Event("A", {}), old),
        "retag conflict": lambda store: store.append(
            Event("A", {}), AppendCondition(Query.tag("late:1"), after=156)
        ),
        "repeat": lambda store: store.append(
            Event("A", {"n": 8, "x": "y" * 80}, tags=["t:1", "u:8"], id=ids(8))
        ),
        "overlap": lambda store: store.append([Event("A", {}, id=ids(8)), Event("A", {}, id=ids(12))]),
        "unless": lambda store: store.append(Event("A", {}), unless_exists=Query.tag("u:9")),
        "retag": lambda store: store.retag(Query.tag("t:2"), add=["more:1"]),
        "retag at": lambda store: store.retag([7, 8], replace={"u": []}),
        "followers": lambda store: store.followers(),
        "letters": lambda store: store.follower("g", Query.types("C")).dead_letters(),
        "follow": lambda store: store.follower("f").catch_up(lambda events, tx: None),
        "follow anew": lambda store: store.follower("h").catch_up(lambda events, tx: None),
        "replay": lambda store: store.follower("g").replay(151, lambda events, tx: None),
        "decide": lambda store: store.decide(["t:1"], lambda events: [Event("A", {}, tags=["t:1"])]),
        "check": lambda _: check_log(path),
        "backup": lambda _: backup_log(path, f"{path}.copy"),
    }


def errors_of(path: Path) -> list[str]:
    """Use a log in every way, each time in a store of its own; returns what ended in an error that is not ours."""
    wrong = []
    for name, call in calls(path).items():
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        try:
            with strandline.connect(path) as store:
                call(store)
        except StrandlineError as error:
            if not error.hint:
                wrong.append(f"{name}: no hint: {error}")
        except Exception as error:
            here = error.__traceback__
            while here is not None and here.tb_next is not None:
                here = here.tb_next
            place = f"{os.path.basename(here.tb_frame.f_code.co_filename)}:{here.tb_lineno}" if here else ""
            wrong.append(f"{name}: {type(error).__name__}: {error} ({place})")
    faulthandler.cancel_dump_traceback_later()
    return wrong


def main(folder: Path, seeds: list[int]) -> None:
    """Damage and use a copy for each seed."""
    whole = folder / "whole.db"
    if not whole.exists():
        make(whole)
    for seed in seeds:
        path = folder / f"{seed}.db"
        shutil.copy(whole, path)
        what = damage(path, seed)
        print(json.dumps([seed, what, "begins"]), flush=True)
        print(json.dumps([seed, what, errors_of(path)]), flush=True)
        for rest in folder.glob(f"{seed}.db*"):
            rest.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(seed) for seed in sys.argv[2:]])
