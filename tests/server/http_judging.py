"""What must hold of a log whose clients noted these calls: nothing lost, nothing doubled, in order, as the answers said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from places import Place
from strandline import EventStore, Query
from strandline.engine.maintenance import check_log
from strandline.testing import violations

APPENDS = ("append", "import", "once")
ALWAYS = frozenset({"append_condition_failed"})
"""What clients are told also where nothing fails."""
FAULTS = frozenset({"unavailable", "shutting_down", "store_closed"})
Note = dict[str, Any]


class Verdict(NamedTuple):
    """Figures of a run, for those who want to know whether anything happened in it."""

    written: int
    refused: int
    unknown: int
    lost: int
    reads: int
    watched: int
    cuts: int
    problems: Counter[str]


def notes_of(folder: Path) -> list[Note]:
    """Return everything that the clients noted."""
    files = sorted(folder.glob("*.ndjson"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def judge(folder: Path, kept: Place, *, had_faults: bool, is_small: bool = True) -> Verdict:
    """Compare the notes with the log, to which nobody writes any more."""
    notes = notes_of(folder)
    appends = [note for note in notes if note["kind"] in APPENDS]
    problems = Counter(note["code"] for note in notes if note["kind"] == "problem")
    assert problems.keys() <= ALWAYS | (FAULTS if had_faults else frozenset()), problems
    with kept.connect() as store:
        positions = {str(event.id): event.position for event in store.read()}
        judge_appends(appends, positions)
        judge_unknown(notes, positions)
        judge_once(store)
        judge_repeats(notes)
        judge_order(notes)
        judge_reads(notes, store)
        judge_watches(notes, store)
        wrong = violations(store) if is_small else []
        assert wrong == [], wrong
    found = check_log(kept.url, **kept.options).problems
    assert found == [], found
    outcomes = Counter(note["outcome"] for note in appends)
    watches = [note for note in notes if note["kind"] == "watch"]
    return Verdict(
        written=outcomes["written"],
        refused=outcomes["refused"],
        unknown=outcomes["unknown"],
        lost=sum(note["kind"] == "lost" for note in notes),
        reads=sum(note["kind"] == "read" for note in notes),
        watched=sum(len(watch["seen"]) for watch in watches),
        cuts=sum(watch["cuts"] for watch in watches) - len(watches),
        problems=problems,
    )


def judge_appends(appends: Iterable[Note], positions: dict[str, int]) -> None:
    """What is acknowledged is there, at the positions of the answer. What is refused is not there."""
    for note in appends:
        there = [positions[event_id] for event_id in note["ids"] if event_id in positions]
        match note["outcome"], note["kind"]:
            case "written", _:
                assert there == list(range(note["first"], note["last"] + 1)), f"lost: {note}"
                assert len(there) == len(note["ids"]), f"half there: {note}"
            case "refused", _:
                assert there == [], f"refused, and there: {note}"
            case "repeated", kind:
                assert kind == "once", f"nobody sent it before: {note}"
                assert there == [], f"somebody else's, and there: {note}"


def judge_unknown(notes: Iterable[Note], positions: dict[str, int]) -> None:
    """An append that nobody heard of is there as a whole or not at all, and its id told which."""
    for note in notes:
        assert note["kind"] != "unresolved", "the server did not tell what became of an append"
        if note["kind"] == "resolved":
            assert (note["id"] in positions) == note["is_there"], f"the id told something else: {note}"
        if note["kind"] == "left" or note.get("outcome") == "unknown":
            there = [positions[event_id] for event_id in note["ids"] if event_id in positions]
            whole = list(range(there[0], there[0] + len(note["ids"]))) if there else []
            assert there == whole, f"half there: {note}"


def judge_once(store: EventStore) -> None:
    """Of the events that `unless_exists` keeps single, there is one each."""
    tags = [tag for event in store.read(Query.types("Once")) for tag in event.tags if tag.startswith("once:")]
    assert len(tags) == len({*tags}), "what should be there once is there twice"


def judge_repeats(notes: Iterable[Note]) -> None:
    """An append that is sent again has the first answer."""
    for note in notes:
        if note["kind"] == "repeat":
            assert (note["status"], note["answer"]) == (200, note["expected"]), note


def judge_order(notes: Iterable[Note]) -> None:
    """What was acknowledged before something else began has the lower position, and a later read sees it."""
    written = [note for note in notes if note.get("outcome") == "written"]
    reads = [note for note in notes if note["kind"] == "read"]
    by_end = sorted(written, key=lambda note: note["ended"])
    done, highest = 0, 0
    for note in sorted([*written, *reads], key=lambda note: note["begun"]):
        while done < len(by_end) and by_end[done]["ended"] < note["begun"]:
            highest = max(highest, by_end[done]["last"])
            done += 1
        if note["kind"] == "read":
            assert note["head"] >= highest, f"a read misses what was acknowledged before: {note}"
        else:
            assert note["first"] > highest, f"behind what was acknowledged before: {note}"


def judge_reads(notes: Iterable[Note], store: EventStore) -> None:
    """A read has the events of its query up to its head, all of them, and no others."""
    for note in notes:
        assert note["kind"] != "read error" or note["code"] in FAULTS, note
        if note["kind"] == "read":
            expected = matching(store, note["query"], note["after"], note["head"])
            assert note["positions"] == expected, f"a read is not what the log has: {note}"


def judge_watches(notes: Iterable[Note], store: EventStore) -> None:
    """Live streams together, over all interruptions, have each event of their query once, in order."""
    head = store.head()
    for note in notes:
        if note["kind"] == "watch":
            seen, last = note["seen"], note["last"]
            assert note["kinds"].keys() <= {"event", "checkpoint", "end", "error"}, note["kinds"]
            assert all(before < after for before, after in pairwise(seen)), "out of order"
            assert seen == matching(store, note["query"], 0, last), "a live stream has a gap or a repetition"
            assert last >= min(head, last_needed(notes)), (
                f"a live stream did not reach the end: {last} of {head}"
            )


def last_needed(notes: Iterable[Note]) -> int:
    """The last position that a client was told of."""
    return max((note.get("last", 0) for note in notes if note.get("outcome") == "written"), default=0)


def matching(store: EventStore, query: dict[str, Any], after: int, until: int) -> Sequence[int]:
    """The positions of a query in `(after, until]`."""
    return [event.position for event in store.read(Query.from_fields(query), after=after, until=until)]
