"""What the log remembers: appends, time, identity, figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from ... import AppendCondition, AppendRequest, EventStore, Query
from ...append import RecordedAppend
from ...errors import AppendConditionFailed, InvalidInput
from ..clock import START, ManualClock
from ..oracle import violations
from .kit import OpenStore, happened, is_refused, item, nothing_new, refusal


class Recording:
    """Recorded appends, and the time."""

    def test_every_append_is_recorded_with_its_range_and_condition(self, store: EventStore) -> None:
        condition = AppendCondition.all_of(
            nothing_new(Query.of(item("x", types=["A"], where={"n": {"$gt": 1}})), 1),
            nothing_new(Query.of(item(stream="s"), item(subject="u"), item(exclude_types=["B"])), 2),
        )
        store.append([happened("B"), happened("B")])
        store.append(happened("B"), condition)
        first, second = store.appends()
        assert isinstance(first, RecordedAppend)
        assert (first.first, first.last, first.condition, first.status) == (1, 2, None, "unconditional")
        assert (second.first, second.last, second.condition, second.status) == (3, 3, condition, "recorded")
        assert second.condition is not None
        assert second.condition.to_json() == condition.to_json()

    def test_an_append_is_recorded_at_the_time_of_its_events(self, open_store: OpenStore) -> None:
        clock = ManualClock()
        store = open_store(clock=clock)
        for _ in range(3):
            store.append([happened(), happened()])
            clock.move(1.5)
        times = [append.recorded_at for append in store.appends()]
        assert times == [START + timedelta(seconds=1.5 * n) for n in range(3)]
        assert [event.recorded_at for event in store.read()] == [time for time in times for _ in range(2)]

    def test_unless_exists_is_recorded_as_a_part_after_0(self, store: EventStore) -> None:
        store.append(happened(), unless_exists=Query.tag("k"))
        (append,) = store.appends()
        assert (append.condition, append.status) == (AppendCondition(Query.tag("k")), "recorded")

    def test_refusals_and_repeats_are_not_recorded(self, store: EventStore) -> None:
        event = happened("A", "x")
        store.append(event)
        store.append(event)
        store.append(happened(), unless_exists=Query.tag("x"))
        refusal(store, nothing_new(Query.all()))
        assert [append.first for append in store.appends()] == [1]

    def test_a_callable_condition_is_not_auditable(self, store: EventStore) -> None:
        asked = Query.of(item("x", where=lambda event: True))
        if is_refused(store, asked):
            return
        store.append(happened(), nothing_new(asked))
        store.append(happened(), AppendCondition.all_of(nothing_new(Query.tag("y")), nothing_new(asked)))
        store.append(happened(), unless_exists=asked)
        assert [(append.status, append.condition) for append in store.appends()] == [
            ("not_auditable", None)
        ] * 3

    def test_conditions_may_be_forgotten(self, open_store: OpenStore) -> None:
        store = open_store(record_conditions=False)
        store.append(happened(), nothing_new(Query.tag("x")))
        store.append(happened(), unless_exists=Query.tag("x"))
        store.append(happened())
        expected = ["not_recorded", "not_recorded", "unconditional"]
        callable_where = Query.of(item("x", where=lambda event: True))
        if not is_refused(store, callable_where):
            store.append(happened(), nothing_new(callable_where))
            expected.append("not_auditable")
        assert [append.status for append in store.appends()] == expected
        assert all(append.condition is None for append in store.appends())
        assert violations(store) == []

    def test_conditions_that_are_not_recorded_are_checked_all_the_same(self, open_store: OpenStore) -> None:
        store = open_store(record_conditions=False)
        store.append(happened("A", "x"))
        refusal(store, nothing_new(Query.tag("x")))

    def test_appends_after_a_position_are_those_that_begin_after_it(self, store: EventStore) -> None:
        for count in (1, 3, 2):
            store.append([happened() for _ in range(count)])
        firsts = {after: [append.first for append in store.appends(after)] for after in range(8)}
        assert firsts == {0: [1, 2, 5], 1: [2, 5], 2: [5], 3: [5], 4: [5], 5: [], 6: [], 7: []}

    def test_appends_come_in_pages_without_seam(self, store: EventStore) -> None:
        condition = nothing_new(Query.tag("absent"))
        store.append_many(
            [AppendRequest([happened(), happened()], condition if n % 2 else None) for n in range(2_100)]
        )
        appends = list(store.appends())
        assert [(append.first, append.last) for append in appends] == [(n, n + 1) for n in range(1, 4_200, 2)]
        assert all((append.condition is None) == (append.first % 4 == 1) for append in appends)

    def test_the_oracle_finds_nothing_wrong(self, store: EventStore) -> None:
        for n in range(40):
            query = Query.of(item(f"k:{n % 3}"), item(types=[f"T{n % 5}"]))
            store.append(happened(f"T{n % 4}", f"k:{n % 3}", n=n), store.read(query).condition)
            if n % 7 == 3:
                store.retag(
                    Query.of(item(where={"n": [n // 2, n - 1]})), replace={"k": [str(n % 4)]}, add=[f"n:{n}"]
                )
        assert violations(store) == []

    def test_recorded_at_is_utc_and_the_same_for_all_events_of_an_append(self, store: EventStore) -> None:
        before = datetime.now(UTC) - timedelta(hours=1)
        store.append([happened() for _ in range(50)])
        times = {event.recorded_at for event in store.read()}
        (time,) = times
        assert time.tzinfo is UTC
        assert before < time < datetime.now(UTC) + timedelta(hours=1)

    def test_recorded_at_never_decreases_when_the_clock_does(self, open_store: OpenStore) -> None:
        clock = ManualClock()
        store = open_store(clock=clock)
        for seconds in (10, -3600, 5, 7200):
            store.append(happened())
            store.append_many([AppendRequest(happened()), AppendRequest(happened())])
            clock.move(seconds)
        store.retag([1], add=["x"])
        times = [event.recorded_at for event in store.read()]
        assert times == sorted(times)
        assert times[-1] == START + timedelta(seconds=3615)

    def test_times_keep_their_microseconds(self, open_store: OpenStore) -> None:
        now = datetime(2026, 7, 1, 12, 0, 0, 123_457, tzinfo=timezone(timedelta(hours=2)))
        store = open_store(clock=ManualClock(now))
        store.append(happened())
        (event,) = store.read()
        assert event.recorded_at == now
        assert event.recorded_at.tzinfo is UTC

    def test_position_at_is_the_last_position_recorded_by_then(self, open_store: OpenStore) -> None:
        clock = ManualClock()
        store = open_store(clock=clock)
        assert store.position_at(START) == 0
        store.append([happened(), happened()])
        clock.move(10)
        store.append(happened())
        store.append(happened())
        offsets = {-1: 0, 0: 2, 9.999999: 2, 10: 4, 11: 4, 10**9: 4}
        for seconds, position in offsets.items():
            assert store.position_at(START + timedelta(seconds=seconds)) == position
        elsewhere = (START + timedelta(seconds=5)).astimezone(timezone(timedelta(hours=-7)))
        assert store.position_at(elsewhere) == 2

    def test_naive_times_are_refused(self, open_store: OpenStore) -> None:
        store = open_store(clock=lambda: datetime(2026, 1, 1))  # noqa: DTZ001
        with pytest.raises(InvalidInput, match="time zone"):
            store.position_at(datetime(2026, 1, 1))  # noqa: DTZ001
        with pytest.raises(InvalidInput, match="time zone"):
            store.append(happened())
        assert store.head() == 0

    def test_position_at_takes_only_times(self, store: EventStore) -> None:
        for when in (0, "2026-01-01", None):
            with pytest.raises(InvalidInput):
                store.position_at(when)  # type: ignore[arg-type]

    def test_a_log_has_an_identity_that_stays(self, store: EventStore, open_store: OpenStore) -> None:
        identity = store.stats().log
        assert isinstance(identity, UUID)
        store.append(happened())
        assert store.stats().log == identity

    def test_figures_count_what_is_there(self, store: EventStore) -> None:
        empty = store.stats()
        assert (empty.head, empty.appends, empty.refused, empty.types, empty.tags) == (0, 0, 0, 0, 0)
        store.append([happened("A", "x", "y"), happened("B", "x")])
        store.append(happened("A"))
        stats = store.stats()
        assert (stats.head, stats.appends, stats.types, stats.tags) == (3, 2, 2, 2)
        assert stats.size_bytes > 0
        assert stats.engine == store.engine.name

    def test_figures_tell_the_time_and_the_settings(self, open_store: OpenStore) -> None:
        clock = ManualClock()
        store = open_store(clock=clock, record_conditions=False, max_data_bytes=77)
        stats = store.stats()
        assert (stats.now, stats.record_conditions, stats.max_data_bytes) == (START, False, 77)
        assert (stats.last_check, stats.last_backup) == (None, None)
        clock.move(5)
        assert store.stats().now == START + timedelta(seconds=5)
        assert open_store().stats().record_conditions

    def test_refused_appends_are_counted(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        stale = nothing_new(Query.tag("x"))
        for _ in range(2):
            refusal(store, stale)
        outcomes = store.append_many([AppendRequest(happened(), stale), AppendRequest(happened("A"))])
        assert isinstance(outcomes[0], AppendConditionFailed)
        with pytest.raises(InvalidInput):
            store.append(happened(), nothing_new(Query.tag("x"), 99))
        assert store.stats().refused == 3
