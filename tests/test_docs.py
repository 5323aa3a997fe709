"""The documentation is true: its code runs, its tables are the code's, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strandline import errors

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1)
]


def test_there_are_pages_with_code() -> None:
    assert len(PAGES) >= 8
    assert len(BLOCKS) >= 6


@pytest.mark.parametrize("block", BLOCKS)
def test_the_code_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "block", "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_table_of_errors_is_the_one_in_the_code() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| (\w+) \| (\d+) \| (\d+) \|",
        (ROOT / "docs/errors.md").read_text(),
        re.MULTILINE,
    )
    classes = [getattr(errors, name) for name in errors.__all__ if name != "StrandlineError"]
    assert rows == [(c.__name__, c.code, c.retry, str(c.status), str(c.exit_code)) for c in classes]


def test_every_file_that_the_guarantees_name_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs/guarantees.md").read_text())
    assert len(named) >= 10
    for file, function in named:
        text = (ROOT / file).read_text()
        assert not function or f"def {function}" in text, f"{file} has no {function}"
