"""`strandline token`: made once, listed without secrets, revoked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from strandline.server import Tokens

CREATE = ("token", "create", "--tokens", "tokens.json")


def test_a_new_token_is_the_only_line_on_stdout(cli):
    done = cli(*CREATE, "--scope", "read", "--scope", "append", "--log", "orders", "--tag", "tenant:7",
               "--note", "the importer", "--expires", "90d")  # fmt: skip
    assert done.code == 0
    (secret,) = done.out.splitlines()
    token = Tokens("tokens.json").find(secret)
    assert token is not None
    assert (token.scopes, token.logs, token.tag) == (("read", "append"), ("orders",), "tenant:7")
    assert token.note == "the importer"
    assert token.expires is not None
    assert abs(token.expires - datetime.now(UTC) - timedelta(days=90)) < timedelta(minutes=5)
    assert token.id in done.err
    assert secret not in done.err


def test_as_json_it_comes_with_its_id(cli):
    (row,) = cli(*CREATE, "--scope", "read", "--json").rows
    token = Tokens("tokens.json").find(row["token"])
    assert token is not None
    assert row["id"] == token.id


def test_the_list_has_no_secrets(cli, terminal):
    secret = cli(*CREATE, "--scope", "read", "--note", "[red]one").out.strip()
    rows = cli("token", "list", "--tokens", "tokens.json").rows
    assert [row["scopes"] for row in rows] == [["read"]]
    screen = terminal("token", "list", "--tokens", "tokens.json").finish()
    assert (screen.code, "[red]one" in screen.out, rows[0]["id"] in screen.out) == (0, True, True)
    kept = json.loads(Path("tokens.json").read_text())["tokens"][0]["hash"]
    for text in (json.dumps(rows), screen.out):
        assert secret not in text
        assert kept not in text


def test_a_revoked_token_is_gone(cli, token):
    assert [row["id"] for row in cli("token", "revoke", "--tokens", "tokens.json", token).rows] == [token]
    assert cli("token", "list", "--tokens", "tokens.json").out == ""
    done = cli("token", "revoke", "--tokens", "tokens.json", token)
    assert (done.code, done.out) == (2, "")
    assert "token list" in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [("soon", "neither a duration nor a time"), ("2020-01-31", "is over already"), ("0d", "is over already")],
)
def test_an_end_that_cannot_be_is_refused(cli, text, message):
    done = cli(*CREATE, "--scope", "read", "--expires", text)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_a_file_that_others_read_is_refused(cli, token):
    Path("tokens.json").chmod(0o644)
    for arguments in ((*CREATE, "--scope", "read"), ("token", "list", "--tokens", "tokens.json")):
        done = cli(*arguments)
        assert (done.code, done.out) == (2, "")
        assert "chmod 600" in done.err


def test_no_secret_is_ever_an_argument(cli):
    for command in ("create", "list", "revoke"):
        text = cli("token", command, "--help").out
        assert "--token " not in text
