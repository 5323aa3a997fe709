"""Logs with lies in them: conditions under which no store would have accepted an append, written into the database."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Iterator, Mapping

import psycopg

from places import Place
from strandline import AppendCondition, Event, EventStore, Query, QueryItem
from strandline.engine.audit import History, violation

TYPES = ("Defined", "Joined", "Left")
TAGS = ("course:1", "course:2", "student:1", "student:2", "hall:1")
STREAMS = ("s1", "s2")
KEYS = ("k1", "k2")


def plant(place: Place, conditions: Mapping[int, AppendCondition]) -> None:
    """Let the appends that begin at these positions have other conditions than they had."""
    rows = [(condition.to_json(), first) for first, condition in conditions.items()]
    if place.is_in_database:
        with psycopg.connect(str(place.url)) as database, database.cursor() as cursor:
            statement = f"update strandline_{place.log}.event set condition = %s where position = %s"
            cursor.executemany(statement, rows)
        return
    with contextlib.closing(sqlite3.connect(place.url)) as file, file:
        json = "(select id from shape where text = 'json')"
        file.executemany(f"update event set shape = {json}, arguments = ? where position = ?", rows)


def accepted_wrongly(store: EventStore) -> dict[int, int]:
    """What the audit in process says: the first position of an append, and the position that should have refused it."""
    history = History(store.engine)
    found = ((append.first, violation(store.engine, history, append)) for append in store.appends())
    return {first: position for first, position in found if position is not None}


def write_random_log(place: Place, seed: int, appends: int) -> dict[int, AppendCondition]:
    """A log of appends and retags in which conditions hold or do not, as it happens."""
    chance = random.Random(seed)
    with place.connect() as store:
        write_random_events(store, chance, appends)
        firsts = [append.first for append in store.appends() if chance.random() < 0.8]
    conditions = dict(random_conditions(firsts, chance))
    plant(place, conditions)
    return conditions


def write_random_events(store: EventStore, chance: random.Random, appends: int) -> None:
    """Append random events, and retag some."""
    for _ in range(appends):
        if chance.random() < 0.12 and store.head():
            _retag(store, chance)
        else:
            store.append([_event(chance) for _ in range(chance.choice((1, 1, 1, 2)))])


def _event(chance: random.Random) -> Event:
    event = Event(
        chance.choice(TYPES),
        chance.choice(({"n": chance.randrange(3)}, b"\xff no text")),
        tags=chance.sample(TAGS, chance.randrange(4)),
        stream=chance.choice((None, None, *STREAMS)),
        subject=chance.choice((None, None, "x")),
        metadata={"by": chance.choice(("me", "you"))},
    )
    return event.with_key(chance.choice(KEYS)) if chance.random() < 0.2 else event


def _retag(store: EventStore, chance: random.Random) -> None:
    positions = [event.position for event in store.read(Query.user())]
    chosen = chance.sample(positions, min(len(positions), chance.choice((1, 1, 2, 5))))
    if not chosen:
        return
    if chance.random() < 0.5:
        store.retag(chosen, add=[chance.choice(TAGS)])
    else:
        store.retag(chosen, replace={"course": chance.sample(("1", "2"), chance.randrange(3))})


def random_conditions(firsts: list[int], chance: random.Random) -> Iterator[tuple[int, AppendCondition]]:
    """Conditions that hold or do not, as it happens, by the first position of an append."""
    for first in firsts:
        parts = [
            AppendCondition(
                Query.of(*(_item(chance) for _ in range(chance.choice((1, 1, 2))))), _after(first, chance)
            )
            for _ in range(chance.choice((1, 1, 2)))
        ]
        yield first, AppendCondition.all_of(*parts)


def _after(first: int, chance: random.Random) -> int:
    """Mostly a little behind; 0 as `unless_exists` has it; sometimes anywhere."""
    behind = chance.choice((0, 1, 2, 3, 5, first - 1, chance.randrange(first)))
    return max(0, first - 1 - behind)


def _item(chance: random.Random) -> QueryItem:
    if chance.random() < 0.03:
        return QueryItem()
    rare = chance.random()
    return QueryItem(
        types=chance.sample((*TYPES, "$retagged"), chance.choice((0, 1, 1, 2))) if rare >= 0.1 else (),
        tags=chance.sample(TAGS, chance.choice((0, 1, 1, 2, 2, 3))),
        exclude_types=[chance.choice(TYPES)] if rare < 0.1 else (),
        stream=chance.choice(STREAMS) if rare > 0.9 else None,
        subject="x" if 0.8 < rare < 0.9 else None,
        where=chance.choice(({"n": 1}, {"n": {"$ne": 0}}, {"$metadata": {"by": "me"}}))
        if 0.6 < rare < 0.8
        else None,
        key=chance.choice(KEYS) if 0.55 < rare < 0.6 else None,
    )
