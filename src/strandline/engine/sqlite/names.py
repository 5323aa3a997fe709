"""Tags and types as small numbers. A number never changes its meaning, so what was found is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .connection import Connection
from .statements import sql

EVERY_EVENT = 0
MAX_KEPT = 200_000

_BY_TEXT = sql("name_by_text")
_BY_ID = sql("name_by_id")
_BY_TEXTS = sql("names_by_text")
_INSERT = sql("name_insert")

Find = Callable[[str], int | None]


class Names:
    """What is known of the table `name`, for all connections of a store."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._texts: dict[int, str] = {}

    def find(self, connection: Connection, text: str) -> int | None:
        """The number of a name, None if the log has never seen it."""
        known = self._ids.get(text)
        if known is None:
            for (known,) in connection.rows(_BY_TEXT, (text,)):
                self.keep(text, known)
        return known

    def learn(self, connection: Connection, texts: Iterable[str]) -> None:
        """Find the numbers of many names together; a statement for each costs more than to find it."""
        unknown = [text.encode() for text in texts if text not in self._ids]
        if unknown:
            for text, number in connection.rows(_BY_TEXTS, (unknown,)):
                self.keep(text, number)

    def text(self, connection: Connection, number: int) -> str:
        """The name of a number."""
        known = self._texts.get(number)
        if known is None:
            ((known,),) = connection.rows(_BY_ID, (number,))
            self.keep(known, number)
        return known

    def keep(self, text: str, number: int) -> None:
        """Remember a name that is committed."""
        if len(self._ids) >= MAX_KEPT:
            for old in list(self._ids)[: MAX_KEPT // 2]:  # at once: other threads keep names meanwhile
                its_number = self._ids.pop(old, None)
                if its_number is not None:
                    self._texts.pop(its_number, None)
        self._ids[text] = number
        self._texts[number] = text

    @property
    def ids(self) -> Mapping[str, int]:
        """The numbers that are known."""
        return self._ids


class Interning:
    """Names inside a write transaction: new ones are made, and kept once they are committed."""

    def __init__(self, names: Names, connection: Connection) -> None:
        self._names = names
        self.known = names.ids
        self._connection = connection
        self._new: dict[str, int] = {}

    def find(self, text: str) -> int | None:
        """The number of a name, if it has one."""
        new = self._new.get(text)
        return self._names.find(self._connection, text) if new is None else new

    def learn(self, texts: Iterable[str]) -> None:
        """See `Names.learn`; call it before new names are made."""
        self._names.learn(self._connection, texts)

    def intern(self, text: str) -> int:
        """The number of a name, a new one if need be."""
        number = self.known.get(text) or self.find(text)
        if number is None:
            ((number,),) = self._connection.rows(_INSERT, (text,))
            self._new[text] = number
        return number

    def committed(self) -> None:
        """The new names are in the log."""
        for text, number in self._new.items():
            self._names.keep(text, number)
        self._new.clear()

    def rolled_back(self) -> None:
        """The new names were never made."""
        self._new.clear()
