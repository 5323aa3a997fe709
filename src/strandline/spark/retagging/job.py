"""`retag`: tags by a rule, for the events of a whole log, while it is in use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from ...engine.open import DEFAULT_LOG
from ...names import RESERVED
from ...query import Query
from ...retag import MAX_CHANGES, TagsOfEach
from ...store import EventStore, connect, only
from ..active import in_any_thread
from ..reach import kept_place
from .rule import NamedRule, Rule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .looking import Missing

LOOKS = 5
CATCH_UPS = 20  # who appends faster than this catches up must not keep it for ever

Progress = Callable[[str, int, int], None]


class Retagged(msgspec.Struct, frozen=True):
    """What a retag did. If it is `complete`, a look at the whole log up to `head` found that no tag is missing."""

    rule: str
    complete: bool
    head: int
    changed: int
    looks: int
    seconds: float


@in_any_thread
def retag(
    spark: SparkSession,
    url: str,
    rule: str | Rule,
    *,
    log: str = DEFAULT_LOG,
    query: Query | None = None,
    staging: str | None = None,
    progress: Progress | None = None,
) -> Retagged:
    """Add to every event of the log, or of a query, the tags that `rule(event)` returns and the event lacks.

    The rule is a function of a module, `"school:more_tags"`. The log stays in use: changes are made in chunks, and what
    was appended meanwhile is seen to as well. A run that was interrupted is simply run again. On a cluster, `staging`
    is a folder that all machines share.
    """
    from ..staging.source import staging_folder
    from .looking import look, missing_in

    began = time.monotonic()
    named = NamedRule(rule)
    place = kept_place(url)
    with connect(place.address, log=log, create=False) as store:
        head, changed, looks, is_complete = store.head(), 0, 0, False
        while not is_complete and looks < LOOKS:
            with staging_folder(staging) as folder:
                pieces = look(spark, url, named, log=log, query=query, until=head, folder=folder)
                looks += 1
                found = sum(piece.staged for piece in pieces)
                is_complete = found == 0
                changed += _add(store, missing_in(pieces), found, progress)
            if not is_complete:
                head, more = _catch_up(store, named, query, head)
                changed += more
    return Retagged(
        rule=named.path,
        complete=is_complete,
        head=head,
        changed=changed,
        looks=looks,
        seconds=round(time.monotonic() - began, 3),
    )


def _add(store: EventStore, missing: Iterable[Missing], of: int = 0, progress: Progress | None = None) -> int:
    """Add the tags, a chunk at once; returns how many events were changed."""
    done, left = 0, iter(missing)
    while chunk := dict(islice(left, MAX_CHANGES)):
        only(store.sequencer.run((TagsOfEach(chunk),)))
        done += len(chunk)
        if progress is not None:
            progress("retagging", done, of)
    return done


def _catch_up(store: EventStore, rule: NamedRule, query: Query | None, after: int) -> tuple[int, int]:
    """See to what was appended meanwhile; returns how far that went, and how many events were changed."""
    changed = 0
    for _ in range(CATCH_UPS):
        head = store.head()
        if head == after:
            break
        changed += _add(store, _missing(store, rule, query, after, head))
        after = head
    return after, changed


def _missing(
    store: EventStore, rule: NamedRule, query: Query | None, after: int, until: int
) -> Iterator[Missing]:
    for event in store.read(query, after=after, until=until):
        tags = () if event.type.startswith(RESERVED) else rule.missing_tags(event)
        if tags:
            yield event.position, tags
