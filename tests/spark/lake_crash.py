"""Exports that end in the middle: a process for each step, which is over as soon as that step is passed.

Arguments: the log's URL and options, the format, a lake to start from, and a folder for the lakes that are left.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import deltalake  # noqa: F401  (so that each process need not)
from lake_story import SECOND
from local_jobs import export

from places import Place
from strandline.spark.lake import steps

KILLED = 42


os.fsync = lambda _: None  # what a process has written stays when it is killed; power cuts are another matter


def main(url: str, options: str, format: str, start: str, folder: str) -> None:
    place = Place(url, **json.loads(options))
    for number in range(1, 1_000):
        lake = Path(folder, f"{number:03d}")
        shutil.copytree(start, lake)
        child = os.fork()
        if child == 0:
            _export(place, lake, format, number)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != KILLED:
            sys.exit(os.waitstatus_to_exitcode(status))


def _export(place: Place, lake: Path, format: str, number: int) -> None:
    passed: list[str] = []

    def end(step: str) -> None:
        passed.append(step)
        if len(passed) == number:
            (lake.parent / f"{lake.name}.step").write_text(step)
            os._exit(KILLED)

    steps._listeners.append(end)
    export(place, lake, format, **SECOND)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
