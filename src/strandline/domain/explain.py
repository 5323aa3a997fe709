"""What a command reads, and what its append is checked against."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..query import Query, QueryItem
from .appending import condition_of
from .boundary import begin_by_hand, read_query
from .command import Bound
from .steps import Count, Steps


class Explanation(msgspec.Struct, frozen=True):
    """The boundary of a command: `str()` of it is for people."""

    command: str
    reads: Query
    """The events that its projections are folded from."""
    condition: Query | None
    """The events that refuse its append if they are newer than the read; None: nothing does."""
    counts: tuple[tuple[str, QueryItem, int], ...]
    """Each projection, its query item, and how many events it has now."""

    def __str__(self) -> str:
        projections = [(name, *_item(item), f"{count:,}") for name, item, count in self.counts]
        lines = [self.command, "reads", *_table(("projection", "types", "tags", "events now"), projections)]
        if self.condition is None:
            return "\n".join([*lines, "is never refused"])
        items = [_item(item) for item in self.condition.items]
        return "\n".join([*lines, "is refused by newer events with", *_table(("types", "tags"), items)])

    def __repr__(self) -> str:
        return f"<Explanation of {self.command}>"


def explain(bound: Bound) -> Steps[Explanation]:
    """Look at a command without executing it."""
    members = begin_by_hand(bound.projections)
    condition = condition_of(bound.command, members)
    counts = []
    for member in members:
        count: int = yield Count(Query.of(member.item))
        key = ", ".join(map(repr, map(str, member.state._key())))
        counts.append((f"{type(member.state).__name__}({key})", member.item, count))
    guarded = None if condition is None else condition.fail_if_events_match
    return Explanation(bound.command.name, read_query(members), guarded, tuple(counts))


def _item(item: QueryItem) -> tuple[str, str]:
    return ", ".join(item.types) or "any", " and ".join(item.tags) or "any"


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (headings, *rows)
    ]
