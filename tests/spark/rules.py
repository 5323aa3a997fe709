"""Rules of retags. A module of its own, because executors import it."""

from __future__ import annotations

import os

from academy import StudentSubscribed

from strandline import SequencedEvent

NO_FUNCTION = 5


def parity(event: SequencedEvent) -> list[str]:
    """A tag that every event gets, and one of its own."""
    return parity_of(event.json())


def parity_of(n: int) -> list[str]:
    return ["odd" if n % 2 else "even", f"n:{n}"]


def of_course(event: SequencedEvent) -> list[str] | None:
    """Knows typed events, and says nothing about others."""
    if event.type != "StudentSubscribed":
        return None
    return [event.decode(StudentSubscribed).course.tag, f"month:{event.recorded_at:%Y-%m}"]


def fails(event: SequencedEvent) -> list[str]:
    return [f"half:{1 / (event.json() - 1_500):.3f}"]


def one_text(event: SequencedEvent) -> str:
    return "odd"


def reserved(event: SequencedEvent) -> list[str]:
    return ["$key:x"]


def too_many(event: SequencedEvent) -> list[str]:
    return [f"t:{number}" for number in range(65)]


def deadly(event: SequencedEvent) -> list[str]:
    """Ends the process that asks it, as long as the file is there that the event names."""
    if os.path.exists(event.json()):
        os._exit(1)
    return ["survived"]


def everything(event: SequencedEvent) -> list[str]:
    """What a rule sees of an event, as tags."""
    seen = (event.position, event.data, event.stream, event.subject, event.id, event.recorded_at)
    return [f"seen:{value}"[:200] for value in seen] + [
        f"meta:{name}={v}" for name, v in event.metadata.items()
    ]
