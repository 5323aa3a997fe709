"""Files of tokens: what is in them, who may read them, and how fast a server notices changes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from serving import Client, serving

from strandline import Event, EventStore, InvalidInput, NotFound
from strandline.server import Tokens, app
from strandline.server.tokens import Token, create_token, hash_of, read_tokens, revoke_token

PATIENCE_SECONDS = 20


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "tokens.json")


def test_a_secret_has_256_bits_and_the_file_its_hash(path: str) -> None:
    token, secret = create_token(path, ["read", "append"], note="the importer")
    assert secret.startswith("strandline_")
    assert len(secret) == len("strandline_") + 43
    content = Path(path).read_text()
    assert secret not in content
    assert secret[11:] not in content
    assert hash_of(secret) in content
    assert read_tokens(path) == [token]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_several_tokens_are_valid_until_each_is_revoked(path: str) -> None:
    old, old_secret = create_token(path, ["read"])
    new, new_secret = create_token(path, ["read"])
    tokens = Tokens(path)
    assert (tokens.find(old_secret), tokens.find(new_secret)) == (old, new)
    assert revoke_token(path, old.id) == old
    tokens.look()
    assert (tokens.find(old_secret), tokens.find(new_secret)) == (None, new)
    with pytest.raises(NotFound):
        revoke_token(path, old.id)


def test_a_token_expires(path: str) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    token, secret = create_token(path, ["read"], expires=soon)
    tokens = Tokens(path)
    assert tokens.find(secret) == token
    time.sleep(0.4)
    assert tokens.find(secret) is None
    assert not tokens.is_valid(token)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused(path: str, mode: int) -> None:
    create_token(path, ["read"])
    os.chmod(path, mode)
    for use in (Tokens, read_tokens, lambda path: create_token(path, ["read"])):
        with pytest.raises(InvalidInput) as refused:
            use(path)
        assert "chmod 600" in refused.value.hint


@pytest.mark.parametrize("content", ["", "{", "[]", '{"tokens": [{"id": "x"}]}', '{"version": 2}', "\udcff"])
def test_a_file_of_something_else_is_refused(path: str, content: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", errors="surrogateescape") as file:
        file.write(content)
    for use in (Tokens, lambda path: create_token(path, ["read"])):
        with pytest.raises(InvalidInput, match="not a file of tokens"):
            use(path)
    assert Path(path).read_text(errors="surrogateescape") == content


def test_a_file_that_is_missing_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Tokens(path)
    assert "strandline token create" in refused.value.hint


@pytest.mark.parametrize(
    "options",
    [
        {"scopes": []},
        {"scopes": ["write"]},
        {"scopes": ["read"], "tag": ""},
        {"scopes": ["read"], "tag": "$x"},
        {"scopes": ["read"], "logs": [""]},
        {"scopes": ["read"], "note": "a\nb"},
        {"scopes": ["metrics"], "tag": "tenant:7"},
        {"scopes": ["admin"], "logs": ["orders"]},
        {"scopes": ["read"], "expires": datetime(2020, 1, 1, tzinfo=UTC)},
        {"scopes": ["read"], "expires": datetime(2999, 1, 1)},  # noqa: DTZ001
    ],
)
def test_a_token_that_makes_no_sense_is_refused(path: str, options: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        create_token(path, **options)  # type: ignore[arg-type]
    assert not os.path.exists(path)


def test_tokens_made_at_once_are_all_there(path: str) -> None:
    threads = [threading.Thread(target=create_token, args=(path, ["read"])) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_tokens(path)) == 20


def test_a_change_keeps_a_link_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    os.symlink(tmp_path / "kept/tokens.json", tmp_path / "link")
    create_token(str(tmp_path / "link"), ["read"])
    assert (tmp_path / "link").is_symlink()
    assert {file.name for file in (tmp_path / "kept").iterdir()} == {"tokens.json", "tokens.json.lock"}


def test_a_broken_file_lets_nobody_in_until_it_is_whole(path: str, caplog: pytest.LogCaptureFixture) -> None:
    token, secret = create_token(path, ["read"])
    content = Path(path).read_bytes()
    tokens = Tokens(path)
    for breaking in (
        lambda: Path(path).write_bytes(b"{"),
        lambda: os.unlink(path),
        lambda: os.chmod(path, 0o644),
    ):
        breaking()
        tokens.look()
        tokens.look()
        assert tokens.find(secret) is None
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(content)
        os.chmod(path, 0o600)
        tokens.look()
        assert tokens.find(secret) == token
    assert len(caplog.records) == 3


def test_a_file_that_does_not_change_is_not_read_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create_token(path, ["read"])
    os.utime(path, (1, 1))
    tokens = Tokens(path)
    tokens.look()
    os.chmod(path, 0o600)  # changes its time of change
    tokens.look()
    monkeypatch.setattr("strandline.server.tokens.read_tokens", lambda _: pytest.fail("it was read"))
    tokens.look()


def test_the_form_of_the_file_is_stable(path: str) -> None:
    content = {
        "version": 1,
        "tokens": [
            {
                "id": "5f0c2a9be417",
                "hash": hash_of("strandline_" + "A" * 43),
                "scopes": ["read"],
                "created": "2026-01-31T12:00:00Z",
                "logs": ["orders"],
                "tag": "tenant:7",
                "note": "a note",
                "expires": "2999-01-31T12:00:00Z",
            }
        ],
    }
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        json.dump(content, file)
    token = Tokens(path).find("strandline_" + "A" * 43)
    assert token is not None
    assert json.loads(msgspec.json.encode(token)) == content["tokens"][0]


def test_the_right_token_is_told_from_similar_ones(path: str) -> None:
    _, secret = create_token(path, ["read"])
    tokens = Tokens(path)
    for other in (secret[:-1], secret + "A", secret.upper(), secret[11:], f" {secret}", secret[:-1] + "ä"):
        assert tokens.find(other) is None


class Held:
    """A server with a token, and a client that has it."""

    def __init__(self, path: str, token: Token, client: Client) -> None:
        self.path, self.token, self.client = path, token, client

    def is_let_in(self) -> bool:
        return self.client.get("head").status == 200

    def until_refused(self) -> float:
        begun = time.monotonic()
        while self.is_let_in():
            assert time.monotonic() - begun < PATIENCE_SECONDS
            time.sleep(0.02)
        return time.monotonic() - begun


@pytest.fixture
def held(path: str, store: EventStore) -> Iterator[Held]:
    token, secret = create_token(path, ["read", "append"])
    with serving(app(store, tokens=path)) as client:
        client.headers["authorization"] = f"Bearer {secret}"
        yield Held(path, token, client)


def test_a_server_notices_revoked_and_new_tokens(held: Held) -> None:
    assert held.is_let_in()
    revoke_token(held.path, held.token.id)
    held.until_refused()
    _, secret = create_token(held.path, ["read"])
    held.client.headers["authorization"] = f"bearer  {secret}"
    begun = time.monotonic()
    while not held.is_let_in():
        assert time.monotonic() - begun < PATIENCE_SECONDS
        time.sleep(0.02)


def test_after_a_quiet_time_the_first_request_is_refused_already(held: Held) -> None:
    assert held.is_let_in()
    revoke_token(held.path, held.token.id)
    time.sleep(0.6)
    assert not held.is_let_in()


def test_revocation_ends_a_running_stream_with_a_problem(held: Held, store: EventStore) -> None:
    store.append([Event("T", "x" * 100_000) for _ in range(300)])
    connection = http.client.HTTPConnection("127.0.0.1", held.client.port, timeout=PATIENCE_SECONDS)
    headers = held.client.headers | {"accept": "application/x-ndjson"}
    connection.request("GET", "/v1/logs/default/events", headers=headers)
    answer = connection.getresponse()
    lines = [answer.readline()]
    revoke_token(held.path, held.token.id)
    held.until_refused()
    time.sleep(0.6)
    with contextlib.suppress(http.client.IncompleteRead):  # if the server has given up on a slow reader
        lines += answer.readlines()
    assert len(lines) < 300
    assert not any(line.startswith(b'{"end"') for line in lines)
    connection.close()


def test_revocation_ends_a_live_stream_that_waits(held: Held) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", held.client.port, timeout=PATIENCE_SECONDS)
    headers = held.client.headers | {"accept": "text/event-stream"}
    connection.request("GET", "/v1/logs/default/events", headers=headers)
    answer = connection.getresponse()
    assert answer.readline() == b"event: checkpoint\n"
    revoke_token(held.path, held.token.id)
    rest = answer.read()  # returns when the server ends the stream
    assert b"event: error" in rest
    assert b'"unauthorized"' in rest
    connection.close()


def test_a_bulk_import_of_a_revoked_token_ends(held: Held, store: EventStore) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", held.client.port, timeout=PATIENCE_SECONDS)
    connection.putrequest("POST", "/v1/logs/default/appends")
    for name, value in held.client.headers.items():
        connection.putheader(name, value)
    connection.putheader("transfer-encoding", "chunked")
    connection.endheaders()
    line = b'{"events":[{"type":"T","data":1}]}\n'
    connection.send(b"%x\r\n%b\r\n" % (len(line), line))
    answer = connection.getresponse()
    assert json.loads(answer.readline())["first"] == 1
    revoke_token(held.path, held.token.id)
    last = json.loads(answer.readlines()[-1])  # returns when the server ends the stream
    assert last["error"]["status"] == 401
    assert store.head() == 1
    connection.close()


def test_a_token_that_expires_ends_its_stream(path: str, store: EventStore) -> None:
    _, secret = create_token(path, ["append"], expires=datetime.now(UTC) + timedelta(seconds=2))
    with serving(app(store, tokens=path)) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE_SECONDS)
        connection.putrequest("POST", "/v1/logs/default/appends")
        connection.putheader("authorization", f"Bearer {secret}")
        connection.putheader("transfer-encoding", "chunked")
        connection.endheaders()
        (last,) = connection.getresponse().readlines()
        assert json.loads(last)["error"]["code"] == "unauthorized"
        connection.close()


def test_a_log_that_cannot_be_opened_is_no_matter_of_the_callers_token(path: str) -> None:
    _, secret = create_token(path, ["read"])
    with serving(app({"default": "/nonexistent/folder/x.db"}, tokens=path)) as client:
        reply = client.get("head", authorization=f"Bearer {secret}")
        assert reply.status not in {401, 403}
