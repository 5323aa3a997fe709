"""What a follower is, and how it is to be run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ..append import check_position
from ..callables import takes
from ..engine import Engine
from ..engine.following import FollowerRow, Transaction
from ..errors import FollowerFailed, InvalidInput, NotFound
from ..event import SequencedEvent
from ..names import check_own_name
from ..query import Query, QueryItem

LONGEST_PAUSE_SECONDS = 30.0
LONGEST_TEXT = 50_000

MAKE_ANEW = "make its table anew: model.rebuild(store), or: strandline models rebuild MODULE:NAME URL"

Handler = Callable[..., Any]
OnFailure = Literal["dead_letter", "stop"]


def go_on(_retag: SequencedEvent, _tx: Any) -> None:
    """Go on after a retag. An outbox and an automation do: what they published or did stays true."""


class Kept(msgspec.Struct, frozen=True):
    """What a follower is, before anything was delivered."""

    name: str
    query: Query
    after: int
    lease_seconds: float
    version: str = ""  # of what its events are made into

    @property
    def is_query_known(self) -> bool:
        """Whether the query is known here. The log does not keep the functions of a query."""
        return True

    @property
    def query_text(self) -> str:
        """The query as it is kept. Of functions in it is kept only that they are there."""
        if has_function(self.query):
            return WITH_FUNCTION + without_functions(self.query).to_json()
        return f"{self.query.to_json()}\n{self.version}" if self.version else self.query.to_json()

    def is_in(self, row: FollowerRow) -> bool:
        """Whether the row is that of a follower of an equal query; equal ones may name their items in another order."""
        if not has_function(self.query):
            return row.query == self.query_text or query_and_version(row.query) == (self.query, self.version)
        if not row.query.startswith(WITH_FUNCTION):
            return not row.query  # of an older version of Strandline, which kept nothing of such a query
        return Query.from_json(row.query.removeprefix(WITH_FUNCTION)) == without_functions(self.query)

    @property
    def how_to_restore(self) -> str:
        """What to do if tables that the events were made into are gone."""
        if self.version:
            return MAKE_ANEW
        return (
            "restore the table as it was at the checkpoint of the follower, or empty all its tables and let it"
            " begin again: follower.reset(0)"
        )

    def check(self, row: FollowerRow) -> None:
        """Raise if it has followed something else so far."""
        if self.is_in(row):
            return
        if self.version:
            raise FollowerFailed(
                f"{row.name!r} was made by another version of its projection",
                hint=MAKE_ANEW,
            )
        raise FollowerFailed(
            f"follower {row.name!r} has followed another query up to position {row.position}",
            hint="give the new query to a follower of another name, or let this one begin again:"
            " follower.reset(0)",
        )

    def row(self, head: int) -> FollowerRow:
        """The first row."""
        if self.after > head:
            raise InvalidInput(
                f"follower {self.name!r} is to begin after {self.after}, but the head of this log is {head}",
                hint="the position comes from another log, or this log was restored from a backup",
            )
        return FollowerRow(self.name, self.query_text, self.after, self.after, head)

    def query_after_reset(self, _row: FollowerRow) -> str:
        """The query that is kept when the follower begins again. It may be a new one."""
        return self.query_text

    def found(self, tx: Transaction, head: int) -> FollowerRow:
        """The row, locked until the transaction ends; made if need be."""
        row = tx.find(self.name)
        if row is None:
            tx.create(self.row(head))
            row = tx.find(self.name)
        assert row is not None
        return row


class Found(Kept, frozen=True):
    """A follower that was found by its name. It is as its row says, and is never made anew."""

    @property
    def is_query_known(self) -> bool:
        return self.query is not UNKNOWN_QUERY

    def check(self, row: FollowerRow) -> None:
        """Raise if its events cannot be delivered by name alone."""
        if self.version:
            raise InvalidInput(
                f"{self.name!r} is the follower of a read model",
                hint="run the read model itself: model.run(store)",
            )
        if not self.is_query_known:
            raise InvalidInput(
                f"the query of follower {self.name!r} has a function in it, which the log does not keep",
                hint="give the query: store.follower(name, query)",
            )
        super().check(row)

    def query_after_reset(self, row: FollowerRow) -> str:
        return row.query

    def row(self, head: int) -> FollowerRow:
        raise no_follower(self.name)


def has_function(query: Query) -> bool:
    """Return whether a query has a function in it, which the log does not keep."""
    return any(callable(item.where) for item in query.items)


def without_functions(query: Query) -> Query:
    """Return the query with a matcher of the same place instead of each function."""
    return Query([_without_function(item) for item in query.items])


def _without_function(item: QueryItem) -> QueryItem:
    if not callable(item.where):
        return item
    return QueryItem(
        item.types, item.tags, item.exclude_types, item.stream, item.subject, _A_FUNCTION, item.key
    )


WITH_FUNCTION = "with a function: "
_A_FUNCTION = {"$metadata": {"a function": "is asked"}}
UNKNOWN_QUERY = Query.of(QueryItem(where=lambda _: False))
"""In place of a query with a function in it."""


def kept_of(name: str, query: Query, *, after: int, lease: float, version: str = "") -> Kept:
    """What a follower is that was named together with its query."""
    checked = check_own_name(name, "follower", InvalidInput)
    return Kept(checked, query, check_position(after, "after"), check_lease(lease), version)


def found_in(engine: Engine, name: str, *, lease: float) -> Found:
    """What the log keeps of a follower; `NotFound` if there is none of this name."""
    for row in engine.followers(check_own_name(name, "follower", InvalidInput)):
        query, version = query_and_version(row.query)
        return Found(row.name, query or UNKNOWN_QUERY, row.start, lease, version)
    raise no_follower(name)


def no_follower(name: str) -> NotFound:
    """The error for a follower that is not there."""
    return NotFound(
        f"this log has no follower {name!r}",
        hint="list them: store.followers(), or strandline followers list URL",
    )


class Options(msgspec.Struct, frozen=True):
    """How to run a follower."""

    handle: Handler
    batch: int = 500
    until: int | None = None
    attempts: int = 5
    backoff: float = 0.1
    on_failure: OnFailure = "dead_letter"
    on_retag: Handler | None = None
    in_transaction: bool = True

    def pause(self, attempt: int) -> float:
        """How long to wait after an attempt that failed: twice as long each time."""
        return min(LONGEST_PAUSE_SECONDS, self.backoff * 2.0 ** (attempt - 1))

    def is_reached(self, position: int) -> bool:
        """Whether a run that has got to this position may end."""
        return self.until is not None and position >= self.until

    def check(self) -> None:
        """Refuse what makes no sense."""
        if not callable(self.handle):
            raise InvalidInput("a handler is a function", hint="write follower.run(handle)")
        check_takes(self.handle, ("events", "tx"), "a handler")
        if self.on_retag is not None and not callable(self.on_retag):
            raise InvalidInput(
                f"on_retag is a function, not {self.on_retag!r:.40}", hint="write def on_retag(retag, tx): …"
            )
        if self.on_retag is not None:
            check_takes(self.on_retag, ("retag", "tx"), "on_retag")
        check_count(self.batch, "batch")
        check_count(self.attempts, "attempts")
        if self.until is not None:
            check_position(self.until, "until")
        if self.on_failure not in ("dead_letter", "stop"):
            raise InvalidInput(
                f"on_failure is 'dead_letter' or 'stop', not {self.on_failure!r:.40}", hint="leave it out"
            )
        if not isinstance(self.backoff, (int, float)) or self.backoff < 0:
            raise InvalidInput(
                f"backoff is a number of seconds, not {self.backoff!r:.40}", hint="leave it out"
            )


def check_count(value: int, name: str) -> None:
    """Raise if `value` is not a number of things."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(f"{name} is a whole number from 1, not {value!r:.40}", hint="leave it out")


def check_takes(function: Handler, arguments: tuple[str, ...], what: str) -> None:
    """Raise if a function cannot be called with these arguments."""
    if not takes(function, arguments):
        name = getattr(function, "__name__", type(function).__name__)
        raise InvalidInput(
            f"{what} is called with ({', '.join(arguments)}), which {name!r:.80} does not take",
            hint=f"write def {name if name.isidentifier() else 'handle'}({', '.join(arguments)}): …",
        )


def query_and_version(text: str) -> tuple[Query | None, str]:
    """A kept text read again; there is no query if it had a function."""
    query, _, version = text.partition("\n")
    is_known = bool(query) and not query.startswith(WITH_FUNCTION)
    return (Query.from_json(query) if is_known else None), version


def check_lease(seconds: float) -> float:
    """Return `seconds` if a lease may last that long."""
    if not isinstance(seconds, (int, float)) or not 0.01 <= seconds <= 86_400:
        raise InvalidInput(
            f"a lease is good for 0.01 to 86,400 seconds, not {seconds!r:.40}", hint="leave it out"
        )
    return float(seconds)


def described(error: BaseException | None) -> str:
    """What an error says, in one line."""
    return plain(f"{type(error).__name__}: {error}")


def plain(text: str) -> str:
    """The text as every database can keep it."""
    return text[:LONGEST_TEXT].replace("\0", "\\0").encode(errors="backslashreplace").decode()
