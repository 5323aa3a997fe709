"""Webhooks: signed, in order, tried again, and never twice with another id."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Iterator
from typing import Any

import pytest

from follow.following import some
from follow.receiver import Receiver, receiving
from places import Place
from strandline import Event, EventStore, InvalidInput, Query, Unavailable, from_cloudevent
from strandline.errors import FollowerFailed
from strandline.follow import Webhook, verify_signature

SECRET = "do not tell"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "*")
    with receiving() as receiver:
        yield receiver


def hook(receiver: Receiver, **options: Any) -> Webhook:
    return Webhook(receiver.url, secret=SECRET, **options)


def test_each_event_is_a_signed_cloudevent(store: EventStore, receiver: Receiver) -> None:
    written = [Event("Happened", {"n": n}, tags=["a"], stream="s") for n in range(3)]
    store.append([*written, *some("b")])
    webhook = hook(receiver, headers={"Authorization": "Bearer x"}, source="urn:bank")
    worker = store.outbox("topic", Query.tag("a"), "partner", webhook)
    assert worker.name == "outbox:topic:partner"
    assert worker.catch_up() == 4
    assert receiver.positions == [1, 2, 3]
    assert [event["id"] for event in receiver.events] == [str(event.id) for event in written]
    assert {event["source"] for event in receiver.events} == {"urn:bank"}
    for (path, headers, body), event in zip(receiver.requests, written, strict=True):
        given = {name.lower(): value for name, value in headers.items()}
        signed = given["strandline-timestamp"].encode() + b"." + body
        expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
        assert given["strandline-signature"] == f"sha256={expected}"
        assert abs(int(given["strandline-timestamp"]) - time.time()) < 60
        assert given["content-type"].startswith("application/cloudevents+json")
        assert (path, given["authorization"]) == ("/hook?token=hidden", "Bearer x")
        assert from_cloudevent(body).data == event.data
        assert verify_signature(SECRET, headers, body)


def test_a_request_that_was_changed_or_is_old_is_not_genuine(receiver: Receiver) -> None:
    from strandline.follow.webhook import signature

    now, body = str(int(time.time())), b"{}"
    headers = {"Strandline-Timestamp": now, "strandline-signature": signature(b"s", now, body)}
    assert verify_signature("s", headers, body)
    assert not verify_signature("t", headers, body)
    assert not verify_signature("s", headers, b"{} ")
    assert not verify_signature("s", headers | {"Strandline-Timestamp": str(int(now) + 1)}, body)
    assert not verify_signature("s", {}, body)
    assert not verify_signature("s", headers | {"Strandline-Timestamp": "x"}, body)
    assert not verify_signature("s", headers | {"strandline-signature": "sha256=é"}, body)
    old = str(int(now) - 1_000)
    stale = {"Strandline-Timestamp": old, "Strandline-Signature": signature(b"s", old, body)}
    assert not verify_signature("s", stale, body)
    assert verify_signature("s", stale, body, tolerance=2_000)


@pytest.mark.parametrize("answer", [500, 503, 408, 425, 429, 302, 0])
def test_what_may_pass_is_tried_again_in_order_with_the_same_id(
    store: EventStore, receiver: Receiver, answer: int
) -> None:
    store.append(some("a", count=3))
    receiver.answers = [200, answer, answer, 200]
    worker = store.outbox("topic", None, "partner", hook(receiver), backoff=0)
    worker.catch_up()
    assert receiver.positions == [1, 2, 2, 2, 3]
    assert len({event["id"] for event in receiver.events}) == 3
    assert {path for path, _, _ in receiver.requests} == {"/hook?token=hidden"}  # no redirect is followed
    assert worker.dead_letters() == []


def test_it_is_patient_unless_told_otherwise(store: EventStore, receiver: Receiver) -> None:
    store.append(some("a", count=2))
    receiver.answers = [503] * 11
    store.outbox("topic", None, "partner", hook(receiver), backoff=0).catch_up()
    assert receiver.positions == [1] * 12 + [2]
    store.append(some("a"))
    receiver.answers = [500] * 3
    worker = store.outbox("topic", None, "partner", hook(receiver), backoff=0, attempts=3)
    worker.catch_up()
    assert [letter.attempts for letter in worker.dead_letters()] == [3]


def test_with_stop_nothing_is_passed_over_whatever_the_receiver_says(
    store: EventStore, receiver: Receiver
) -> None:
    store.append(some("a", count=3))
    receiver.answers = [200, 422, 500, 500]
    worker = store.outbox("topic", None, "partner", hook(receiver), backoff=0, attempts=2, on_failure="stop")
    for _ in range(2):
        with pytest.raises(FollowerFailed, match="at event 2"):
            worker.catch_up()
    worker.catch_up()
    assert receiver.positions == [1, 2, 2, 2, 2, 3]


def test_what_is_refused_is_a_dead_letter_at_once_and_can_be_replayed(
    store: EventStore, receiver: Receiver
) -> None:
    store.append(some("a", count=3))
    receiver.answers = [200, 422, 200]
    worker = store.outbox("topic", None, "partner", hook(receiver), backoff=1_000)
    worker.catch_up()
    assert receiver.positions == [1, 2, 3]
    (letter,) = worker.dead_letters()
    assert (letter.position, letter.attempts) == (2, 1)
    assert letter.error.endswith("answered 422")
    store.outbox("topic", None, "partner", hook(receiver)).replay(2)
    assert receiver.positions == [1, 2, 3, 2]
    assert worker.dead_letters() == []


def test_nothing_secret_is_kept_or_shown(store: EventStore, receiver: Receiver) -> None:
    store.append(some("a"))
    receiver.answers = [500, 500]
    webhook = hook(receiver, headers={"Authorization": "Bearer x"})
    worker = store.outbox("topic", None, "partner", webhook, attempts=2, backoff=0)
    worker.catch_up()
    (letter,) = worker.dead_letters()
    shown = f"{letter.error}{letter.traceback}{webhook!r}{worker!r}"
    assert not [word for word in (SECRET, "hidden", "Bearer") if word in shown]
    assert "127.0.0.1" in repr(webhook)


def test_a_receiver_that_says_nothing_is_asked_again(store: EventStore, receiver: Receiver) -> None:
    store.append(some("a", count=2))
    receiver.answers = [-1]
    worker = store.outbox("topic", None, "partner", hook(receiver, timeout=0.5), backoff=0)
    worker.catch_up()
    assert receiver.positions[:2] == [1, 1]
    assert sorted({*receiver.positions}) == [1, 2]
    assert worker.dead_letters() == []


def test_a_receiver_that_is_not_there_stops_the_outbox_and_passes_over_nothing(store: EventStore) -> None:
    with receiving() as gone:
        pass
    store.append(some("a", count=3))
    worker = store.outbox("topic", None, "partner", hook(gone, timeout=1), attempts=2, backoff=0)
    with pytest.raises(Unavailable, match="refused"):
        worker.catch_up()
    status = worker.status()
    assert (status.position, status.state, worker.dead_letters()) == (0, "failed", [])
    assert "refused" in status.error


@pytest.mark.parametrize("answer", [503, 502, 404, 401, 302, 429])
def test_a_receiver_that_takes_no_events_stops_the_outbox_and_passes_over_nothing(
    store: EventStore, receiver: Receiver, answer: int
) -> None:
    store.append(some("a", count=3))
    receiver.answers = [200, answer, answer]
    worker = store.outbox("topic", None, "partner", hook(receiver), attempts=2, backoff=0)
    with pytest.raises(Unavailable, match=f"answered {answer}") as stop:
        worker.catch_up()
    assert "run the outbox again" in stop.value.hint
    assert (worker.status().position, worker.dead_letters()) == (1, [])
    worker.catch_up()
    assert receiver.positions == [1, 2, 2, 2, 3]


def test_a_crash_between_publishing_and_the_checkpoint_sends_the_same_event_again(
    place: Place, receiver: Receiver
) -> None:
    class Crash(BaseException): ...

    webhook, crashes = hook(receiver), [Crash()]

    def publish(events: Any) -> None:
        webhook(events)
        if crashes:
            raise crashes.pop()

    with place.connect() as store:
        store.append(some("a", count=2))
        worker = store.outbox("topic", None, "partner", publish, batch=1, lease=0.1)
        with pytest.raises(Crash):
            worker.catch_up()
        worker.catch_up()
        assert receiver.positions == [1, 1, 2]
        assert receiver.events[0] == receiver.events[1]


def test_each_pair_has_its_own_checkpoint_and_status(store: EventStore, receiver: Receiver) -> None:
    store.append([*some("a"), *some("b")])
    receiver.answers = [400]
    workers = [
        store.outbox(topic, Query.tag(topic), publisher, hook(receiver))
        for topic in ("a", "b")
        for publisher in ("one", "two")
    ]
    for worker in workers:
        worker.catch_up()
    assert receiver.positions == [1, 1, 2, 2]
    assert {status.name: status.dead_letters for status in store.followers()} == {
        "outbox:a:one": 1,
        "outbox:a:two": 0,
        "outbox:b:one": 0,
        "outbox:b:two": 0,
    }


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/x",
        "file:///etc/passwd",
        "h/x",
        "http://",
        "http://user:pw@h/",
        "http://h:port/",
        "http://h/a b",
        "http://h/\n",
        "",
        7,
    ],
)
def test_urls_that_are_none_are_refused_without_being_repeated(url: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Webhook(url, secret=SECRET)
    assert "pw" not in str(refusal.value)


def test_wrong_use_is_told(store: EventStore) -> None:
    for secret in ("", b"", None):
        with pytest.raises(InvalidInput, match="secret of a webhook"):
            Webhook("http://h/", secret=secret)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="headers") as refusal:
        Webhook("http://h/", secret=SECRET, headers={"Authorization": "x\r\ny"})
    assert "y" not in str(refusal.value.args[0]).split()
    with pytest.raises(InvalidInput, match="timeout"):
        Webhook("http://h/", secret=SECRET, timeout=0)
    with pytest.raises(InvalidInput, match="no colon"):
        store.outbox("a:b", None, "c", print)
    with pytest.raises(InvalidInput, match="a publisher is a function"):
        store.outbox("a", None, "c", "http://h/")  # type: ignore[arg-type]


def test_the_same_for_asyncio(place: Place, receiver: Receiver) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.append(some("a", count=3))
            receiver.answers = [200, 500]
            await store.outbox("topic", None, "partner", hook(receiver), backoff=0).catch_up()
            assert receiver.positions == [1, 2, 2, 3]
            published: list[int] = []

            async def publish(events: Any) -> None:
                await asyncio.sleep(0)
                published.extend(event.position for event in events)

            worker = store.outbox("topic", None, "queue", publish)
            assert await worker.catch_up() == 3
            assert published == [1, 2, 3]
            with pytest.raises(InvalidInput, match="handler is async"):
                store.store.outbox("topic", None, "sync", publish).catch_up()

    asyncio.run(main())
