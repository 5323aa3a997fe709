"""Events as messages for UmaDB's clients, in batches that they accept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...event import SequencedEvent
from .marks import GIVEN_ID, TAG_ORDER, in_order
from .messages import umadb

DEFAULT_BATCH = 1_024
LARGEST_BATCH = 4_096
MESSAGE_BYTES = 3 * 1024 * 1024
"""How large an answer with several events may become. Clients refuse those of more than 4 MiB."""
_OTHER_BYTES = 512


def batch_size_of(message: Any) -> int:
    """Return how many events an answer may have."""
    if not message.HasField("batch_size"):
        return DEFAULT_BATCH
    return int(min(max(message.batch_size, 1), LARGEST_BATCH))


class Packing:
    """Packs events into lists for one answer each: of `size` events, or fewer where they are large."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._events: list[SequencedEvent] = []
        self._left = MESSAGE_BYTES

    def add(self, events: Iterable[SequencedEvent]) -> Iterator[list[SequencedEvent]]:
        """Take events, and yield the lists that are full."""
        for event in events:
            needed = _bytes_of(event)
            if len(self._events) == self._size or (needed > self._left and self._events):
                yield self.rest()
            self._events.append(event)
            self._left -= needed

    def rest(self) -> list[SequencedEvent]:
        """Return the events that no list has yet."""
        events, self._events, self._left = self._events, [], MESSAGE_BYTES
        return events


def read_answer(events: Iterable[SequencedEvent], head: int | None) -> bytes:
    """Return an answer to a read."""
    answer = umadb.ReadResponse(head=head)
    _add(answer.events, events)
    return bytes(answer.SerializeToString())


def subscribe_answer(events: Iterable[SequencedEvent]) -> bytes:
    """Return an answer to a subscription."""
    answer = umadb.SubscribeResponse()
    _add(answer.events, events)
    return bytes(answer.SerializeToString())


def _add(messages: Any, events: Iterable[SequencedEvent]) -> None:
    for event in events:
        sequenced = messages.add()
        sequenced.position = event.position
        message = sequenced.event
        message.event_type = event.type
        message.data = event.data
        message.uuid = _text_of(event.raw_id)
        if event.raw_metadata is None:
            message.tags.extend(event.tags)
        else:
            _add_metadata(sequenced, event)


def _add_metadata(sequenced: Any, event: SequencedEvent) -> None:
    metadata = dict(event.metadata)
    sequenced.event.tags.extend(in_order(event.tags, metadata.pop(TAG_ORDER, None)))
    sequenced.event.uuid = metadata.pop(GIVEN_ID, sequenced.event.uuid)
    for name, value in metadata.items():
        sequenced.event.metadata.add(key=name, value=value)
    if event.tracking is not None:
        sequenced.tracking_info.source, sequenced.tracking_info.position = event.tracking


def _text_of(id: bytes) -> str:
    digits = id.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _bytes_of(event: SequencedEvent) -> int:
    """Return about how many bytes an event takes. It is never more."""
    return len(event.data) + len(event.raw_metadata or b"") + 4 * len(event.raw_tags) + _OTHER_BYTES
