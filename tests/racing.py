"""A worker that races for a log: reads, waits a moment, decides, appends, and tells what came of it.

Runs in a thread (`race`) or as a process: `python tests/racing.py URL OPTIONS SEED ROUNDS`, which begins when
it gets a line and prints what it did as one JSON object.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import strandline
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    Event,
    EventStore,
    Query,
    QueryItem,
    SequencedEvent,
)
from strandline.testing.oracle import History
from tiny_segments import make_segments_tiny

TYPES = ("Opened", "Paid", "Closed")
TAGS = tuple(f"{kind}:{number}" for kind in ("order", "user", "shop") for number in range(3))


def some_event(rng: random.Random) -> Event:
    stream = rng.choice([None, None, "s", "t"])
    return Event(rng.choice(TYPES), {"n": rng.randrange(4)}, tags=rng.sample(TAGS, 2), stream=stream)


def some_item(rng: random.Random) -> QueryItem:
    shape = rng.randrange(5)
    if shape == 0:
        return QueryItem(tags=rng.sample(TAGS, 1), where={"n": {"$gte": rng.randrange(4)}})
    if shape == 1:
        return QueryItem(types=[rng.choice(TYPES)], stream=rng.choice("st"))
    if shape == 2:
        return QueryItem(tags=rng.sample(TAGS, 2))
    return QueryItem(types=rng.sample(TYPES, rng.randrange(3)), tags=rng.sample(TAGS, 1))


def some_query(rng: random.Random) -> Query:
    return Query.of(*(some_item(rng) for _ in range(rng.randrange(1, 4))))


def race(store: EventStore, seed: int, rounds: int) -> dict[str, list[Any]]:
    """Do `rounds` things and tell: appends that were acknowledged, and those that were refused."""
    rng = random.Random(seed)
    told: dict[str, list[Any]] = {"written": [], "refused": [], "retagged": []}
    for _ in range(rounds):
        chance = rng.random()
        if chance < 0.1:
            target = Query.tag(rng.choice(TAGS)) & Query.types(rng.choice(TYPES))
            kind, value = rng.choice(TAGS).split(":")
            result = store.retag(target, replace={kind: [value]})
            told["retagged"].append([result.first, result.last, result.count])
            continue
        events = [some_event(rng) for _ in range(rng.randrange(1, 4))]
        condition = None if chance < 0.25 else _decide(store, rng)
        try:
            result = store.append(events, condition)
        except AppendConditionFailed as error:
            told["refused"].append([error.query.to_json(), error.after, error.conflict.to_json()])
        else:
            told["written"].append([[str(event.id) for event in events], result.first, result.last])
    return told


def _decide(store: EventStore, rng: random.Random) -> AppendCondition:
    parts = []
    for _ in range(rng.choice([1, 1, 2])):
        read = store.read(some_query(rng))
        parts.append(read.condition)
        time.sleep(rng.random() * 0.004)
    return AppendCondition.all_of(*parts)


def judge_race(store: EventStore, told: Sequence[dict[str, list[Any]]]) -> tuple[int, int]:
    """Everything acknowledged is there once, everything there was acknowledged, every refusal was right."""
    events = list(store.read())
    place = {str(event.id): event.position for event in events}
    assert len(place) == len(events)
    written = [entry for one in told for entry in one["written"]]
    refused = [entry for one in told for entry in one["refused"]]
    retagged = [entry for one in told for entry in one["retagged"]]
    for ids, first, last in written:
        assert [place[id_] for id_ in ids] == list(range(first, last + 1))
    counted = sum(len(ids) for ids, _, _ in written) + sum(count for _, _, count in retagged)
    assert counted == len(events)
    history = History(events)
    for query, after, conflict in refused:
        assert_refusal_was_right(history, Query.from_json(query), after, SequencedEvent.from_json(conflict))
    return len(written), len(refused)


def assert_refusal_was_right(history: History, query: Query, after: int, conflict: SequencedEvent) -> None:
    event = history.events[conflict.position - 1]
    assert conflict.position > after
    assert conflict.id == event.id
    if conflict.type != "$retagged":
        assert query.matches(conflict)
        return
    changes = history.changes(conflict.position - 1, conflict.position + 1)
    meant = [(history.events[change.position - 1], change.old, change.new) for change in changes]
    assert any(query.matches(event, old) or query.matches(event, new) for event, old, new in meant)


def main() -> None:
    url, options, seed, rounds = sys.argv[1:]
    make_segments_tiny()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    with strandline.connect(url, **json.loads(options)) as store:
        json.dump(race(store, int(seed), int(rounds)), sys.stdout)


if __name__ == "__main__":
    main()
