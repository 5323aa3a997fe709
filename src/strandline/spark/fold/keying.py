"""Which events belong to which keys, for a whole batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ...arrow import Raw
from ...domain.folding import Fold, keys_among
from ...event import split_tags
from .columns import SEPARATOR


class Keying(msgspec.Struct, frozen=True):
    """What tells which keys of a projection an event belongs to; all that those who read the log need to know of it."""

    types: Sequence[str]
    prefixes: Sequence[str]

    @classmethod
    def of(cls, fold: Fold) -> Keying:
        """What a fold says."""
        return cls(fold.types, fold.prefixes)

    def rows(self, raw: Raw, tags: pa.ListArray) -> tuple[pa.Array, pa.Array]:
        """The rows of the events that belong to a key, once for each that they belong to, and these keys as texts.

        `tags` are those of the events one by one.
        """
        is_handled = pc.is_in(raw["type"], value_set=pa.array(self.types, pa.string()))
        if not self.prefixes:
            rows = pc.indices_nonzero(is_handled)
            return rows, pa.repeat(pa.scalar("", pa.string()), len(rows))
        if len(self.prefixes) == 1:
            return self._rows_by_one(tags, is_handled, self.prefixes[0])
        found = [
            (row, SEPARATOR.join(key))
            for row in pc.indices_nonzero(is_handled).to_pylist()
            for key in keys_among(split_tags(raw["tags"][row].as_py()), self.prefixes)
        ]
        return pa.array([row for row, _ in found], pa.uint64()), pa.array(
            [key for _, key in found], pa.string()
        )

    @staticmethod
    def _rows_by_one(lists: pa.ListArray, is_handled: pa.Array, prefix: str) -> tuple[pa.Array, pa.Array]:
        """The same without a loop, for nearly all projections have one key field."""
        tags, rows = pc.list_flatten(lists), pc.list_parent_indices(lists)
        is_key = pc.and_(
            pc.and_(pc.starts_with(tags, prefix), pc.greater(pc.binary_length(tags), len(prefix.encode()))),
            pc.take(is_handled, rows),
        )
        return rows.filter(is_key), pc.utf8_slice_codeunits(tags.filter(is_key), len(prefix))


def buckets_of(keys: pa.Array, count: int) -> pa.Array:
    """The bucket of each key, the same in every process."""
    encoded = keys.dictionary_encode()
    numbers = [crc32(key) % count for key in encoded.dictionary.cast(pa.binary()).to_pylist()]
    return pa.array(numbers, pa.int32()).take(encoded.indices)
