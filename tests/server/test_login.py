"""Sessions of people: the cookie, the forms, and what other sites cannot do with them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from serving import Client, Reply, serving

from strandline import Event, EventStore
from strandline.server import Tokens, app
from strandline.server.exchange import FORM
from strandline.server.sessions import Sessions
from strandline.server.tokens import Token, create_token, revoke_token


class Browser:
    """Keeps cookies and sends forms, as a browser does with pages of the server."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.cookies: dict[str, str] = {}
        self.set: list[str] = []

    def send(self, method: str, path: str, form: dict[str, str] | None = None, **headers: str) -> Reply:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {"cookie": cookies} if cookies else {}
        body = None if form is None else urlencode(form).encode()
        if form is not None:
            sent["content-type"] = FORM.decode()
        reply = self.client.send(method, path, body, **(sent | headers))
        self.set = re.findall(r"([\w-]+=[^;]*;[^,]*)", reply.headers.get("set-cookie", ""))
        for each in self.set:
            name, _, value = each.partition(";")[0].partition("=")
            self.cookies[name] = value
            if "Max-Age=0" in each:
                del self.cookies[name]
        return reply

    def csrf(self, path: str) -> str:
        found = re.search(rb'name="csrf" value="([^"]+)"', self.send("GET", path).body)
        assert found is not None
        return found[1].decode()

    def log_in(self, secret: str) -> Reply:
        return self.send("POST", "/login", {"csrf": self.csrf("/login"), "token": secret})


class Place:
    def __init__(self, path: str, token: Token, secret: str, client: Client) -> None:
        self.path, self.token, self.secret, self.client = path, token, secret, client
        self.browser = Browser(client)


@pytest.fixture
def place(store: EventStore, tmp_path: Any) -> Iterator[Place]:
    path = str(tmp_path / "tokens.json")
    token, secret = create_token(path, ["read", "append", "manage"])
    store.append(Event("T", 1))
    with serving(app(store, tokens=path)) as client:
        yield Place(path, token, secret, client)


def test_a_visitor_is_led_to_the_login_and_back(place: Place) -> None:
    browser = place.browser
    assert (browser.send("GET", "/").status, browser.send("GET", "/").headers["location"]) == (303, "/login")
    page = browser.send("GET", "/login")
    assert b"<form method" in page.body
    assert "form-action 'self'" in page.headers["content-security-policy"]
    assert (browser.log_in(place.secret).status, browser.send("GET", "/").status) == (303, 200)
    assert browser.send("GET", "/v1/logs/default/head").json == {"head": 1}
    assert b"Log out" in browser.send("GET", "/").body
    out = browser.send("POST", "/logout", {"csrf": browser.csrf("/")})
    assert (out.status, out.headers["location"]) == (303, "/login")
    assert browser.send("GET", "/").status == 303
    assert browser.send("GET", "/v1/logs/default/head").status == 401


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(place: Place) -> None:
    place.browser.log_in(place.secret)
    (session, form) = place.browser.set
    assert re.fullmatch(
        r"strandline-\d+=[\w-]{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict", session
    )
    assert "Max-Age=0" in form
    assert place.secret not in session
    assert place.secret.encode() not in place.browser.send("GET", "/").body


def test_a_logged_out_cookie_is_worth_nothing(place: Place) -> None:
    place.browser.log_in(place.secret)
    stolen = Browser(place.client)
    stolen.cookies = dict(place.browser.cookies)
    assert stolen.send("GET", "/").status == 200
    place.browser.send("POST", "/logout", {"csrf": place.browser.csrf("/")})
    assert stolen.send("GET", "/").status == 303


def test_each_login_gets_a_cookie_of_its_own(place: Place) -> None:
    place.browser.cookies[f"strandline-{place.client.port}"] = fixed = "x" * 43
    place.browser.log_in(place.secret)
    first = dict(place.browser.cookies)
    assert fixed not in first.values()
    place.browser.log_in(place.secret)
    assert place.browser.cookies != first
    old = Browser(place.client)
    old.cookies = first
    assert old.send("GET", "/").status == 303


@pytest.mark.parametrize("secret", ["", "x", "strandline_" + "A" * 43, "<script>alert(1)</script>", "ä" * 54])
def test_a_wrong_token_does_not_log_in(place: Place, secret: str) -> None:
    reply = place.browser.log_in(secret)
    assert reply.status == 401
    assert b'role="alert"' in reply.body
    assert b"<script" not in reply.body
    assert place.browser.send("GET", "/").status == 303


@pytest.mark.parametrize("csrf", ["", "x", "ä"])
def test_a_form_of_another_site_does_not_log_in(place: Place, csrf: str) -> None:
    assert place.browser.send("POST", "/login", {"csrf": csrf, "token": place.secret}).status == 403
    place.browser.csrf("/login")
    assert place.browser.send("POST", "/login", {"csrf": csrf, "token": place.secret}).status == 403
    own = Browser(place.client).csrf("/login")  # a token that the attacker got
    assert place.browser.send("POST", "/login", {"csrf": own, "token": place.secret}).status == 403


def test_a_form_of_another_site_does_not_log_out(place: Place) -> None:
    place.browser.log_in(place.secret)
    for csrf in ("", "x"):
        assert place.browser.send("POST", "/logout", {"csrf": csrf}).status == 403
    assert place.browser.send("GET", "/").status == 200


def test_a_change_by_cookie_needs_the_token_of_our_pages(place: Place, store: EventStore) -> None:
    place.browser.log_in(place.secret)
    csrf = place.browser.csrf("/")
    event = b'{"events": [{"type": "T", "data": 1}]}'
    cookie = "; ".join(f"{name}={value}" for name, value in place.browser.cookies.items())
    for headers in ({}, {"x-csrf-token": ""}, {"x-csrf-token": "x"}, {"x-csrf-token": csrf[:-1]}):
        for path, body in (
            ("events", event),
            ("retags", b'{"positions": [1], "add": ["a"]}'),
            ("read", b"{}"),
        ):
            reply = place.client.send("POST", path, body, cookie=cookie, **headers)
            assert (reply.status, reply.json["code"]) == (403, "forbidden")
    for content_type in ("text/plain", FORM.decode(), "multipart/form-data; boundary=x"):
        assert (
            place.client.send("POST", "events", event, cookie=cookie, content_type=content_type).status == 403
        )
    origin = "http://evil.example"
    foreign = place.client.send("POST", "events", event, cookie=cookie, x_csrf_token=csrf, origin=origin)
    assert foreign.status == 403
    assert store.head() == 1
    assert place.client.send("POST", "events", event, cookie=cookie, x_csrf_token=csrf).status == 201


def test_the_session_ends_with_its_token(place: Place) -> None:
    place.browser.log_in(place.secret)
    revoke_token(place.path, place.token.id)
    deadline = time.monotonic() + 20
    while place.browser.send("GET", "/v1/logs/default/head").status == 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert place.browser.send("GET", "/").status == 303


def test_a_token_in_the_header_counts_more_than_a_cookie(place: Place) -> None:
    place.browser.log_in(place.secret)
    assert place.browser.send("GET", "/v1/logs/default/head", authorization="Bearer x").status == 401


def test_two_cookies_of_one_name_are_none(place: Place) -> None:
    place.browser.log_in(place.secret)
    name = f"strandline-{place.client.port}"
    cookie = f"{name}={place.browser.cookies[name]}; {name}=x"
    assert place.client.get("/", cookie=cookie).status == 303


def test_a_form_that_is_none_or_too_large_is_refused(place: Place) -> None:
    for body, status in (
        (b"\xff", 422),
        (b"token=x", 422),
        (b"csrf=a&token=b&more=c", 422),
        (b"a" * 20_000, 413),
    ):
        assert place.client.send("POST", "/login", body, content_type=FORM.decode()).status == status
    assert place.client.send("POST", "/login", {"csrf": "a", "token": "b"}).status == 415


def test_without_tokens_there_is_nothing_to_log_in_to(client: Client) -> None:
    assert client.get("/").status == 200
    assert b"no tokens" in client.get("/login").body
    assert b"<form" not in client.get("/").body


def test_there_is_a_bound_on_sessions_and_their_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.server.sessions.MOST_SESSIONS", 3)
    sessions = Sessions()
    secrets = [sessions.begin(place.token) for _ in range(5)]
    assert [sessions.find(secret) is not None for secret in secrets] == [False, False, True, True, True]
    monkeypatch.setattr("strandline.server.sessions.SESSION_SECONDS", -1.0)
    assert sessions.find(sessions.begin(place.token)) is None


def test_under_a_prefix_everything_stays_there(store: EventStore, tmp_path: Any) -> None:
    _, secret = create_token(str(tmp_path / "tokens.json"), ["read"])
    inner = app(store, tokens=Tokens(tmp_path / "tokens.json"))

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await inner({**scope, "root_path": "/events", "scheme": "https"}, receive, send)

    mounted.begin_drain, mounted.drain = inner.begin_drain, inner.drain  # type: ignore[attr-defined]
    with serving(mounted) as client:  # type: ignore[arg-type]
        browser = Browser(client)
        assert browser.send("GET", "/events/").headers["location"] == "/events/login"
        csrf = browser.csrf("/events/login")
        reply = browser.send("POST", "/events/login", {"csrf": csrf, "token": secret})
        assert reply.headers["location"] == "/events/"
        assert "Path=/events;" in browser.set[0]
        assert browser.set[0].endswith("; Secure")
        assert browser.send("GET", "/events/").status == 200
