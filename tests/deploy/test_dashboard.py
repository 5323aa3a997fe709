"""The Grafana dashboard names metrics and labels that exist, shows all of ours, and its panels do not overlap."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import strandline
from strandline.server.scrape import METRICS

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel.get("targets", ())]
VARIABLES = [each["definition"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
SUFFIX = re.compile(r"_(bucket|sum|count)$")


def metrics_in(text: str) -> list[str]:
    return [SUFFIX.sub("", name) for name in re.findall(r"\b(?:strandline|process)_\w+", text)]


def documented() -> dict[str, set[str]]:
    """Every metric with its labels, as the page has them; tests/server/test_metrics.py holds the page to the server."""
    rows = re.findall(
        r"^\| `(\w+)` \| \w+ \|([^|]*)\|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
    )
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}


def test_every_metric_and_label_in_it_exists() -> None:
    labels_of = documented()
    assert len(QUERIES) > 20
    for text in [*QUERIES, *VARIABLES]:
        names = metrics_in(text)
        assert names
        assert {*names} <= labels_of.keys(), text
        known = {"le", "instance", *set.union(*(labels_of[name] for name in names))}
        groups = re.findall(r"by \(([^)]*)\)", text)
        used = {label.strip() for group in groups for label in group.split(",")}
        assert used | {*re.findall(r"(\w+)=~?\"", text)} <= known, text


def test_it_shows_every_metric_of_ours() -> None:
    shown = {name for text in QUERIES for name in metrics_in(text)}
    assert {metric.name for metric in METRICS} <= shown


def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel in PANELS:
        for target in panel.get("targets", ()):
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            kept = {
                label.strip()
                for group in re.findall(r"by \(([^)]*)\)", target["expr"])
                for label in group.split(",")
            }
            assert named <= kept | {"instance"}, target


def test_panels_are_complete_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["type"] in {"row", "stat", "timeseries", "table"}
        assert panel["title"]
        references = [target["refId"] for target in panel.get("targets", ())]
        assert len({*references}) == len(references)
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above


@pytest.mark.long
def test_prometheus_understands_every_query_and_the_metrics(tmp_path: Path) -> None:
    assert shutil.which("promtool"), "promtool is not installed: apt-get install prometheus"
    filled = [
        query.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$log", ".*")
        for query in QUERIES
    ]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(filled)]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    subprocess.run(["promtool", "check", "rules", file], check=True, capture_output=True)
    with strandline.connect("memory:") as store:
        page = _page(store)
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def _page(store: strandline.EventStore) -> bytes:
    from serving import serving

    from strandline.server import app

    with serving(app(store)) as client:
        client.post("events", {"events": [{"type": "A", "data": {}}]})
        return client.get("/metrics").body
