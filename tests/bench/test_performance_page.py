"""docs/performance.md is what the generator makes of the committed run, and says what a run says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"


def generate(run: Path, docs: Path) -> None:
    command = [sys.executable, "-m", "bench.page", str(run), "--docs", str(docs)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)


def summary(case: str, store: str, median: float, **more: Any) -> dict[str, Any]:
    group, _, clients = case.partition(":")[0].partition("@")
    usual = {
        "group": group,
        "title": f"title of {case}",
        "unit": "decisions/s",
        "is_rate": True,
        "events": 100_000,
        "clients": int(clients) if clients.isdigit() else 1,
        "per_tag": 0,
        "min": median * 0.9,
        "max": median * 1.1,
        "p50_ms": 1000 / median,
        "p99_ms": 3000 / median,
        "max_ms": 9000 / median,
        "rounds": 3,
        "operations": 100,
        "foreign_cores": 0.0,
        "details": {},
    }
    return {"case": case, "store": store, "median": median, **usual, **more}


def small_run(*summaries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "command": "python -m bench",
        "started": "2026-01-02T03:04:05+00:00",
        "took_seconds": 200.0,
        "machine": {
            "cores": 2,
            "cpu": "a processor",
            "memory_mib": 2048,
            "kernel": "Linux",
            "file_system": "ext4",
            "python": "3.11",
            "sqlite": "3.54",
            "apsw": "3.54",
            "directory": "/somewhere",
            "mounted_at": "/",
        },
        "settings": {"events": 100_000, "is_full": False},
        "stores": {"umadb": {"version": "0.7.8", "durability": "it flushes"}},
        "summaries": list(summaries),
        "absent": [{"case": "scan", "store": "event-storage", "because": "node is not installed"}],
        "goals": [],
        "measurements": [],
        **more,
    }


def made_of(run: dict[str, Any], folder: Path) -> str:
    (folder / "run.json").write_text(json.dumps(run))
    generate(folder / "run.json", folder / "docs")
    return (folder / "docs/performance.md").read_text()


def test_the_page_in_the_repository_is_made_of_the_run_in_the_repository(tmp_path: Path) -> None:
    generate(DOCS / "performance/run.json", tmp_path)
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    committed = {path.relative_to(DOCS) for path in DOCS.glob("performance/*")} | {Path("performance.md")}
    assert made == committed, "run python -m bench.page docs/performance/run.json"
    for name in made:
        assert (tmp_path / name).read_text() == (DOCS / name).read_text(), name


def test_the_page_says_command_date_machine_and_what_is_missing(tmp_path: Path) -> None:
    page = made_of(small_run(summary("append@1", "umadb", 1000)), tmp_path)
    assert "`python -m bench` on 02 January 2026, the quick run, 3 min" in page
    assert "2 cores (a processor), 2 GiB" in page
    assert "| `scan` | event-storage | node is not installed |" in page
    assert "| umadb 0.7.8 | it flushes | not looked at |" in page
    assert "/somewhere" not in (tmp_path / "docs/performance/run.json").read_text()


def test_each_goal_has_floor_target_and_whether_it_is_reached(tmp_path: Path) -> None:
    page = made_of(
        small_run(
            summary("append@1", "strandline", 5000),
            summary("append@1", "umadb", 1000),
            summary("append@1", "umadb-fast", 2000),
            summary("scan", "strandline", 2000),
            summary("scan", "umadb", 1000),
            summary("stale", "strandline", 100),
            summary("stale", "umadb", 1),
        ),
        tmp_path,
    )
    assert "| `append@1` | strandline | 5000/s | 1000/s | 5× | 2.5× | 4× → 8× | floor |" in page
    assert "| `scan` | strandline | 2000/s | 1000/s | 2× |  | 2.5× → 3.5× | **below the floor** |" in page
    assert "3 goals that this run has the numbers for, 1 floors hold and 0 targets" in page
    below = page.partition("## Floors that are not reached")[2]
    assert "### `scan`, embedded\n\n`scan` on strandline: 2× (floor 2.5×)." in below
    assert "What would be needed" in below
    assert "### Not explained yet, embedded\n\n`stale` on strandline: 100× (floor 500×)." in below


def test_a_busy_machine_is_said_in_bold(tmp_path: Path) -> None:
    page = made_of(small_run(summary("append@1", "umadb", 1000, foreign_cores=1.5)), tmp_path)
    assert "**The machine was busy with other things meanwhile (1.5 cores on average)" in page


def test_charts_are_drawn_of_what_there_is(tmp_path: Path) -> None:
    made_of(
        small_run(
            *[summary(f"append@{clients}", "strandline", 100 * clients) for clients in (1, 8, 64)],
            *[summary(f"append@{clients}", "umadb", 50 * clients) for clients in (1, 64)],
            summary("append@1:1M", "strandline", 90, events=1_000_000),
            summary("tag-read@10", "umadb", 400, per_tag=10),
            summary("tag-read@1k", "umadb", 4, per_tag=1_000),
            summary("cycle@1", "umadb", 100),
        ),
        tmp_path,
    )
    charts = {path.stem: ET.fromstring(path.read_text()) for path in tmp_path.rglob("*.svg")}
    assert charts.keys() == {"clients-append-embedded", "size-append-embedded", "tag-read-embedded"}
    circles = charts["clients-append-embedded"].findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 5
    texts = {text.text for text in charts["clients-append-embedded"].iter("{http://www.w3.org/2000/svg}text")}
    assert {"strandline", "umadb", "clients at once", "64"} <= texts
    heights = [float(circle.attrib["cy"]) for circle in circles[:3]]
    assert heights == sorted(heights, reverse=True), "more is higher"
