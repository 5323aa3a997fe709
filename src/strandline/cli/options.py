"""Arguments and options that several commands share, and what they mean."""

import os
from typing import Annotated, Any

import msgspec
import typer

import strandline
from strandline import EventStore, InvalidInput, InvalidQuery, Query, QueryItem
from strandline.engine.open import place_of

URL_VARIABLE = "STRANDLINE_URL"
LOG_VARIABLE = "STRANDLINE_LOG"
TOKEN_VARIABLE = "STRANDLINE_TOKEN"  # noqa: S105 - the name of a variable

Url = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        help=f"The store: a file, sqlite:///FILE, postgresql://… or http://… Left out: ${URL_VARIABLE}. A server"
        f" takes ${TOKEN_VARIABLE} as your token.",
        show_default=False,
    ),
]
Log = Annotated[
    str,
    typer.Option(
        "--log", metavar="NAME", envvar=LOG_VARIABLE, help="Which log, in a database or a server of several."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One line of JSON per result, also on a terminal.")]
Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Events of this type; again: or of that.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Events with this tag; again: and with that.")
]
ExcludeTypes = Annotated[
    list[str] | None,
    typer.Option("--exclude-type", metavar="TYPE", help="No events of this type; may be repeated."),
]
Stream = Annotated[str | None, typer.Option("--stream", metavar="NAME", help="Events of this stream.")]
Subject = Annotated[str | None, typer.Option("--subject", metavar="NAME", help="Events with this subject.")]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="JSON", help='Events whose data match, as {"amount": {"$gte": 10}}.'),
]
QueryJson = Annotated[
    str | None,
    typer.Option(
        "--query", metavar="JSON", help='A whole query, as {"items": [{"types": ["…"], "tags": ["…"]}]}.'
    ),
]


def store_url(url: str | None) -> str:
    """The store that was named, or the one of the environment."""
    found = url or os.environ.get(URL_VARIABLE, "")
    if not found:
        raise InvalidInput("no store was named", hint=f"give its URL, or set {URL_VARIABLE}=school.db")
    if found == "memory:":
        raise InvalidInput("memory: ends with the command, so there is nothing in it", hint="name a file")
    return found


def store_and(url: str | None, other: str | None) -> tuple[str | None, str | None]:
    """The store and another argument: one alone is the other one where the environment names the store."""
    is_other = other is None and bool(os.environ.get(URL_VARIABLE))
    return (None, url) if is_other else (url, other)


def open_existing(url: str | None, log: str) -> EventStore:
    """Connect to a store; one that does not exist is not created."""
    return opened(store_url(url), log, create=False)


def opened(url: str, log: str, *, create: bool = True) -> EventStore:
    """Connect to a store; a server gets the token of the environment."""
    is_server = place_of(url).engine == "http"
    token = os.environ.get(TOKEN_VARIABLE) if is_server else None
    return strandline.connect(url, log=log, create=create, token=token or None)


def query_of(
    *,
    types: list[str] | None = None,
    tags: list[str] | None = None,
    exclude_types: list[str] | None = None,
    stream: str | None = None,
    subject: str | None = None,
    where: str | None = None,
    query: str | None = None,
) -> Query:
    """The query that the options ask for together."""
    item = QueryItem(types or (), tags or (), exclude_types or (), stream, subject, where_of(where))
    whole = Query.all() if query is None else parse_query(query, "--query")
    return whole & Query.of(item)


def parse_query(text: str, option: str) -> Query:
    """The query in an option; an error says which one."""
    try:
        return Query.from_json(text)
    except InvalidQuery as error:
        raise InvalidQuery(f"{option}: {error}", hint=error.hint or _QUERY_HINT) from error


def where_of(text: str | None) -> dict[str, Any] | None:
    """The object matcher in `--where`."""
    if text is None:
        return None
    try:
        matcher = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidQuery(f"--where is not JSON: {error}", hint=_WHERE_HINT) from error
    if not isinstance(matcher, dict):
        raise InvalidQuery("--where is not a JSON object", hint=_WHERE_HINT)
    return matcher


_QUERY_HINT = """write --query '{"items": [{"types": ["…"], "tags": ["…"]}]}'"""
_WHERE_HINT = """write --where '{"amount": {"$gte": 10}}'"""
