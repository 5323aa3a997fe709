"""The JSON file of a run: every measurement is added at once, so that a run can be continued."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .case import Case, RawCase
from .results import Measurement, Results

SAME = ("settings", "code")  # what must not change between the parts of a run


END = b"\n]}\n"


class Changed(Exception):
    """The file belongs to a run of something else."""


class RunFile:
    """The measurements so far, on the disk and here; `head` is what else there is to know."""

    def __init__(self, path: Path, head: dict[str, Any], cases: Sequence[Case | RawCase]) -> None:
        self.path = path
        self.head = head
        self.measurements: list[Measurement] = []
        self._cases = cases
        path.parent.mkdir(parents=True, exist_ok=True)

    def begin(self) -> None:
        """Write what is known before the first measurement of this part."""
        self._write(self.head)

    def go_on(self) -> None:
        """Take over what the file has, if there is one."""
        if not self.path.exists():
            return
        content = json.loads(self.path.read_text())
        head = json.loads(json.dumps(self.head))
        for name in SAME:
            if content[name] != head[name]:
                raise Changed(f"{self.path} is of a run with other {name}")
        for store in content["stores"].keys() & head["stores"].keys():
            if content["stores"][store] != head["stores"][store]:
                raise Changed(f"{self.path} is of a run with another {store}")
        known = map(Measurement.from_json, content["measurements"])
        self.measurements = [one for one in known if one.measured]  # what was absent is looked for again
        for name in ("machine", "stores"):
            self.head[name] = content[name] | self.head[name]
        self.head["started"], self.head["command"] = (
            content["started"],
            content["command"],
        )  # of which this is the rest

    @property
    def done(self) -> set[tuple[str, str, int]]:
        """What needs no measurement any more."""
        return {(one.case, one.store, one.round) for one in self.measurements if one.measured}

    @property
    def results(self) -> Results:
        return Results.of(self._cases, self.measurements)

    def add(self, measurement: Measurement) -> None:
        """Keep a measurement, whatever happens next."""
        comma = b",\n" if self.measurements else b"\n"
        self.measurements.append(measurement)
        with self.path.open("r+b") as file:
            file.seek(-len(END), os.SEEK_END)
            file.write(comma + json.dumps(asdict(measurement)).encode() + END)

    def finish(self) -> None:
        """Write everything there is to know about the run, as far as it came."""
        results = self.results
        self._write(
            {
                **self.head,
                "took_seconds": sum(one.took_seconds for one in self.measurements),
                "summaries": [asdict(summary) for summary in results.all],
                "absent": [
                    {"case": case, "store": store, "because": reason}
                    for (case, store), reason in results.absent.items()
                ],
                "goals": [asdict(verdict) for verdict in results.verdicts()],
            }
        )

    def _write(self, content: dict[str, Any]) -> None:
        """The measurements come last, so that more can be added at the end."""
        lines = ",\n".join(json.dumps(asdict(one)) for one in self.measurements)
        text = json.dumps({**content, "measurements": []}, indent=1).removesuffix("]\n}")
        beside = self.path.with_suffix(".part")
        beside.write_bytes(f"{text}\n{lines}".encode() + END)
        os.replace(beside, self.path)
