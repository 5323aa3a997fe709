"""The driver appends what was staged: in order, each event once, whoever else writes and however often it is begun."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from staging import events_in, split, stage_lines, staged

from places import Place
from strandline import Event, EventIdConflict, EventStore, Query
from strandline.spark.importing.appending import CHUNK_BYTES, CHUNK_EVENTS, append_in_order, chunks
from strandline.spark.importing.origin import Staged, origins
from strandline.spark.staging.piece import Piece


def numbered(count: int, first: int = 0) -> list[Event]:
    return [Event("Counted", n, tags=[f"n:{n % 7}"]) for n in range(first, first + count)]


def stage(events: list[Event], folder: Path) -> list[Piece]:
    return stage_lines(split([event.to_json().encode() for event in events]), folder)


def run(store: EventStore, pieces: list[Piece], told=None):
    total = sum(piece.staged for piece in pieces)
    return append_in_order(store, lambda: events_in(origins(pieces, None)), total, told)


def imported(store: EventStore) -> list[Event]:
    """What the import brought, in the order of the log, as it was in the source."""
    return [Event.from_json(event.to_json()) for event in store.read(Query.types("Counted"))]


def test_events_come_in_their_order_in_appends_of_a_chunk(kept: Place, tmp_path: Path) -> None:
    events, told = numbered(2_500), []
    pieces = stage(events, tmp_path)
    with kept.connect() as store:
        done = run(store, pieces, lambda *progress: told.append(progress))
        assert imported(store) == events
        assert [(a.first, a.last) for a in store.appends()] == [(1, 1000), (1001, 2000), (2001, 2500)]
        assert (done.written, done.repeated, done.first, done.last) == (2_500, 0, 1, 2_500)
    assert told == [("appending", n, 2_500) for n in (1_000, 2_000, 2_500)]


def test_the_same_again_writes_nothing_and_more_writes_what_is_new(kept: Place, tmp_path: Path) -> None:
    events = numbered(3_200)
    with kept.connect() as store:
        run(store, stage(events[:1_700], tmp_path))
        done = run(store, stage(events[:1_700], tmp_path))
        assert (done.written, done.repeated, done.first, store.head()) == (0, 1_700, 0, 1_700)

        done = run(store, stage(events, tmp_path))
        assert (done.written, done.repeated, done.first, done.last) == (1_500, 1_700, 1_701, 3_200)
        assert imported(store) == events


def test_events_that_the_log_has_from_elsewhere_are_left_where_they_are(kept: Place, tmp_path: Path) -> None:
    events = numbered(2_100)
    with kept.connect() as store:
        store.append([events[1_500], events[3]])  # an append of its own, which no chunk repeats
        store.retag(Query.all(), add=["since"])
        done = run(store, stage(events, tmp_path))
        assert (done.written, done.repeated) == (2_098, 2)
        positions = {event.id: event.position for event in store.read(Query.types("Counted"))}
        assert [positions[events[n].id] for n in (1_500, 3)] == [1, 2]
        rest = [event.id for event in events if event not in {events[1_500], events[3]}]
        assert sorted(rest, key=positions.__getitem__) == rest


def test_nothing_is_written_if_the_log_has_another_event_with_an_id(kept: Place, tmp_path: Path) -> None:
    events = numbered(2_100)
    with kept.connect() as store:
        store.append(Event("Other", 0, id=events[2_050].id))
        with pytest.raises(EventIdConflict, match=r"a.ndjson line 2,051 has the id .* at position 1\b"):
            run(store, stage(events, tmp_path))
        assert store.head() == 1


def test_an_event_that_is_in_the_source_twice_is_written_once(kept: Place, tmp_path: Path) -> None:
    events = numbered(1_500)
    with kept.connect() as store:
        done = run(store, stage([*events[:10], *events, *events], tmp_path))
        assert (done.written, done.repeated) == (1_500, 1_510)
        assert imported(store) == events


def test_live_writers_get_their_turns_and_nothing_is_lost(kept: Place, tmp_path: Path) -> None:
    events, pieces = numbered(5_000), []
    pieces = stage(events, tmp_path)
    is_over = threading.Event()

    def live(number: int) -> None:
        with kept.connect() as own:
            while not is_over.is_set():
                own.append([Event("Live", number, tags=[f"writer:{number}"])])

    with kept.connect() as store:
        writers = [threading.Thread(target=live, args=(number,)) for number in range(2)]
        for writer in writers:
            writer.start()
        done = run(store, pieces)
        is_over.set()
        for writer in writers:
            writer.join()

        assert (done.written, done.repeated) == (5_000, 0)
        assert imported(store) == events
        log = [event.type for event in store.read(until=done.last)]
        assert "Live" in log[log.index("Counted") :]
        assert store.count(Query.user()) == store.head()


def test_two_imports_of_the_same_files_at_once_write_each_event_once_and_in_order(
    kept: Place, tmp_path: Path
) -> None:
    events = numbered(6_000)
    pieces = stage(events, tmp_path)
    done = []

    def work() -> None:
        with kept.connect() as own:
            done.append(run(own, pieces))

    with kept.connect() as store:
        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert imported(store) == events
    assert [one.written + one.repeated for one in done] == [6_000] * 3
    assert sum(one.written for one in done) == 6_000


def test_chunks_are_bounded_in_events_and_in_bytes(tmp_path: Path) -> None:
    small = [staged.event for staged in staged_of(numbered(CHUNK_EVENTS + 1), tmp_path)]
    assert [len(chunk) for chunk in chunks(staged_of(small, tmp_path))] == [CHUNK_EVENTS, 1]

    large = [Event("Large", b"x" * 1_000_000, metadata={"more": "y" * 100_000}) for _ in range(20)]
    sizes = [len(chunk) for chunk in chunks(staged_of(large, tmp_path))]
    assert sum(sizes) == 20
    assert max(sizes) * 1_100_000 <= CHUNK_BYTES
    assert min(sizes[:-1]) * 1_100_000 > CHUNK_BYTES - 1_100_000


def staged_of(events: list[Event], folder: Path) -> list[Staged]:
    return staged(stage(events, folder))
