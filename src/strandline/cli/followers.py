"""`strandline followers`: look at followers, pause and reset them, see to their dead letters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from strandline import EventStore, InvalidInput
from strandline.engine.following import DeadLetter
from strandline.engine.open import DEFAULT_LOG
from strandline.follow import Follower

from .application import worker_named, workers_of
from .examples import Command, Commands
from .options import Json, Log, Url, open_existing, store_and
from .screen import console, facts, for_people, note, plain, table, write_json
from .status_table import HEADINGS, cells

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="The follower's name.", show_default=False)]
Position = Annotated[int, typer.Option("--position", metavar="N", help="The position of the dead letter.")]
OnePosition = Annotated[
    int | None, typer.Option("--position", metavar="N", help="Only that one, with its traceback.")
]
To = Annotated[int | None, typer.Option("--position", metavar="N", help="Go on after this position.")]
Time = Annotated[
    str | None,
    typer.Option("--time", metavar="TIME", help="Go on after this time, as 2026-01-31T12:00 (UTC)."),
]
App = Annotated[
    str | None,
    typer.Option(
        "--app", metavar="MODULE:FUNCTION", help="The application with the handler, as for strandline run."
    ),
]

NAME = "followers"
EXAMPLE = "strandline followers list school.db"

app = typer.Typer(
    cls=Commands,
    help="Show and steer the followers of a log.",
    epilog=EXAMPLE,
    rich_markup_mode=None,
    invoke_without_command=True,
)


@app.callback()
def root(context: typer.Context) -> None:
    """Without a command, show the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list", cls=Command, epilog=EXAMPLE)
def list_all(url: Url = None, *, log: Log = DEFAULT_LOG, as_json: Json = False) -> None:
    """Show every follower: its state, its checkpoint, how far it is behind."""
    with open_existing(url, log) as store:
        found = store.followers()
    if not for_people(as_json=as_json):
        for status in found:
            write_json(msgspec.structs.asdict(status))
    elif found:
        table(HEADINGS, map(cells, found))
    else:
        note("this log has no followers")


@app.command("show", cls=Command, epilog="strandline followers show school.db balances")
def show(url: Url = None, name: Name = None, *, log: Log = DEFAULT_LOG, as_json: Json = False) -> None:
    """Show one follower, with its query."""
    with _opened(url, name, log) as (_, follower):
        _tell(follower, as_json=as_json)


@app.command("pause", cls=Command, epilog="strandline followers pause school.db balances")
def pause(url: Url = None, name: Name = None, *, log: Log = DEFAULT_LOG, as_json: Json = False) -> None:
    """Deliver nothing more, whoever runs it, until it is resumed."""
    with _opened(url, name, log) as (_, follower):
        follower.pause()
        _tell(follower, as_json=as_json)


@app.command("resume", cls=Command, epilog="strandline followers resume school.db balances")
def resume(url: Url = None, name: Name = None, *, log: Log = DEFAULT_LOG, as_json: Json = False) -> None:
    """Let a paused follower go on."""
    with _opened(url, name, log) as (_, follower):
        follower.resume()
        _tell(follower, as_json=as_json)


@app.command("reset", cls=Command, epilog="strandline followers reset school.db balances --position 0")
def reset(
    url: Url = None,
    name: Name = None,
    *,
    position: To = None,
    time: Time = None,
    log: Log = DEFAULT_LOG,
    as_json: Json = False,
) -> None:
    """Let a follower go on after another position.

    What its handler made of later events is not undone: empty its tables first, if it would count them twice.
    """
    if (position is None) == (time is None):
        raise InvalidInput("where to go back to?", hint="give either --position N or --time TIME")
    to = _time(time) if time is not None else position
    assert to is not None
    with _opened(url, name, log) as (_, follower):
        follower.reset(to)
        _tell(follower, as_json=as_json)


@app.command("dead-letters", cls=Command, epilog="strandline followers dead-letters school.db balances")
def dead_letters(
    url: Url = None,
    name: Name = None,
    *,
    position: OnePosition = None,
    log: Log = DEFAULT_LOG,
    as_json: Json = False,
) -> None:
    """Show the events that a follower gave up on."""
    with _opened(url, name, log) as (_, follower):
        letters = [each for each in follower.dead_letters() if position in (None, each.position)]
    if not for_people(as_json=as_json):
        for letter in letters:
            write_json(_fields(letter))
    elif not letters:
        note("no dead letters")
    elif position is not None:
        fields = _fields(letters[0])
        trace = fields.pop("traceback").splitlines()
        facts(fields.items())
        for line in trace:
            console().print(plain(line))
    else:
        rows = [
            (each.position, f"{each.time:%Y-%m-%d %H:%M:%S}", each.attempts, each.error) for each in letters
        ]
        table(("position", "time UTC", "attempts", "error"), rows)


@app.command("discard", cls=Command, epilog="strandline followers discard school.db balances --position 2")
def discard(
    url: Url = None, name: Name = None, *, position: Position, log: Log = DEFAULT_LOG, as_json: Json = False
) -> None:
    """Remove a dead letter."""
    with _opened(url, name, log) as (_, follower):
        follower.discard(position)
        _tell(follower, as_json=as_json)


@app.command(
    "replay",
    cls=Command,
    epilog="strandline followers replay school.db balances --position 2 --app school:app",
)
def replay(
    url: Url = None,
    name: Name = None,
    *,
    position: Position,
    application: App = None,
    log: Log = DEFAULT_LOG,
    as_json: Json = False,
) -> None:
    """Call the handler for a dead letter once more.

    The letter is removed if that succeeds. The handler is code of yours: --app says where it is.
    """
    if application is None:
        raise InvalidInput(
            "a replay needs the handler, which is in your application", hint="add --app module:function"
        )
    with _opened(url, name, log) as (store, follower):
        worker_named(follower.name, workers_of(application, store)).replay(position)
        _tell(follower, as_json=as_json)


@contextlib.contextmanager
def _opened(url: str | None, name: str | None, log: str) -> Iterator[tuple[EventStore, Follower]]:
    """The store, and a follower that it has. A lone argument is the name, in the store of the environment."""
    url, name = store_and(url, name)
    if name is None:
        raise InvalidInput("no follower was named", hint="see: strandline followers list URL")
    with open_existing(url, log) as store:
        yield store, store.find_follower(name)


def _tell(follower: Follower, *, as_json: bool) -> None:
    fields: dict[str, Any] = msgspec.structs.asdict(follower.status())
    is_known = follower.kept.is_query_known
    if for_people(as_json=as_json):
        shown = fields | {"lag_seconds": f"{fields['lag_seconds']:,.1f}"}
        facts((shown | {"query": follower.query.to_json() if is_known else "has a function in it"}).items())
    else:
        query = msgspec.Raw(follower.query.to_json().encode()) if is_known else None
        write_json(fields | {"query": query})


def _fields(letter: DeadLetter) -> dict[str, Any]:
    fields = msgspec.structs.asdict(letter)
    del fields["raw_time"]
    return fields | {"time": letter.time}


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"--time: {error}", hint="write --time 2026-01-31T12:00") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)
