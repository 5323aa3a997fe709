"""A projection as a row: a column for each field, and one for the values that columns would change."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from ...domain import codec
from ...domain.projection import Projection
from ...domain.shape import shape_of
from ...domain.snapshot import same
from ...errors import InvalidInput, StrandlineError
from .kinds import Dialect, Kind, kind_of

POSITION = "position"
EXACT = "exact_values"
LONGEST_IDENTIFIER = 63

_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_EXACT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def identifier(name: object, what: str, longest: int = LONGEST_IDENTIFIER) -> str:
    """The name, quoted, if it may be that of a table or column: the one place that lets names into SQL."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name) or len(name) > longest:
        raise InvalidInput(
            f"{name!r:.80} cannot be the name of a {what}",
            hint=f"use letters, digits and _, at most {longest}, a letter first: courses, open_orders",
        )
    return f'"{name}"'


class Column:
    """The column of a field: of its own type, or JSON."""

    def __init__(self, name: str, annotation: Any, kind: Kind | None, dialect: Dialect) -> None:
        self.name = name
        self.quoted = identifier(name, "column")
        self.kind = kind
        self._decoder = codec.decoder(annotation)
        json_type = "text" if dialect == "sqlite" else "json"
        self.type = json_type if kind is None else kind.sql
        self.is_cast = kind is None and dialect == "postgres"

    @property
    def selected(self) -> str:
        """How to ask for it: PostgreSQL would give JSON as objects."""
        return f"{self.quoted}::text" if self.is_cast else self.quoted

    def to_json(self, value: Any) -> bytes:
        """The value as JSON, if it can be read again as it was."""
        try:
            data = codec.encode(value)
            is_same = same(self._decoder.decode(data), value)
        except StrandlineError:
            raise
        except Exception as error:
            raise codec.no_json_form(value) from error
        if not is_same:
            raise codec.no_json_form(value)
        return data

    def from_json(self, data: bytes | str | msgspec.Raw) -> Any:
        """The value again."""
        return self._decoder.decode(data)


class Columns:
    """How states of a projection are written to rows and read from them."""

    def __init__(self, projection: type[Projection], dialect: Dialect) -> None:
        shape = shape_of(projection)
        self._projection = projection
        self.key = [identifier(name, "column") for name, _ in shape.key]
        self._kinds = shape.key
        names = [name for name, _, _ in shape.state]
        self.state = [
            Column(name, shape.fields[name], kind_of(shape.fields[name], dialect), dialect) for name in names
        ]
        refuse_clashes([name for name, _ in shape.key] + names, {POSITION, EXACT}, projection)
        self._field_count = len(shape.key) + len(names)

    @property
    def definitions(self) -> list[str]:
        """The columns of `create table`."""
        keys = [f"{name} text not null" for name in self.key]
        state = [f"{column.quoted} {column.type}" for column in self.state]
        return [*keys, *state, f'"{POSITION}" bigint not null', f'"{EXACT}" text']

    @property
    def names(self) -> list[str]:
        """All of them, quoted."""
        return [*self.key, *(column.quoted for column in self.state), f'"{POSITION}"', f'"{EXACT}"']

    @property
    def selected(self) -> str:
        """All of them, to be asked for."""
        names = [*self.key, *(column.selected for column in self.state), f'"{POSITION}"', f'"{EXACT}"']
        return ", ".join(names)

    def row(self, state: Projection, position: int) -> list[Any]:
        """A state as a row."""
        values = vars(state)
        if len(values) != self._field_count:
            raise codec.no_json_form(state)  # a handler has set what is no field: it would be lost
        row: list[Any] = [str.__str__(key) for key in state._key()]
        exact: dict[str, msgspec.Raw] = {}
        for column in self.state:
            value, kind = values[column.name], column.kind
            if kind is None:
                row.append(column.to_json(value).decode())
            elif value is None:
                row.append(None)
            elif kind.fits(value):
                row.append(kind.write(value))
            else:
                row.append(kind.near(value))
                exact[column.name] = msgspec.Raw(column.to_json(value))
        return [*row, position, codec.encode(exact).decode() if exact else None]

    def state_of(self, row: Sequence[Any]) -> tuple[Projection, int]:
        """The state that was written, and its position."""
        state = object.__new__(self._projection)
        values, count = state.__dict__, len(self.key)
        for (name, kind), value in zip(self._kinds, row, strict=False):
            values[name] = kind(value)
        exact = _EXACT.decode(row[-1]) if row[-1] else {}
        for column, raw in zip(self.state, row[count:], strict=False):
            if column.name in exact:
                values[column.name] = column.from_json(exact[column.name])
            elif column.kind is None:
                values[column.name] = column.from_json(raw)
            else:
                values[column.name] = None if raw is None else column.kind.read(raw)
        return state, row[-2]


def refuse_clashes(names: Iterable[str], own: Collection[str], projection: type[Projection]) -> None:
    """Refuse fields with the name of a column that the table has of its own, or of each other."""
    taken = {*own}
    for name in names:
        if name.lower() in taken:
            raise InvalidInput(
                f"{projection.__name__}.{name} has the name of another column",
                hint=f"a table has {' and '.join(sorted(own, reverse=True))} of its own, and SQL does not tell A"
                " from a: rename the field",
            )
        taken.add(name.lower())
