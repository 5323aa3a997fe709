"""Random operations on an engine and on the memory engine give the same answers, to the last corner.

Two handles write to one log, as two processes would, so that what one keeps in memory is stale for
the other. Pages, batches of candidates and caches are made tiny, so that short histories cross their
borders. `HYPOTHESIS_PROFILE=long pytest tests/test_stateful.py` searches for about an hour.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import strandline
import strandline.engine.http
import strandline.engine.postgres.batch
import strandline.engine.postgres.search
import strandline.engine.sqlite.names
import strandline.engine.sqlite.pending
import strandline.engine.sqlite.recent
import strandline.engine.sqlite.search
import strandline.store
from places import POSTGRES, Place, PostgresUrl, new_log
from served import ServedLogs
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    AppendResult,
    Check,
    Event,
    EventStore,
    Query,
    QueryItem,
    StrandlineError,
)
from strandline.engine.maintenance import check_log
from strandline.retag import Retag
from strandline.testing import ManualClock, strategies, violations

TYPES = st.sampled_from(["A", "B", "C"])
TAGS = st.sampled_from(["!", *(f"{prefix}:{value}" for prefix in "xyz" for value in "123")])
STREAMS = st.sampled_from(["s", "t"])
SUBJECTS = st.sampled_from(["u", "v"])
KEYS = st.sampled_from(["k", "l"])


def is_b(event: Any) -> bool:
    return bool(event.type == "B")


def has_data(event: Any) -> bool:
    return len(event.data) > 3


def has_x1(event: Any) -> bool:
    return "x:1" in event.tags


functions = [is_b, has_data, has_x1]
"""Matchers that are Python functions. A server cannot call them, so its tests have none."""


@st.composite
def wheres(draw: st.DrawFn) -> Any:
    matchers = strategies.wheres()
    return draw(matchers | st.sampled_from(functions) if functions else matchers)


WHERES = wheres()
EVENTS = strategies.events(
    types=TYPES, tags=TAGS, streams=STREAMS, subjects=SUBJECTS, data=strategies.payloads(), keys=KEYS
)
ITEMS = strategies.query_items(
    types=TYPES | st.just("$retagged"),
    tags=TAGS,
    streams=STREAMS,
    subjects=SUBJECTS,
    where=WHERES,
    keys=KEYS,
)
QUERIES = st.one_of(
    strategies.queries(ITEMS),
    st.builds(Query.tag, TAGS),
    st.builds(Query.tag, TAGS, TAGS),
    st.builds(Query.types, TYPES),
    st.sampled_from([Query.all(), Query.user()]),
    st.builds(lambda a, b: Query.of(QueryItem(tags=[a]), QueryItem(tags=[b])), TAGS, TAGS),
)
BACK = st.integers(-1, 12)  # how far an `after` lies behind the head
PARTS = st.lists(st.tuples(QUERIES, BACK), max_size=3)
UNLESS = st.none() | st.none() | QUERIES
TRACKING = st.none() | st.none() | st.tuples(st.sampled_from(["p", "q"]), st.integers(0, 20))
REQUESTS = st.tuples(st.lists(EVENTS, max_size=3), PARTS, st.none() | STREAMS, UNLESS, TRACKING).filter(
    lambda asked: asked[0] or asked[4]  # without events there is something to track
)
REPLACES = st.dictionaries(st.sampled_from("xyz"), st.lists(st.sampled_from("1234"), max_size=2), max_size=2)


def answer(call: Callable[[], Any]) -> Any:
    """What a call returns or raises, comparable between engines."""
    try:
        return plain(call())
    except StrandlineError as error:
        return plain(error)


def plain(value: Any) -> Any:
    if isinstance(value, AppendConditionFailed):
        return (
            type(value),
            str(value),
            value.hint,
            plain(value.conflict),
            value.query,
            value.after,
            value.part,
        )
    if isinstance(value, StrandlineError):
        return (type(value), str(value), value.hint, getattr(value, "tracked", None))
    if isinstance(value, Check):
        events = {"conflict": plain(value.conflict), "conflicts": plain([*value.conflicts])}
        return msgspec.structs.replace(value, **events)
    if isinstance(value, strandline.SequencedEvent) and value.type.startswith("$"):
        return value.to_json().replace(str(value.id), "the store's own")
    return [plain(inner) for inner in value] if isinstance(value, list) else value


class SameAnswers(RuleBasedStateMachine):
    """Two handles on a log that an engine keeps, and the memory engine."""

    place: Place

    def new_place(self) -> Place:
        raise NotImplementedError

    def remove_place(self) -> None:
        """Nothing, where the next history has a log of its own anyway."""

    @initialize()
    def open(self) -> None:
        self.place = self.new_place()
        self.clock = ManualClock()
        self.model = strandline.connect("memory:", clock=self.clock)
        self.stores = [self.connect(), self.connect()]
        self.sent: list[list[Event]] = []
        self.turn = 0

    def connect(self) -> EventStore:
        return self.place.connect(clock=self.clock)

    def same(self, call: Callable[[EventStore], Any]) -> Any:
        self.turn += 1
        expected = answer(lambda: call(self.model))
        assert answer(lambda: call(self.stores[self.turn % 2])) == expected
        return expected

    def condition(self, parts: Iterable[tuple[Query, int]]) -> AppendCondition | None:
        head = self.model.head()
        listed = [AppendCondition(query, after=max(0, head - back)) for query, back in parts]
        return AppendCondition.all_of(*listed) if listed else None

    def request(self, asked: tuple[Any, ...]) -> AppendRequest | None:
        events, parts, stream, unless, tracking = asked
        in_other_stream = stream is not None and any(e.stream not in (None, stream) for e in events)
        stream = None if in_other_stream else stream
        if events:
            self.sent.append([event if stream is None else event.in_stream(stream) for event in events])
        return AppendRequest(events, self.condition(parts), stream, unless, tracking)

    @rule(asked=REQUESTS)
    def append(self, asked: tuple[Any, ...]) -> None:
        request = self.request(asked)
        self.same(lambda store: store.append_many([request])[0])

    @rule(asked=st.lists(REQUESTS, min_size=2, max_size=5), repeats=st.integers(0, 3))
    def append_many(self, asked: list[tuple[Any, ...]], repeats: int) -> None:
        requests = [self.request(one) for one in asked]
        again = [AppendRequest(events) for events in self.sent[-repeats:]] if repeats else []
        self.same(lambda store: store.append_many([*requests, *again]))

    @rule(
        asked=st.lists(REQUESTS, min_size=1, max_size=4),
        retags=st.lists(
            st.tuples(st.integers(0, 4), QUERIES, st.lists(TAGS, max_size=1), REPLACES), max_size=2
        ),
    )
    def one_transaction(self, asked: list[tuple[Any, ...]], retags: list[tuple[Any, ...]]) -> None:
        """What a group commit does: appends and retags of several callers, one after another."""
        works: list[Any] = [self.request(one) for one in asked]
        for place, query, add, replace in retags:
            if add or replace:
                works.insert(place, Retag(query, add, replace))
        self.same(lambda store: store.sequencer.run(works))

    @precondition(lambda self: self.sent)
    @rule(
        which=st.integers(0, 50),
        change=st.sampled_from(["", "less", "turn", "more", "tags"]),
        parts=PARTS,
        tracking=TRACKING,
    )
    def repeat(
        self, which: int, change: str, parts: list[tuple[Query, int]], tracking: tuple[str, int] | None
    ) -> None:
        events = list(self.sent[-1 - which % len(self.sent)])
        if change == "less":
            events = events[1:] or events
        elif change == "turn":
            events.reverse()
        elif change == "more":
            events.append(Event("C", {}))
        elif change == "tags":
            events[0] = events[0].with_tags("x:1")
        condition = self.condition(parts)
        self.same(lambda store: store.append(events, condition, tracking=tracking))

    @rule(asked=QUERIES, add=st.lists(TAGS, max_size=1), replace=REPLACES)
    def retag_query(self, asked: Query, add: list[str], replace: dict[str, list[str]]) -> None:
        self.same(lambda store: store.retag(asked, add=add, replace=replace))

    @rule(backs=st.lists(BACK, max_size=3), add=st.lists(TAGS, max_size=2), replace=REPLACES)
    def retag_positions(self, backs: list[int], add: list[str], replace: dict[str, list[str]]) -> None:
        positions = [max(0, self.model.head() - back) for back in backs]
        self.same(lambda store: store.retag(positions, add=add, replace=replace))

    @rule(
        query=QUERIES,
        after=st.integers(0, 20),
        until=st.none() | st.integers(0, 30),
        backwards=st.booleans(),
        limit=st.none() | st.integers(1, 9),
    )
    def read(self, query: Query, **span: Any) -> None:
        def everything(store: EventStore) -> list[Any]:
            read = store.read(query, **span)
            return [list(read), read.head, read.condition.after, list(read)]

        self.same(everything)

    @rule(parts=PARTS.filter(bool), most=st.integers(0, 4))
    def append_after_a_dry_run(self, parts: list[tuple[Query, int]], most: int) -> None:
        condition, event = self.condition(parts), Event("A", {})
        self.sent.append([event])
        check = self.same(lambda store: store.check(condition, conflicts=most))
        outcome = self.same(lambda store: store.append(event, condition))
        if not isinstance(check, Check):
            assert check == outcome
        elif check.holds:
            assert isinstance(outcome, AppendResult)
        else:
            assert (check.conflict, condition.parts[check.part]) == (outcome[3], outcome[-1])

    @rule(query=QUERIES, back=BACK)
    def ask(self, query: Query, back: int) -> None:
        after = max(0, self.model.head() - back)
        self.same(lambda store: store.count(query))
        self.same(lambda store: store.count(query, after))
        self.same(lambda store: store.exists(query, after))

    @rule(source=st.sampled_from(["p", "q", "r"]))
    def ask_for_tracked(self, source: str) -> None:
        self.same(lambda store: store.tracked(source))

    @rule(seconds=st.integers(-5, 5))
    def move_clock(self, seconds: int) -> None:
        self.clock.move(seconds)

    @rule(seconds=st.integers(-10, 10))
    def ask_for_a_time(self, seconds: int) -> None:
        self.same(lambda store: store.position_at(self.clock.now + timedelta(seconds=seconds)))

    @rule(after=st.integers(0, 20), backwards=st.booleans(), limit=st.none() | st.integers(1, 9))
    def ask_for_appends(self, after: int, **options: Any) -> None:
        self.same(lambda store: list(store.appends(after, **options)))
        self.same(lambda store: store.inspect.recorded(after))

    @rule(prefix=st.sampled_from(["", "x", "y:", "A", "$"]), after=TAGS | TYPES, limit=st.integers(1, 5))
    def ask_for_names(self, prefix: str, after: str, limit: int) -> None:
        self.same(lambda store: store.inspect.types())
        self.same(lambda store: store.inspect.tags())
        self.same(lambda store: store.inspect.types(prefix, after=after, limit=limit))
        self.same(lambda store: store.inspect.tags(prefix, after=after, limit=limit))

    @rule()
    def reopen(self) -> None:
        self.turn += 1
        self.stores[self.turn % 2].close()
        self.stores[self.turn % 2] = self.connect()

    @invariant()
    def heads_agree(self) -> None:
        if hasattr(self, "model"):
            assert [store.head() for store in self.stores] == [self.model.head()] * 2

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        for store in self.stores:
            store.close()
        with self.connect() as store, self.model:
            for ask in (lambda s: list(s.read()), lambda s: list(s.appends())):
                assert answer(lambda ask=ask: ask(store)) == answer(lambda ask=ask: ask(self.model))
            assert violations(store) == []
            # Conditions are the oracle's business; this is about the index and the events behind it.
            problems = check_log(self.place.url, **self.place.options).problems
            assert [problem for problem in problems if problem.kind != "condition"] == []
            expected, found = self.model.stats(), store.stats()
            assert (found.head, found.appends, found.refused) == (
                expected.head,
                expected.appends,
                expected.refused,
            )
        self.remove_place()


class OnSqlite(SameAnswers):
    def new_place(self) -> Place:
        return Place(Path(tempfile.mkdtemp(prefix="strandline-")) / "log.db")

    def remove_place(self) -> None:
        shutil.rmtree(Path(self.place.url).parent)


def on_postgres(url: str) -> type[SameAnswers]:
    class OnPostgres(SameAnswers):
        def new_place(self) -> Place:
            return new_log(url)

    return OnPostgres


def over_http(served: ServedLogs, kept_by: type[SameAnswers]) -> type[SameAnswers]:
    class OverHttp(kept_by):  # type: ignore[misc, valid-type]
        """Both handles are clients of one server, whose store has the clock of the test."""

        @initialize()
        def open(self) -> None:
            self.serving = ExitStack()
            super().open()

        def connect(self) -> EventStore:
            if not hasattr(self, "reached"):
                self.reached = self.serving.enter_context(served.place(self.place, clock=self.clock))
            return self.reached.connect()

        def remove_place(self) -> None:
            self.serving.close()
            super().remove_place()

    return OverHttp


@pytest.fixture
def tiny_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Borders of pages, batches and caches within reach of a short history."""
    monkeypatch.setattr(strandline.reading, "FIRST_PAGE", 3)
    monkeypatch.setattr(strandline.reading, "NEXT_PAGES", 4)
    sqlite = strandline.engine.sqlite
    monkeypatch.setattr(sqlite.search, "CANDIDATES", 2)
    monkeypatch.setattr(sqlite.recent, "SEGMENT_EVENTS", 4)
    monkeypatch.setattr(sqlite.pending, "SETTLE_AT_LEAST", 3)
    monkeypatch.setattr(sqlite.pending, "PACE", 1)
    monkeypatch.setattr(sqlite.names, "MAX_KEPT", 5)
    monkeypatch.setattr(strandline.engine.postgres.batch, "MAX_RIVALS", 1)
    monkeypatch.setattr(strandline.engine.postgres.search, "CANDIDATES", 2)
    postgres = strandline.engine.postgres
    monkeypatch.setattr(postgres.search, "CANDIDATES", 2)
    monkeypatch.setattr(postgres.search, "COUNTED", 3)
    monkeypatch.setattr(strandline.engine.http, "LARGEST_PAGE", 3)


@pytest.fixture
def no_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "functions", [])


def examples(count: int) -> settings:
    """`count` examples in the test run, the profile's number in a long run."""
    profile = settings()
    is_long = profile.max_examples > settings.get_profile("default").max_examples
    return settings(
        profile,
        max_examples=profile.max_examples if is_long else count,
        stateful_step_count=40,
        report_multiple_bugs=False,
    )


@pytest.mark.usefixtures("tiny_limits")
def test_random_histories_give_the_same_answers_with_tiny_limits() -> None:
    run_state_machine_as_test(OnSqlite, settings=examples(60))


def test_random_histories_give_the_same_answers() -> None:
    run_state_machine_as_test(OnSqlite, settings=examples(60))


@pytest.mark.parametrize("server", POSTGRES)
@pytest.mark.usefixtures("tiny_limits")
def test_random_histories_give_the_same_answers_on_postgres(server: str, postgres_url: PostgresUrl) -> None:
    run_state_machine_as_test(on_postgres(postgres_url(server)), settings=examples(12))


@pytest.mark.usefixtures("tiny_limits", "no_functions")
def test_random_histories_give_the_same_answers_over_http(served: ServedLogs) -> None:
    run_state_machine_as_test(over_http(served, OnSqlite), settings=examples(15))


@pytest.mark.usefixtures("tiny_limits", "no_functions")
def test_random_histories_give_the_same_answers_over_http_on_postgres(
    served: ServedLogs, postgres_url: PostgresUrl
) -> None:
    machine = over_http(served, on_postgres(postgres_url("postgres18")))
    run_state_machine_as_test(machine, settings=examples(5))
