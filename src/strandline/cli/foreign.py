"""`--type-from` and what goes with it: JSON objects from elsewhere as events."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated

import typer

from strandline import Event, InvalidInput

TypeFrom = Annotated[
    str | None,
    typer.Option(
        "--type-from", metavar="PATH", help="Take any JSON object; its type is at this path, as meta.kind."
    ),
]
TagFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--tag-from",
        metavar="PREFIX=PATH",
        help="A tag of what is at this path, of each in a list; may be repeated.",
    ),
]
IdFrom = Annotated[
    str | None, typer.Option("--id-from", metavar="PATH", help="The path of a UUID in it: the event's id.")
]

Reader = Callable[..., Event]
"""Makes an event of the text of an object; takes more of what `Event.from_foreign` does."""


def foreign_reader(type_from: str | None, tag_from: list[str] | None, id_from: str | None) -> Reader | None:
    """What reads objects from elsewhere; None if there are none."""
    if type_from is None:
        if tag_from or id_from is not None:
            raise InvalidInput(
                "--tag-from and --id-from go with --type-from", hint="say where the type is: --type-from type"
            )
        return None
    where = {} if id_from is None else {"id": id_from}
    return functools.partial(Event.from_foreign, type=type_from, tags=_paths(tag_from or []), **where)


def _paths(pairs: list[str]) -> dict[str, str]:
    paths: dict[str, str] = {}
    for pair in pairs:
        prefix, _, path = pair.partition("=")
        if not prefix or not path or prefix in paths:
            raise InvalidInput(
                f"--tag-from takes PREFIX=PATH, each prefix once, not {pair!r}",
                hint="write --tag-from order=orderId",
            )
        paths[prefix] = path
    return paths
