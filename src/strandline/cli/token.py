"""`strandline token`: make, list and revoke the tokens of a server."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from strandline import InvalidInput
from strandline.server.tokens import Token, create_token, read_tokens, revoke_token

from .examples import Command, Commands
from .options import Json
from .screen import for_people, table, write_json
from .screen import note as _tell

NAME = "token"
EXAMPLE = "strandline token create --tokens tokens.json --scope read --scope append"

File = Annotated[
    str, typer.Option("--tokens", metavar="FILE", help="The file of tokens, which only you can read.")
]
Scopes = Annotated[
    list[str],
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="metadata, read, append, follow, manage, metrics or admin; again: that too.",
    ),
]
Logs = Annotated[
    list[str] | None, typer.Option("--log", metavar="NAME", help="Only this log; again: that one too.")
]
Tag = Annotated[
    str | None, typer.Option("--tag", metavar="TAG", help="Only events with this tag, as tenant:7.")
]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="What the token is for.")]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="Until when it is valid: 90d, 12h or 2027-01-31."),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The token's id, from strandline token list.")]

_DURATION = re.compile(r"(\d{1,5})([dhm])")
_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}

app = typer.Typer(
    cls=Commands,
    help="Make, list and revoke the tokens of a server.",
    epilog=EXAMPLE,
    rich_markup_mode=None,
    invoke_without_command=True,
)


@app.callback()
def root(context: typer.Context) -> None:
    """Without a command, show the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("create", cls=Command, epilog=EXAMPLE)
def create(
    tokens: File,
    scope: Scopes,
    *,
    log: Logs = None,
    tag: Tag = None,
    note: Note = "",
    expires: Expires = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it, once.

    The file keeps a hash of it only. A server that uses the file knows the token within a second.
    """
    until = None if expires is None else _time(expires)
    token, secret = create_token(tokens, scope, logs=log or (), tag=tag, note=note, expires=until)
    if as_json:
        write_json({"id": token.id, "token": secret})
    else:
        sys.stdout.write(f"{secret}\n")
    sys.stdout.flush()
    _tell(f"token {token.id} may {', '.join(token.scopes)}. It is not shown again")


@app.command("list", cls=Command, epilog="strandline token list --tokens tokens.json")
def list_all(tokens: File, *, as_json: Json = False) -> None:
    """Show every token without its secret: what it may do, and until when."""
    found = read_tokens(tokens)
    if not for_people(as_json=as_json):
        for token in found:
            write_json(_fields(token))
    elif found:
        headings = ("id", "scopes", "logs", "tag", "created", "expires", "note")
        table(headings, [_cells(token) for token in found])
    else:
        _tell("there are no tokens in this file")


@app.command("revoke", cls=Command, epilog="strandline token revoke --tokens tokens.json 5f0c2a9be417")
def revoke(tokens: File, id: Id, *, as_json: Json = False) -> None:
    """Remove a token.

    A server that uses the file refuses it within a second, and ends its streams.
    """
    token = revoke_token(tokens, id)
    if for_people(as_json=as_json):
        _tell(f"revoked token {token.id} {token.note}".rstrip())
    else:
        write_json(_fields(token))


def _fields(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "scopes": token.scopes,
        "logs": token.logs,
        "tag": token.tag,
        "created": token.created,
        "expires": token.expires,
        "note": token.note,
    }


def _cells(token: Token) -> tuple[object, ...]:
    expires = "" if token.expires is None else f"{token.expires:%Y-%m-%d %H:%M}"
    return (
        token.id,
        ", ".join(token.scopes),
        ", ".join(token.logs) or "all",
        token.tag or "",
        f"{token.created:%Y-%m-%d %H:%M}",
        f"{expires} (over)" if token.has_expired() else expires,
        token.note,
    )


def _time(text: str) -> datetime:
    """Return the end of a duration from now, or a time. Without a zone, it is UTC."""
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        return (datetime.now(UTC) + int(duration[1]) * _UNITS[duration[2]]).replace(microsecond=0)
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"--expires {text!r:.40} is neither a duration nor a time", hint="write 90d, 12h or 2027-01-31"
        ) from error
    return when if when.utcoffset() is not None else when.replace(tzinfo=UTC)
