"""`strandline tail`: the last events, then each new one."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from strandline import EventStore, Query, SequencedEvent
from strandline.engine.open import DEFAULT_LOG

from .event_table import EventTable
from .options import (
    ExcludeTypes,
    Json,
    Log,
    QueryJson,
    Stream,
    Subject,
    Tags,
    Types,
    Url,
    Where,
    open_existing,
    query_of,
)
from .screen import for_people, note, write_line

NAME = "tail"
EXAMPLE = "strandline tail school.db --lines 5 --no-follow"

Show = Callable[[SequencedEvent], None]
After = Annotated[
    int | None, typer.Option("--after", metavar="N", help="Begin after position N, not with the last events.")
]
Lines = Annotated[
    int, typer.Option("--lines", "-n", metavar="N", min=0, help="Begin with the last N events.")
]
Follow = Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for new events; Ctrl-C ends it.")]


def run(
    url: Url = None,
    *,
    types: Types = None,
    tags: Tags = None,
    exclude_types: ExcludeTypes = None,
    stream: Stream = None,
    subject: Subject = None,
    where: Where = None,
    query: QueryJson = None,
    after: After = None,
    lines: Lines = 10,
    follow: Follow = True,
    log: Log = DEFAULT_LOG,
    as_json: Json = False,
) -> None:
    """Show the last events, then each new one.

    New events show up as they are written, whichever process writes them.
    """
    asked = query_of(
        types=types,
        tags=tags,
        exclude_types=exclude_types,
        stream=stream,
        subject=subject,
        where=where,
        query=query,
    )
    with open_existing(url, log) as store:
        try:
            head, show = _show_past(store, asked, after, lines, people=for_people(as_json=as_json))
            if follow:
                _follow(store, asked, head, show)
        except KeyboardInterrupt:
            return


def _show_past(
    store: EventStore, query: Query, after: int | None, lines: int, *, people: bool
) -> tuple[int, Show]:
    past, head = _past(store, query, after, lines)
    table = EventTable(past) if people else None
    if table:
        table.print_head()
    show = table.print_row if table else _write_event
    for event in past:
        show(event)
    sys.stdout.flush()
    return head, show


def _past(store: EventStore, query: Query, after: int | None, lines: int) -> tuple[list[SequencedEvent], int]:
    if after is not None:
        read = store.read(query, after=after)
        return list(read), read.head
    if lines == 0:
        return [], store.head()
    read = store.read(query, backwards=True, limit=lines)
    return list(read)[::-1], read.head


def _follow(store: EventStore, query: Query, head: int, show: Show) -> None:
    if sys.stdout.isatty():
        note(f"waiting for events after position {head:,}; Ctrl-C ends it")
    with store.subscribe(query, after=head) as coming:
        for event in coming:
            show(event)
            sys.stdout.flush()


def _write_event(event: SequencedEvent) -> None:
    write_line(event.to_line() + b"\n")
