"""Connecting to a server: what is refused, what an error says, and what it never shows."""

from __future__ import annotations

import asyncio
import pickle
import socket
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import strandline
from answering import answering
from places import Place
from served import ServedLogs
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    Event,
    EventIdConflict,
    EventStore,
    Forbidden,
    InvalidInput,
    NotFound,
    Query,
    StoreClosed,
    TrackingConflict,
    Unauthorized,
    Unavailable,
)
from strandline.engine.open import Place as Where
from strandline.engine.open import place_of, without_password

SECRET = "slt-Tr0ub4dor-3"


@pytest.fixture
def kept() -> Iterator[EventStore]:
    """The store of the server."""
    with strandline.connect("memory:") as kept:
        yield kept


@pytest.fixture
def place(served: ServedLogs, kept: EventStore) -> Place:
    """Where that store is reached over HTTP."""
    return served.serve(kept)


def test_a_log_of_a_server_is_a_store(place: Place, kept: EventStore) -> None:
    with place.connect() as store:
        result = store.append(Event("A", {"n": 1}, tags=["x"]))
        assert list(store.read()) == list(kept.read())
        assert (result.position, store.head(), repr(store)) == (1, 1, "<EventStore http>")


def test_the_same_awaited(place: Place) -> None:
    async def use() -> list[int]:
        async with place.connect_async() as store:
            await store.append(Event("A", {}))
            return [event.position async for event in store.read()]

    assert asyncio.run(use()) == [1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clock", lambda: datetime.now(UTC)),
        ("record_conditions", False),
        ("max_data_bytes", 100),
        ("lock_timeout", 3),
        ("read_seconds", 5),
    ],
)
def test_options_of_the_log_belong_to_the_server(place: Place, name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=name) as caught:
        place.connect(**{name: value})
    assert "server" in caught.value.hint


@pytest.mark.parametrize(
    "url", ["memory:", "some.db", "sqlite:///some.db", "postgresql://nobody@localhost/x"]
)
def test_only_a_server_takes_a_token(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for call in (strandline.connect, strandline.logs):
        with pytest.raises(InvalidInput, match="token") as caught:
            call(url, token=SECRET)  # type: ignore[operator]
        assert SECRET not in everything(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("token", ["", " ", "a b", "a\r\nx-evil: 1", "ä", 7, b"x"])
def test_a_token_cannot_smuggle_headers_in(place: Place, token: Any) -> None:
    with pytest.raises(InvalidInput, match="a token is text without spaces"):
        place.connect(token=token)


def test_a_log_that_is_not_there_is_not_found(served: ServedLogs, kept: EventStore) -> None:
    place = served.serve(kept)
    for name in ("other", "a/b", "..", "%2e", "ü", "a b"):
        with pytest.raises(NotFound, match="there is no log"):
            strandline.connect(served.behind(place.log), log=name)


def test_the_limit_of_data_is_that_of_the_server(served: ServedLogs) -> None:
    with strandline.connect("memory:", max_data_bytes=10) as small, served.serve(small).connect() as store:
        with pytest.raises(strandline.PayloadTooLarge, match="the limit is 10"):
            store.append(Event("A", "x" * 20))
        assert store.stats().max_data_bytes == 10
    with strandline.connect("memory:", max_data_bytes=2**22) as large, served.serve(large).connect() as store:
        store.append(Event("A", b"x" * 2**21))
        assert store.event(1).data == b"x" * 2**21


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@127.0.0.1:9",
        f"http://{SECRET}@127.0.0.1:9",
        f"http://127.0.0.1:9?token={SECRET}",
        f"http://127.0.0.1:9#{SECRET}",
        f"https://127.0.0.1:{SECRET}",
        f"http://127.0.0.1:99999/{SECRET}",
        f"http://[{SECRET}",
        f"http:// {SECRET}",
        f"http:{SECRET}",
        f"https:/{SECRET}",
        "http://",
        "http:///path",
        "http://127.0.0.1:9/v1/logs/default",
    ],
)
def test_a_url_that_is_none_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        strandline.connect(url)
    assert SECRET not in everything(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"http://{SECRET}@host/x", "http://host/x"),
        (f"https://u:{SECRET}@host:1?token={SECRET}#{SECRET}", "https://host:1"),
        (f"http://u:a@{SECRET}@host", "http://host"),
        ("http://host:4455/strandline", "http://host:4455/strandline"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert without_password(url) == shown
    assert SECRET not in repr(place_of(url))
    assert place_of(url) == Where("http", url)


def test_nobody_there_is_unavailable_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(Unavailable, match="cannot be reached") as caught:
            strandline.connect(f"http://127.0.0.1:{port}", token=SECRET)
    assert caught.value.written is False
    assert "strandline serve" in caught.value.hint
    assert SECRET not in everything(caught.value)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>", "200 text/html"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}", "missing"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\n\r\n{\xff}",
            "Strandline",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[]", "Strandline"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "200"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "204"),
        (b"HTTP/1.1 301 Moved\r\nlocation: https://elsewhere/\r\ncontent-length: 0\r\n\r\n", "elsewhere"),
        (b"HTTP/1.1 502 Bad\r\ncontent-type: text/html\r\ncontent-length: 3\r\n\r\nbad", "502 text/html"),
        (b"HTTP/1.1 404 No\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}", "404"),
        (b"HTTP/1.1 500 No\r\ncontent-type: application/problem+json\r\ncontent-length: 2\r\n\r\n{}", "500"),
        (b"220 smtp.example ESMTP\r\n", "not HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "not HTTP"),
        (b"", "closed"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n{", "closed"),
    ],
)
def test_an_answer_of_another_program_is_an_error_that_says_so(answer: bytes, says: str) -> None:
    with answering(lambda _: answer) as other, pytest.raises(Unavailable, match=says) as caught:
        strandline.connect(other.url, token=SECRET)
    assert caught.value.written is False
    assert SECRET not in everything(caught.value)


def test_no_redirect_is_followed() -> None:
    with answering(lambda _: b"") as elsewhere:
        target = f"HTTP/1.1 307 Go\r\nlocation: {elsewhere.url}\r\ncontent-length: 0\r\n\r\n".encode()
        with answering(lambda _: target) as other, pytest.raises(Unavailable, match="307"):
            strandline.connect(other.url, token=SECRET)
        assert elsewhere.requests == []


def problem(status: int, code: str) -> bytes:
    body = b'{"code": "%s", "detail": "no", "status": %d, "hint": "h"}' % (code.encode(), status)
    head = b"HTTP/1.1 %d No\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


def test_a_token_that_is_unknown_is_refused_when_you_connect() -> None:
    with answering(lambda _: problem(401, "unauthorized")) as other:
        with pytest.raises(Unauthorized, match="no") as caught:
            strandline.connect(other.url, token=SECRET)
        assert f"Authorization: Bearer {SECRET}".encode() in other.requests[0]
    assert caught.value.hint == "h"
    assert SECRET not in everything(caught.value)


def test_a_token_that_may_only_append_can_connect() -> None:
    with (
        answering(lambda _: problem(403, "a_code_of_tomorrow")) as other,
        strandline.connect(other.url, token=SECRET) as store,
        pytest.raises(Forbidden, match="no"),
    ):
        store.head()


def test_errors_have_the_fields_of_an_embedded_store(place: Place, kept: EventStore) -> None:
    event = Event("A", {"n": 1}, tags=["x"])
    stale = AppendCondition.all_of(AppendCondition(Query.tag("y")), AppendCondition(Query.tag("x")))
    uses: list[Callable[[EventStore], object]] = [
        lambda store: store.append(Event("A", {}, tags=["x"]), stale),
        lambda store: store.append([event, Event("B", {})]),
        lambda store: store.append((), tracking=("orders", 3)),
        lambda store: store.append(Event("A", {}), AppendCondition(Query.all(), after=99)),
        lambda store: store.event(77),
        lambda store: store.retag(77, add=["x"]),
        lambda store: store.inspect.recorded(77),
    ]
    kept.append(event, tracking=("orders", 5))
    with place.connect() as store:
        for use in uses:
            here, there = failure(use, store), failure(use, kept)
            assert (type(here), str(here), here.hint) == (type(there), str(there), there.hint)
            twin = pickle.loads(pickle.dumps(here))
            assert (str(twin), twin.__dict__) == (str(here), here.__dict__)
        refusal = failure(uses[0], store)
        assert isinstance(refusal, AppendConditionFailed)
        assert (refusal.conflict, refusal.part) == (kept.event(1), stale.parts[1])
        assert (refusal.conflicts, refusal.complete) == ((kept.event(1),), True)
        assert refusal.condition == kept.check(stale).condition
        assert isinstance(failure(uses[1], store), EventIdConflict)
        conflict = failure(uses[2], store)
        assert isinstance(conflict, TrackingConflict)
        assert (conflict.source, conflict.position, conflict.tracked) == ("orders", 3, 5)


def test_a_store_closed_by_the_server_is_not_a_store_closed_here(place: Place, kept: EventStore) -> None:
    with place.connect() as store:
        subscription = store.subscribe()
        kept.close()
        for use in (store.head, lambda: store.append(Event("A", {})), lambda: next(subscription)):
            with pytest.raises(Unavailable):
                use()
        store.close()
        with pytest.raises(StoreClosed):
            store.head()


def failure(use: Callable[[EventStore], object], store: EventStore) -> strandline.StrandlineError:
    with pytest.raises(strandline.StrandlineError) as caught:
        use(store)
    return caught.value


def everything(error: BaseException) -> str:
    """What an error says, with all that led to it."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__dict__)


def test_the_logs_of_a_server_are_listed(served: ServedLogs, kept: EventStore) -> None:
    place = served.serve(kept)
    assert strandline.logs(served.behind(place.log)) == [place.log]


def test_the_server_may_be_mounted_below_a_path(served: ServedLogs, kept: EventStore) -> None:
    place = served.serve(kept)
    with strandline.connect(f"{served.behind(place.log)}/", log=str(place.log)) as store:
        assert store.append(Event("A", {})).position == 1
