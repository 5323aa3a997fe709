"""The outbox: events go to somebody outside, in order, at least once, each with an id that stays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..callables import is_async
from ..errors import InvalidInput
from ..event import SequencedEvent
from ..names import check_own_name
from .options import Handler, check_takes, go_on
from .worker import RunOptions

Publisher = Callable[[Sequence[SequencedEvent]], Awaitable[None] | None]
"""Called with events in the order of the log; what it raises means that they were not all published."""


def follower_name(topic: str, publisher: str) -> str:
    """The name of the follower of a topic and a publisher."""
    for name, kind in ((topic, "topic"), (publisher, "publisher")):
        if ":" in check_own_name(name, kind, InvalidInput):
            raise InvalidInput(
                f"the name of a {kind} has no colon: {name!r:.80}",
                hint="the follower is outbox:topic:publisher",
            )
    return f"outbox:{topic}:{publisher}"


def options_of(publish: Publisher, given: RunOptions) -> RunOptions:
    """Return how to run it: as given, else as the publisher says. It goes on after a retag, what was published stays true."""
    own = RunOptions(on_retag=go_on)
    if hasattr(publish, "batch"):
        own["batch"] = publish.batch
    if hasattr(publish, "attempts"):
        own["attempts"] = publish.attempts
    return own | given


def handler_of(publish: Publisher) -> Handler:
    """The handler that gives events to a publisher, which may be async where the store is."""
    if not callable(publish):
        raise InvalidInput(
            f"a publisher is a function of a list of events, not {publish!r:.80}",
            hint="or NdjsonFile(path), Webhook(url, secret=…)",
        )

    check_takes(publish, ("events",), "a publisher")

    def handle(events: Sequence[SequencedEvent], _: None) -> Any:
        return publish(events)

    async def handle_later(events: Sequence[SequencedEvent], _: None) -> Any:
        answer = publish(events)
        assert answer is not None
        await answer

    return handle_later if is_async(publish) else handle
