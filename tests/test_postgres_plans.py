"""What PostgreSQL really touches, counted by itself: no look-up scans a table, a check sees only what is new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

import strandline
from places import POSTGRES, PostgresUrl, new_log
from strandline import AppendCondition, AppendRequest, Event, Query, QueryItem
from strandline.engine import Span
from strandline.engine.postgres.address import Address
from strandline.engine.postgres.connection import Connection
from strandline.engine.postgres.search import Search, Statements
from strandline.engine.postgres.writer import Writer
from strandline.engine.rules import Time

EVENTS = 100_000
FEW = 60  # entries of an index: a few per range that a query looks at, never a part of the log

COUNTS = """
select c.relname, c.relkind = 'i', pg_stat_get_xact_numscans(c.oid), pg_stat_get_xact_tuples_returned(c.oid)
from pg_class c
where c.relnamespace = %s::regnamespace and c.relname in ('event', 'event_pkey', 'event_by_id', 'event_by_type', 'posting',
    'posting_pkey')
"""

HOT, RARE, COMMON = QueryItem(tags=["hot:1"]), QueryItem(tags=["rare:1"]), QueryItem(types=["Common1"])
LOOK_UPS = {
    "a tag": Query.of(RARE),
    "a tag and a type": Query.of(QueryItem(types=["Rare"], tags=["hot:1"])),
    "a type": Query.types("Rare"),
    "a type that nothing has": Query.types("Never"),
    "a type that the hot tag never has": Query.of(QueryItem(types=["Never"], tags=["hot:1"])),
    "a stream": Query.stream("rare"),
    "a subject": Query.subject("rare"),
    "a hot and a rare tag": Query.tag("hot:1", "rare:1"),
    "several items": Query.of(RARE, QueryItem(types=["Rare"]), QueryItem(stream="rare")),
}


class Counted:
    """A session on a large log that tells what a call made PostgreSQL touch; what the call wrote is undone."""

    def __init__(self, address: Address) -> None:
        self.schema = address.identifier
        self.connection = Connection(address)
        self.search = Search(self.connection, Statements(address))
        self.writer = Writer(self.connection, Statements(address), Time(), record_conditions=True)
        self.head = self.search.head()

    def touched(self, call: Callable[[], object]) -> int:
        """How many entries of indexes the call read; it must not have scanned a table."""
        self.connection.run("begin isolation level read committed")
        try:
            before = {name: (scans, entries) for name, _, scans, entries in self.counts()}
            call()
            after = self.counts()
        finally:
            self.connection.run("rollback")
        assert [name for name, is_index, scans, _ in after if not is_index and scans > before[name][0]] == []
        return sum(entries - before[name][1] for name, is_index, _, entries in after if is_index)

    def counts(self) -> list[tuple[str, bool, int, int]]:
        return self.connection.rows(COUNTS, (self.schema,))

    def append(self, query: Query, after: int) -> object:
        request = AppendRequest(Event("New", {}), AppendCondition(query, after))
        (outcome,) = self.writer.write([request], {}, 0)
        return outcome


@pytest.fixture(
    scope="module",
    params=[(version, statistics) for version in POSTGRES for statistics in ("no statistics", "statistics")],
    ids="-".join,
)
def large(request: pytest.FixtureRequest, postgres_url: PostgresUrl) -> Iterator[Counted]:
    """A log of 100,000 events that grew under one session: plans made for an empty table stay, or those that statistics lead to.

    Never vacuumed, so that an index does not know which of its events everybody may see.
    """
    version, statistics = request.param
    place = new_log(postgres_url(version))
    with strandline.connect(place.url, **place.options) as store:
        counted = Counted(Address(str(place.url), place.options["log"]))
        for table in ("event", "posting"):
            counted.connection.run(f"alter table {counted.schema}.{table} set (autovacuum_enabled = false)")
        for start in range(0, EVENTS, 10_000):
            numbers = range(start, start + 10_000)
            store.append([Event(f"Common{n % 2}", n, tags=["hot:1", f"tag:{n % 500}"]) for n in numbers])
            for query in LOOK_UPS.values():
                counted.append(query, counted.search.head())
                counted.search.read_page(query, Span(), 10)
        store.append(Event("Rare", 0, tags=["hot:1", "rare:1"], stream="rare", subject="rare"))
        if statistics == "statistics":
            counted.connection.run(f"analyze {counted.schema}.event, {counted.schema}.posting")
    counted.head = counted.search.head()
    yield counted
    counted.connection.close()


@pytest.mark.parametrize("name", LOOK_UPS)
@pytest.mark.parametrize("backwards", [False, True])
def test_a_look_up_reads_only_what_it_finds(large: Counted, name: str, backwards: bool) -> None:
    span = Span(backwards=backwards)
    assert large.touched(lambda: large.search.read_page(LOOK_UPS[name], span, 10)) <= FEW + 128


@pytest.mark.parametrize("name", LOOK_UPS)
def test_counting_and_asking_whether_there_is_an_event_scan_nothing(large: Counted, name: str) -> None:
    assert large.touched(lambda: large.search.count(LOOK_UPS[name])) <= FEW + 128
    assert large.touched(lambda: large.search.first(LOOK_UPS[name], 0)) <= FEW + 128


@pytest.mark.parametrize("item", [HOT, COMMON, QueryItem(types=["Common0"], tags=["hot:1"]), QueryItem()])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_page_of_many_events_reads_that_page(large: Counted, item: QueryItem, backwards: bool) -> None:
    span = Span(backwards=backwards)
    assert large.touched(lambda: large.search.read_page(Query.of(item), span, 10)) <= 2 * FEW


@pytest.mark.parametrize(
    "query",
    [*LOOK_UPS.values(), Query.of(HOT), Query.of(COMMON), Query.all(), Query.user()],
    ids=[*LOOK_UPS, "the hot tag", "a common type", "all", "all that users wrote"],
)
def test_a_check_touches_only_what_is_after_the_position(large: Counted, query: Query) -> None:
    for behind in (0, 1, 5):
        touched = large.touched(lambda behind=behind: large.append(query, large.head - behind))
        assert touched <= FEW + 128 * (len(query.items[0].tags) > 1)


def test_a_stale_check_that_nothing_matches_is_as_cheap_as_a_new_one(large: Counted) -> None:
    query = Query.of(QueryItem(types=["Never", "Ever"], tags=["hot:1"]))
    assert large.touched(lambda: large.append(query, 0)) <= 5


def test_an_id_is_looked_up_in_its_index(large: Counted) -> None:
    assert large.touched(lambda: large.search.position_of([uuid4().bytes])) <= 1
    assert large.touched(lambda: large.search.events_with_ids([uuid4().bytes for _ in range(1_000)])) <= FEW
    event = Event("New", {})

    def twice() -> None:
        large.writer.write([AppendRequest(event)], {}, 0)
        large.writer.write([AppendRequest(event)], {}, 0)

    assert large.touched(twice) <= FEW


def test_the_rest_of_the_api_scans_nothing(large: Counted) -> None:
    search = large.search
    assert large.touched(search.head) <= 4  # the head and the mark
    assert large.touched(lambda: search.appends_page(Span(large.head - 5), 10)) <= FEW
    assert large.touched(lambda: search.position_at(2**60)) <= FEW
    assert large.touched(lambda: search.result_holding(large.head)) <= 4
    assert large.touched(lambda: search.events_at([1, 50_000, large.head])) <= 6


def test_a_retag_finds_its_events_by_index(large: Counted) -> None:
    retag = strandline.retag.Retag(Query.of(RARE), add=["more:1"])
    assert large.touched(lambda: large.writer.write([retag], {}, 0)) <= 2 * FEW
