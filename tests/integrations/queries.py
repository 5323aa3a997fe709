"""Short forms of their queries."""

from __future__ import annotations

from eventsourcing.dcb.api import DCBQuery, DCBQueryItem


def query(*items: tuple[list[str], list[str]]) -> DCBQuery:
    """The query of these items: types and tags."""
    return DCBQuery([DCBQueryItem(types, tags) for types, tags in items])


def tagged(*tags: str) -> DCBQuery:
    """The query of events that carry all these tags."""
    return query(([], [*tags]))
