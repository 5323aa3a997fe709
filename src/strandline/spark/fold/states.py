"""States as rows of a DataFrame: the key, the fields of the projection, and the position of the last event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...domain.projection import Projection
from ...domain.shape import shape_of
from ...errors import InvalidInput
from ...follow.models.columns import POSITION, refuse_clashes
from ..types import SparkType, spark_type, struct_ddl
from .passing import Folded


class StateColumns:
    """The columns of a projection's states."""

    def __init__(self, projection: type[Projection]) -> None:
        shape, name = shape_of(projection), projection.__name__
        refuse_clashes(shape.fields, {POSITION}, projection)
        names = [*(key for key, _ in shape.key), *(field for field, _, _ in shape.state)]
        self._fields = [(field, spark_type(shape.fields[field], f"{name}.{field}")) for field in names]

    @property
    def ddl(self) -> str:
        """The schema, as SQL writes it."""
        return f"{struct_ddl(self._fields)}, {POSITION} BIGINT"

    def batch(self, folded: Sequence[Folded]) -> pa.RecordBatch:
        """States as rows."""
        states = [vars(one.state) for one in folded]
        arrays = [self._array(folded, name, kind, states) for name, kind in self._fields]
        arrays.append(pa.array([one.position for one in folded], pa.int64()))
        return pa.RecordBatch.from_arrays(arrays, names=[*(name for name, _ in self._fields), POSITION])

    @staticmethod
    def _array(
        folded: Sequence[Folded], name: str, kind: SparkType, states: Sequence[dict[str, Any]]
    ) -> pa.Array:
        try:
            return kind.array([state[name] for state in states])
        except Exception:
            for one in folded:
                _check(one.state, name, kind)
            raise


def _check(state: Projection, name: str, kind: SparkType) -> None:
    value = vars(state)[name]
    try:
        kind.array([value])
    except Exception as error:
        key = ", ".join(map(repr, map(str.__str__, state._key())))
        raise InvalidInput(
            f"{type(state).__name__}({key}).{name} is {value!r:.80}, which is no {kind.ddl}: {error}",
            hint="let the handlers keep what the annotation says, or annotate the field with what they keep",
        ) from error
