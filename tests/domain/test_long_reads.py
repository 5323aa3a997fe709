"""A decision sees one state of the log, however many pages its events would take and whatever is retagged meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from places import Place
from strandline import DomainEvent, EventStore, Projection, Query, TagId, on
from strandline.engine import Span


class AccountId(TagId): ...


class Booked(DomainEvent):
    account: AccountId
    cents: int


class Account(Projection):
    id: AccountId
    cents: int = 0

    @on
    def booked(self, event: Booked) -> None:
        self.cents += event.cents


LAST = 601


@pytest.fixture
def filled(kept: Place) -> Place:
    with kept.connect() as store:
        amounts = [100, *[0] * (LAST - 2), -100]
        store.append([Booked(account=AccountId("a"), cents=cents) for cents in amounts])
    return kept


def retagged_after_the_first_page(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the first and the last event away, together, when the first page was read."""
    read_page, asked = store.engine.read_page, 0

    def read(query: Query, span: Span, size: int) -> Any:
        nonlocal asked
        page = read_page(query, span, size)
        asked += 1
        if asked == 1:
            store.retag([1, LAST], replace={"account": ["b"]})
        return page

    monkeypatch.setattr(store.engine, "read_page", read)


def test_a_state_is_never_half_of_a_retag(filled: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled.connect(decision_cache=0) as store:
        retagged_after_the_first_page(store, monkeypatch)
        assert store.project(Account("a")).cents == 0
        assert store.project(Account("b")).cents == 0


def test_what_an_untyped_decision_is_given_is_never_half_of_a_retag(
    filled: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled.connect() as store:
        retagged_after_the_first_page(store, monkeypatch)
        seen: list[int] = []
        store.decide({"account:a"}, lambda events: seen.extend(event.json()["cents"] for event in events))
        assert (sum(seen), len(seen)) == (0, LAST - 2)


def test_a_task_sees_one_state_too(filled: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def decide() -> None:
        async with filled.connect_async(decision_cache=0) as store:
            retagged_after_the_first_page(store.store, monkeypatch)
            assert (await store.project(Account("a"))).cents == 0

    asyncio.run(decide())
