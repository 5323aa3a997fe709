"""`strandline append`: write an event, or many from a file."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from strandline import AppendCondition, AppendResult, Event, InvalidInput, Query, QueryItem
from strandline.append import MAX_DATA_BYTES, check_size
from strandline.engine.open import DEFAULT_LOG, without_password

from .event_data import event_data, is_data
from .foreign import IdFrom, Reader, TagFrom, TypeFrom, foreign_reader
from .ndjson import append_lines, read_own
from .options import URL_VARIABLE, Json, Log, Url, opened, parse_query, store_url
from .screen import for_people, note, write_json
from .screen import table as print_table

NAME = "append"
EXAMPLE = """\
strandline append school.db CourseDefined '{"course": "c1", "capacity": 30}' --tag course:c1
strandline append school.db StudentSubscribed '{"student": "s1"}' --tag course:c1 --tag student:s1 \\
    --fail-if-type StudentSubscribed --fail-if-tag student:s1
echo '{"type": "CourseClosed", "data": {}, "tags": ["course:c1"]}' | strandline append school.db --ndjson -
echo '{"meta": {"kind": "OrderPlaced"}, "orderId": "o1"}' |
    strandline append school.db --ndjson - --type-from meta.kind --tag-from order=orderId"""

EventType = Annotated[
    str | None, typer.Argument(metavar="TYPE", help="The type of the event.", show_default=False)
]
Data = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="Its data: JSON, @FILE, or - for stdin. Left out: what is piped in, or {}.",
        show_default=False,
    ),
]
Raw = Annotated[bool, typer.Option("--bytes", help="Take DATA as it is; it need not be JSON.")]
OwnTags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; may be repeated.")]
OwnStream = Annotated[str | None, typer.Option("--stream", metavar="NAME", help="The stream it belongs to.")]
OwnSubject = Annotated[
    str | None, typer.Option("--subject", metavar="NAME", help="Whom or what it is about.")
]
Id = Annotated[
    str | None, typer.Option("--id", metavar="UUID", help="Its id: the same append again changes nothing.")
]
Metadata = Annotated[
    list[str] | None, typer.Option("--metadata", metavar="NAME=VALUE", help="Metadata; may be repeated.")
]
FailIf = Annotated[
    str | None,
    typer.Option("--fail-if-events-match", metavar="JSON", help="Refuse if an event matches this query."),
]
FailIfType = Annotated[
    list[str] | None,
    typer.Option("--fail-if-type", metavar="TYPE", help="Refuse if there is an event of this type…"),
]
FailIfTag = Annotated[
    list[str] | None,
    typer.Option("--fail-if-tag", metavar="TAG", help="…with this tag; both may be repeated."),
]
After = Annotated[
    int | None, typer.Option("--after", metavar="N", help="Look only at positions greater than N for that.")
]
UnlessExists = Annotated[
    str | None,
    typer.Option("--unless-exists", metavar="JSON", help="Write nothing if an event matches this query."),
]
Ndjson = Annotated[
    str | None,
    typer.Option(
        "--ndjson", metavar="FILE", help="Append the events of a file, a JSON line each; - is stdin."
    ),
]
Chunk = Annotated[int, typer.Option("--chunk", metavar="N", min=1, help="Lines per transaction of --ndjson.")]


def run(
    url: Url = None,
    event_type: EventType = None,
    data: Data = None,
    *,
    tags: OwnTags = None,
    stream: OwnStream = None,
    subject: OwnSubject = None,
    event_id: Id = None,
    metadata: Metadata = None,
    raw: Raw = False,
    fail_if: FailIf = None,
    fail_if_type: FailIfType = None,
    fail_if_tag: FailIfTag = None,
    after: After = None,
    unless_exists: UnlessExists = None,
    type_from: TypeFrom = None,
    tag_from: TagFrom = None,
    id_from: IdFrom = None,
    ndjson: Ndjson = None,
    chunk: Chunk = 1000,
    log: Log = DEFAULT_LOG,
    as_json: Json = False,
) -> None:
    """Write an event, unless its condition refuses it.

    Exit code 1 if it was refused. A store that does not exist is created. With --ndjson, write many:
    each line is an event as `read --json` shows it, and an append of its own. Lines with an id are
    never written twice, so the same file may be sent again; lines with the $retagged events of a store are
    skipped, tags are in the lines already. Events of another log get the time of this append, and a warning says so.
    With --type-from there is no TYPE, and DATA
    or each line is any JSON object, which becomes the data of its event.
    """
    foreign = foreign_reader(type_from, tag_from, id_from)
    if ndjson is not None:
        _refuse_with_ndjson(
            event_type, data, tags, stream, subject, event_id, metadata, fail_if, fail_if_type
        )
        _refuse_with_ndjson(fail_if_tag, after, unless_exists)
        append_lines(store_url(url), log, ndjson, chunk, foreign or read_own, as_json=as_json)
        return
    own: dict[str, Any] = {"id": event_id, "stream": stream, "subject": subject}
    if foreign is None:
        target, name, text = _arrange(url, event_type, data)
        event = Event(name, event_data(text, raw=raw), **own)
    else:
        target, text = _arrange_foreign(url, event_type, data)
        event = _read_foreign(foreign, event_data(text, raw=raw), own)
    event = event.with_tags(*(tags or ())).with_metadata(_metadata(metadata or []))
    condition = _condition(fail_if, fail_if_type, fail_if_tag, after)
    unless = None if unless_exists is None else parse_query(unless_exists, "--unless-exists")
    check_size((event,), MAX_DATA_BYTES)  # before a file is made
    # No log that would be new has got to a position, so none is made to say so.
    is_new_welcome = condition is None or condition.after == 0
    with opened(target, log, create=is_new_welcome) as store:
        result = store.append(event, condition, unless_exists=unless)
    _show(result, target, as_json=as_json)


def _arrange(url: str | None, name: str | None, data: str | None) -> tuple[str, str, str | None]:
    """Which argument is what, if the first may have been left out for the one of the environment."""
    default = os.environ.get(URL_VARIABLE, "")
    is_url = url is not None and "://" in url
    if default and data is None and url is not None and not is_url and not (name and _names_a_store(url)):
        return default, url, name
    if name is None:
        raise InvalidInput("an event has a type", hint="run: strandline append URL TYPE '{…}'")
    if is_data(name):
        raise InvalidInput(
            f"TYPE is {name!r:.60}, which is data: the store is missing",
            hint=f"run: strandline append URL {shlex.quote(url or 'TYPE')} '{{…}}', or set {URL_VARIABLE}=school.db",
        )
    return store_url(url), name, data


def _arrange_foreign(url: str | None, data: str | None, surplus: str | None) -> tuple[str, str | None]:
    """The same where there is no TYPE."""
    if surplus is not None:
        raise InvalidInput(
            "with --type-from the type is in DATA", hint="run: strandline append URL '{…}' --type-from PATH"
        )
    default = os.environ.get(URL_VARIABLE, "")
    if default and data is None and url is not None and not _names_a_store(url):
        return default, url
    if url is not None and is_data(url):
        raise InvalidInput(
            f"URL is {url!r:.60}, which is data: the store is missing",
            hint=f"run: strandline append URL '{{…}}' --type-from PATH, or set {URL_VARIABLE}=school.db",
        )
    return store_url(url), data


def _read_foreign(foreign: Reader, data: bytes, own: dict[str, Any]) -> Event:
    """The event of an object; what an option says about it goes before what a path says."""
    given = {name: value for name, value in own.items() if value is not None}
    return foreign(data, **{name: lambda _, value=value: value for name, value in given.items()})


def _names_a_store(word: str) -> bool:
    return (
        word == "memory:"
        or "://" in word
        or os.sep in word
        or word.endswith((".db", ".sqlite", ".sqlite3"))
        or Path(word).exists()
    )


def _metadata(pairs: list[str]) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    for name, separator, _ in split:
        if not name or not separator:
            raise InvalidInput(f"--metadata takes NAME=VALUE, not {name!r}", hint="write --metadata user=u1")
    return {name: value for name, _, value in split}


def _condition(
    fail_if: str | None, types: list[str] | None, tags: list[str] | None, after: int | None
) -> AppendCondition | None:
    queries = [] if fail_if is None else [parse_query(fail_if, "--fail-if-events-match")]
    if types or tags:
        queries.append(Query.of(QueryItem(types or (), tags or ())))
    if queries:
        return AppendCondition(Query(item for query in queries for item in query.items), after or 0)
    if after is not None:
        raise InvalidInput(
            "--after needs a query to look for", hint="add --fail-if-tag, or leave --after out"
        )
    return None


def _refuse_with_ndjson(*given: object) -> None:
    if any(value is not None for value in given):
        raise InvalidInput(
            "with --ndjson the lines say everything about the events",
            hint="run: strandline append URL --ndjson FILE, without TYPE, DATA and options of one event",
        )


def _show(result: AppendResult, target: str, *, as_json: bool) -> None:
    if not for_people(as_json=as_json):
        write_json(msgspec.structs.asdict(result) | {"position": result.position})
        return
    print_table(("position", "events", "duplicate"), [(result.position, result.count, result.duplicate)])
    if result.first == 1 and not result.duplicate:
        note(f"a new log begins in {without_password(target)}")
    if result.duplicate:
        note("nothing was written: an earlier append wrote it already")
