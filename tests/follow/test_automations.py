"""Automations: an event leads to commands, and none of them is done twice to effect."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from follow import welcome as accounts
from follow.following import until
from follow.welcome import OPENED, Account, Blocked, account_of, bonuses, open_accounts, pay, welcome
from places import Place
from strandline import EventStore, InvalidInput, Query, SequencedEvent, Unavailable
from strandline.follow import Call, Undeliverable
from strandline.follow.automation import Automation, blocking


def test_an_event_leads_to_a_command_whose_events_say_so(store: EventStore) -> None:
    open_accounts(store, "a1", "a2")
    automation = store.automation("welcome", OPENED, welcome)
    assert automation.catch_up() == 2
    assert bonuses(store) == ["a1", "a2"]
    opened, paid = list(store.read(OPENED)), list(store.read(Query.types("BonusPaid")))
    assert [event.metadata["causation_id"] for event in paid] == [str(event.id) for event in opened]
    assert [event.metadata["correlation_id"] for event in paid] == [str(event.id) for event in opened]
    assert [event.key for event in paid] == ["pay bonus:welcome:1:0", "pay bonus:welcome:2:0"]
    assert automation.status().state == "idle"


def test_it_runs_while_accounts_are_opened(store: EventStore) -> None:
    automation = store.automation("welcome", OPENED, welcome)
    thread = threading.Thread(target=automation.run)
    thread.start()
    try:
        open_accounts(store, *(f"a{number}" for number in range(20)))
        until(lambda: len(bonuses(store)) == 20)
    finally:
        automation.stop()
        thread.join(20)
    assert not thread.is_alive()
    assert bonuses(store) == [f"a{number}" for number in range(20)]


def test_none_several_and_generated_calls(store: EventStore) -> None:
    open_accounts(store, "none", "two", "three")

    def decide(event: SequencedEvent) -> Any:
        account = account_of(event)
        if account.id == "none":
            return None
        if account.id == "two":
            return [Call(pay, account, 1), Call(pay, account, cents=1)]
        return (Call(pay, account, 1) for _ in range(3))

    automation = store.automation("welcome", OPENED, decide)
    for _ in range(2):
        automation.catch_up()
        assert bonuses(store) == ["two"] * 2 + ["three"] * 3
        automation.follower.reset(0)  # keys outlive a reset


def test_a_crash_after_the_command_does_not_pay_twice(store: EventStore) -> None:
    open_accounts(store, "a1", "a2", "a3")
    crashes = {1: 2, 2: 1}

    def decide(event: SequencedEvent) -> Iterator[Call]:
        yield welcome(event)
        if crashes.get(event.position, 0):
            crashes[event.position] -= 1
            raise OSError("after the command, before the checkpoint")
        yield welcome(event)

    automation = store.automation("welcome", OPENED, decide, backoff=0)
    automation.catch_up()
    assert bonuses(store) == ["a1", "a1", "a2", "a2", "a3", "a3"]
    assert automation.dead_letters() == []
    assert crashes == {1: 0, 2: 0}


def test_killed_between_command_and_checkpoint_it_does_not_pay_twice(kept: Place) -> None:
    with kept.connect() as store:
        open_accounts(store, "a1", "a2")
        for _ in range(2):
            done = subprocess.run([sys.executable, accounts.__file__, *kept.arguments], check=False)
            assert done.returncode == -signal.SIGKILL
            assert bonuses(store) == ["a1"]
            assert store.follower("welcome", OPENED).status().position == 0
        automation = store.automation("welcome", OPENED, welcome, lease=accounts.LEASE_SECONDS)
        assert automation.catch_up() == 3
        assert bonuses(store) == ["a1", "a2"]


def test_two_processes_that_both_deliver_an_event_pay_once(kept: Place) -> None:
    """As when a process wakes up after its lease was taken over: both are in the handler."""
    with kept.connect() as one, kept.connect() as other:
        open_accounts(one, *(f"a{number}" for number in range(10)))
        events = list(one.read(OPENED))
        start = threading.Barrier(2)

        def deliver(store: EventStore) -> None:
            handle = blocking(Automation("welcome", welcome, ()), store.execute)
            start.wait(20)
            handle(events, None)

        threads = [threading.Thread(target=deliver, args=(store,)) for store in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(bonuses(one)) == [f"a{number}" for number in range(10)]


def test_two_automations_have_keys_of_their_own(store: EventStore) -> None:
    open_accounts(store, "a1")
    for name in ("first", "second", "x" * 256):
        store.automation(name, OPENED, welcome).catch_up()
    assert bonuses(store) == ["a1"] * 3
    long = store.automation("x" * 256, OPENED, welcome)
    long.follower.reset(0)
    long.catch_up()
    assert bonuses(store) == ["a1"] * 3


def test_a_key_that_the_call_has_is_kept(store: EventStore) -> None:
    open_accounts(store, "a1", "a1")

    def once_per_account(event: SequencedEvent) -> Call:
        account = account_of(event)
        return Call(pay.with_options(idempotency_key=account.id), account, 500)

    store.automation("welcome", OPENED, once_per_account).catch_up()
    assert bonuses(store) == ["a1"]


def test_a_refusal_is_a_dead_letter_that_can_be_replayed(store: EventStore) -> None:
    open_accounts(store, "a1", "blocked", "a2")
    automation = store.automation("welcome", OPENED, welcome, attempts=2, backoff=0)
    automation.catch_up()
    assert bonuses(store) == ["a1", "a2"]
    (letter,) = automation.dead_letters()
    assert (letter.position, letter.error, letter.attempts) == (2, "Blocked: blocked", 2)

    def pay_another(event: SequencedEvent) -> Call:
        return Call(pay, Account("other"), 1)

    store.automation("welcome", OPENED, pay_another).replay(2)
    assert bonuses(store) == ["a1", "a2", "other"]
    assert automation.dead_letters() == []


def test_a_refusal_that_is_ignored_keeps_nothing_else_from_happening(store: EventStore) -> None:
    open_accounts(store, "a1", "blocked")

    def decide(event: SequencedEvent) -> list[Call]:
        return [welcome(event), Call(pay, Account("sponsor"), 1)]

    automation = store.automation("welcome", OPENED, decide, ignore=Blocked)
    automation.catch_up()
    assert bonuses(store) == ["a1", "sponsor", "sponsor"]
    assert automation.dead_letters() == []


def test_a_database_that_does_not_answer_is_no_dead_letter(store: EventStore) -> None:
    open_accounts(store, "a1")
    calls = []

    def decide(event: SequencedEvent) -> Call:
        calls.append(event.position)
        if len(calls) < 3:
            raise Unavailable("not now")
        return welcome(event)

    automation = store.automation("welcome", OPENED, decide, attempts=3, backoff=0)
    automation.catch_up()
    assert (bonuses(store), automation.dead_letters()) == (["a1"], [])
    with pytest.raises(Unavailable):
        store.automation("again", OPENED, lambda _: down(), attempts=2, backoff=0).catch_up()
    assert store.follower("again", OPENED).status().position == 0


def down() -> Call:
    raise Unavailable("down")


def test_what_is_no_use_to_try_again_is_tried_once(store: EventStore) -> None:
    open_accounts(store, "a1", "a2")
    calls = []

    def decide(event: SequencedEvent) -> Call:
        calls.append(event.position)
        if event.position == 1:
            raise Undeliverable("never")
        return welcome(event)

    automation = store.automation("welcome", OPENED, decide, batch=1, backoff=1_000)
    automation.catch_up()
    assert calls == [1, 2]
    assert [(letter.position, letter.attempts) for letter in automation.dead_letters()] == [(1, 1)]


@pytest.mark.parametrize("wrong", [1, "pay", [pay], pay])
def test_what_is_no_call_stops_it_and_no_event_is_to_blame(store: EventStore, wrong: Any) -> None:
    open_accounts(store, "a1")
    automation = store.automation("welcome", OPENED, lambda _: wrong)
    with pytest.raises(InvalidInput, match="is no call"):
        automation.catch_up()
    assert (automation.dead_letters(), automation.status().position) == ([], 0)


@pytest.mark.parametrize("wrong", [lambda: Call(pay), lambda: Call(pay, Account("a1"), 1, 2)])  # type: ignore[call-arg]
def test_a_call_with_wrong_arguments_stops_it_and_no_event_is_to_blame(
    store: EventStore, wrong: Callable[[], Call]
) -> None:
    open_accounts(store, "a1")
    automation = store.automation("welcome", OPENED, lambda _: wrong())
    with pytest.raises(InvalidInput, match="argument"):
        automation.catch_up()
    assert (automation.dead_letters(), automation.status().position) == ([], 0)
    automation = store.automation("welcome", OPENED, welcome)
    automation.catch_up()
    assert bonuses(store) == ["a1"]


def test_wrong_use_is_told_at_once(store: EventStore) -> None:
    async def later(event: SequencedEvent) -> None: ...

    with pytest.raises(InvalidInput, match="plain function"):
        store.automation("welcome", OPENED, later)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="ignore takes exception classes"):
        store.automation("welcome", OPENED, welcome, ignore=("Blocked",))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="attempts is a whole number"):
        store.automation("welcome", OPENED, welcome, attempts=0)
    with pytest.raises(InvalidInput, match="is no command"):
        Call(welcome, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        Call(pay)  # type: ignore[call-arg]


def test_the_same_for_asyncio(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            open_accounts(store.store, "a1", "blocked", "a2", "ignored")
            failures = [OSError("after the command")]

            def decide(event: SequencedEvent) -> Iterator[Call]:
                yield welcome(event)
                if failures:
                    raise failures.pop()

            automation = store.automation("welcome", OPENED, decide, attempts=2, backoff=0)
            await automation.catch_up()
            assert bonuses(store.store) == ["a1", "a2", "ignored"]
            assert [letter.position for letter in await automation.dead_letters()] == [2]
            assert (await automation.status()).dead_letters == 1
            calm = store.automation("welcome", OPENED, welcome, ignore=(Blocked,))
            await calm.replay(2)
            assert await automation.dead_letters() == []
            running = asyncio.create_task(calm.run())
            open_accounts(store.store, "late")
            async with asyncio.timeout(20):
                while "late" not in bonuses(store.store):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            calm.stop()
            await running
            (paid,) = [
                event async for event in store.read(Query.types("BonusPaid") & Query.tag("account:late"))
            ]
            assert UUID(paid.metadata["causation_id"])

    asyncio.run(main())
