"""`strandline models`: look at read models, make their tables anew."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from strandline import EventStore, InvalidInput, NotFound, Unavailable
from strandline.engine.open import DEFAULT_LOG
from strandline.event import encode_sorted
from strandline.follow.models.columns import EXACT
from strandline.follow.models.listing import ModelStatus, columns_of, models_of, newest_rows
from strandline.follow.models.making import REBUILD

from .application import read_model_of
from .examples import Command, Commands
from .options import Json, Log, Url, open_existing, store_and
from .progress import progress
from .screen import facts, for_people, note, table, write_json

Table = Annotated[str | None, typer.Argument(metavar="TABLE", help="The model's table.", show_default=False)]
Rows = Annotated[int, typer.Option("--rows", metavar="N", min=0, help="How many rows, newest first.")]
Model = Annotated[
    str,
    typer.Argument(metavar="MODULE:NAME", help="The read model in your code, or a projection with --table."),
]
TableOption = Annotated[
    str | None, typer.Option("--table", metavar="NAME", help="The table, if MODULE:NAME is a projection.")
]
Batch = Annotated[int, typer.Option("--batch", metavar="N", min=1, help="How many events per transaction.")]

NAME = "models"
EXAMPLE = "strandline models list school.db"
HEADINGS = ("table", "state", "position", "lag", "behind", "rows", "rebuild", "error")
LOOK_SECONDS = 0.1
LONGEST_CELL = 200

app = typer.Typer(
    cls=Commands,
    help="Show the read models of a log, and rebuild them.",
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
    """Show every read model: its state, how far it is behind, its rows, whether it is being rebuilt."""
    with open_existing(url, log) as store:
        found = models_of(store.engine)
    if not for_people(as_json=as_json):
        for model in found:
            write_json(_fields(model))
    elif found:
        table(HEADINGS, map(_cells, found))
    else:
        note("this log has no read models")


@app.command("show", cls=Command, epilog="strandline models show school.db courses --rows 5")
def show(
    url: Url = None, name: Table = None, *, rows: Rows = 10, log: Log = DEFAULT_LOG, as_json: Json = False
) -> None:
    """Show one read model: its status, its columns and the rows that changed last."""
    url, name = store_and(url, name)
    if name is None:
        raise InvalidInput("no table was named", hint="see: strandline models list URL")
    with open_existing(url, log) as store:
        model = _model(store, name)
        columns = columns_of(store.engine, name)
        newest = newest_rows(store.engine, name, rows) if columns and rows else []
    names = [column for column, _ in columns]
    if not for_people(as_json=as_json):
        shown = [dict(zip(names, row, strict=True)) for row in newest]
        described = [{"name": column, "type": kind} for column, kind in columns]
        write_json(_fields(model) | {"columns": described, "newest": shown})
        return
    _tell(model, columns=", ".join(f"{column} {kind}" for column, kind in columns))
    if newest:
        used = [i for i, column in enumerate(names) if column != EXACT or any(row[i] for row in newest)]
        table([names[i] for i in used], ([_shown(row[i]) for i in used] for row in newest))


@app.command("rebuild", cls=Command, epilog="strandline models rebuild school:courses school.db")
def rebuild(
    model: Model,
    url: Url = None,
    *,
    table_name: TableOption = None,
    batch: Batch = 1_000,
    log: Log = DEFAULT_LOG,
    as_json: Json = False,
) -> None:
    """Make the table of a read model anew from the whole log, while the old one serves.

    The projection is code of yours: school:courses is the ReadModel named courses in school.py. Interrupted, it goes
    on where it was when it is called again.
    """
    made = read_model_of(model, table_name)
    with open_existing(url, log) as store:
        with _watching(store, made.table):
            made.rebuild(store, batch)
        status = _model(store, made.table)
    if for_people(as_json=as_json):
        _tell(status)
    else:
        write_json(_fields(status))


@contextlib.contextmanager
def _watching(store: EventStore, name: str) -> Iterator[None]:
    """A bar that shows how far the new table is."""
    is_over = threading.Event()
    with progress(f"rebuilding {name}") as step:

        def watch() -> None:
            while not is_over.wait(LOOK_SECONDS):
                with contextlib.suppress(Unavailable):  # that is for the rebuild to tell
                    for row in store.engine.followers(f"{REBUILD}{name}"):
                        step(row.position, store.engine.head())

        watcher = threading.Thread(target=watch, name="strandline-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()


def _model(store: EventStore, name: str) -> ModelStatus:
    for model in models_of(store.engine):
        if model.table == name:
            return model
    raise NotFound(f"this log has no read model {name!r}", hint="see: strandline models list URL")


def _fields(model: ModelStatus) -> dict[str, Any]:
    """A read model as JSON: what its follower is, and its table."""
    fields = msgspec.structs.asdict(model.follower)
    del fields["dead_letters"]  # it has none: it would rather stop
    return {"table": model.table, **fields, "rows": model.rows, "rebuild": model.rebuild}


def _cells(model: ModelStatus) -> tuple[object, ...]:
    status = model.follower
    return (
        model.table,
        status.state,
        status.position,
        status.lag,
        f"{status.lag_seconds:,.1f} s" if status.lag else "",
        "no table" if model.rows is None else model.rows,
        _rebuild(model),
        status.error,
    )


def _tell(model: ModelStatus, **more: object) -> None:
    shown = _fields(model)
    shown["lag_seconds"] = f"{shown['lag_seconds']:,.1f}"
    shown["rows"] = "no table" if model.rows is None else model.rows
    shown["rebuild"] = _rebuild(model)
    facts((shown | more).items())


def _rebuild(model: ModelStatus) -> str:
    if model.rebuild is None:
        return ""
    how = "under way" if model.rebuild.state == "running" else "stopped"
    return f"{how}, at {model.rebuild.position:,} of {model.rebuild.head:,}"


def _shown(value: Any) -> object:
    """A value of any column as a cell."""
    if value is None or isinstance(value, int):
        return "" if value is None else value
    text = encode_sorted(value).decode() if isinstance(value, dict | list | bytes) else str(value)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"
