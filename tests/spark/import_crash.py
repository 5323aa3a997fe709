"""Appends staged events in a process that kills itself: `python import_crash.py PIECES URL OPTIONS WHEN NUMBER`.

WHEN is `before` or `after` the commit of the append with that NUMBER.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
from staging import events_in

import strandline
from strandline.spark.importing.appending import append_in_order
from strandline.spark.importing.origin import origins
from strandline.spark.staging.piece import Piece


def main(pieces_file: str, url: str, options: str, when: str, number: str) -> None:
    pieces = msgspec.json.decode(Path(pieces_file).read_bytes(), type=list[Piece])
    with strandline.connect(url, **json.loads(options)) as store:
        append, calls = store.engine.append, iter(range(1, 1_000_000))

        def deadly(batch: Any) -> Any:
            is_last = next(calls) == int(number)
            if is_last and when == "before":
                die()
            outcomes = append(batch)
            if is_last:
                die()
            return outcomes

        store.engine.append = deadly  # type: ignore[method-assign]
        total = sum(piece.staged for piece in pieces)
        append_in_order(store, lambda: events_in(origins(pieces, None)), total)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
