"""`python -m bench.page RUN.json`: write docs/performance.md and what belongs to it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .page import page

DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument("run", type=Path, help="the JSON file of a run")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where to write it (%(default)s)")
    options = parser.parse_args()
    run = json.loads(options.run.read_text())
    write(run, options.docs)
    print(options.docs / "performance.md")


def write(run: dict[str, Any], docs: Path) -> None:
    """The page, its charts, and the run without its single measurements."""
    run = run | {"measurements": [], "machine": _without_places(run["machine"])}
    text, charts = page(run)
    folder = docs / "performance"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for plot in charts:
        (folder / f"{plot.name}.svg").write_text(plot.svg)
    (folder / "run.json").write_text(json.dumps(run, indent=1) + "\n")
    (docs / "performance.md").write_text(text)


def _without_places(machine: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in machine.items() if name not in {"directory", "mounted_at"}}


if __name__ == "__main__":
    main()
