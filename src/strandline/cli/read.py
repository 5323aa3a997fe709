"""`strandline read`: the events of a query."""

from typing import Annotated

import typer

from strandline.engine.open import DEFAULT_LOG
from strandline.reading import Read

from .event_table import print_events
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

NAME = "read"
EXAMPLE = """\
strandline read school.db --type CourseDefined --tag course:c1
strandline read school.db --where '{"capacity": {"$gte": 10}}' --backwards --limit 5"""

After = Annotated[int, typer.Option("--after", metavar="N", help="Only positions greater than N.")]
Until = Annotated[int | None, typer.Option("--until", metavar="N", help="Only positions up to N.")]
Backwards = Annotated[bool, typer.Option("--backwards", help="The newest first.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="At most N events.")]


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
    after: After = 0,
    until: Until = None,
    backwards: Backwards = False,
    limit: Limit = None,
    log: Log = DEFAULT_LOG,
    as_json: Json = False,
) -> None:
    """Show the events that match a query.

    Options narrow the query together; without any, it is the whole log.
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
        read = store.read(asked, after=after, until=until, backwards=backwards, limit=limit)
        _show(read, as_json=as_json)


def _show(read: Read, *, as_json: bool) -> None:
    if not for_people(as_json=as_json):
        for line in read.ndjson():
            write_line(line)
    elif not print_events(read):
        note(f"no event matches; the head is {read.head:,}")
