"""The documentation is true: its code runs, its tables are the code's, its links lead somewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline import EventStore, errors
from strandline.testing.postgres import PostgresServer

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
INDEX = ROOT / "docs/README.md"
STORY = ROOT / "docs/tutorial.md"  # its blocks belong together: test_tutorial.py runs them


def blocks_of(page: Path) -> dict[str, str]:
    """The Python of a page, each block with its name."""
    blocks = [] if page == STORY else re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    return {f"{page.relative_to(ROOT)}-{number}": block for number, block in enumerate(blocks, 1)}


BLOCKS = {name: block for page in PAGES for name, block in blocks_of(page).items()}


def test_there_are_pages_with_code() -> None:
    assert len(PAGES) >= 8
    assert len(BLOCKS) >= 6


@pytest.fixture
def database(postgres_server: Callable[[str], PostgresServer]) -> Iterator[PostgresServer]:
    """A server as the pages assume it: a database `school`, an owner who is no superuser, and an application."""
    server = postgres_server("postgres18")
    for statement in (
        "create role owner login createdb",
        "create role app login",
        "create database school",
        "grant create on database school to owner",
    ):
        server.run(statement)
    yield server
    for name in ("school", "restored"):
        server.run(f"drop database if exists {name} with (force)")
    server.run("drop role owner; drop role app")


def here(text: str, server: PostgresServer) -> str:
    """The text of a page with this server's URLs."""
    place = f"127.0.0.1:{server.port}/"
    return text.replace("//localhost/", f"//postgres@{place}").replace("@localhost/", f"@{place}")


def run(block: str, name: str, module: str = "documentation") -> None:
    """Run a block; its name is in the traceback if it fails. Some libraries take the classes of a module only once."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        exec(compile(block, name, "exec", dont_inherit=True), {"__name__": module})
    finally:
        signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_code_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    block = BLOCKS[name]
    if "postgresql://" in block:
        block = here(block, request.getfixturevalue("database"))
    run(block, name)


def test_the_code_of_all_pages_runs_in_one_folder_page_after_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: PostgresServer
) -> None:
    monkeypatch.chdir(tmp_path)
    read = [page for page in dict.fromkeys([ROOT / "README.md", *links(INDEX)]) if page in PAGES]
    blocks = {name: block for page in read for name, block in blocks_of(page).items()}
    assert blocks.keys() == BLOCKS.keys()
    for name, block in blocks.items():
        run(here(block, database), name, "one_folder")


def test_the_commands_for_postgresql_run_and_say_what_the_page_says(
    tmp_path: Path, database: PostgresServer
) -> None:
    page = here((ROOT / "docs/postgresql.md").read_text(), database)
    lines = "".join(re.findall(r"```console\n(.*?)```", page, re.DOTALL)).splitlines()
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    assert len(commands) >= 15
    programs = (str(Path(sys.executable).parent), str(database.program("psql").parent), os.environ["PATH"])
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
        cwd=tmp_path,
        env={**os.environ, "PATH": os.pathsep.join(programs)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert {line for line in lines if not line.startswith("$ ")} <= set(ran.stdout.splitlines())


def links(page: Path) -> list[Path]:
    """Where the links of a page lead, those to other sites left out."""
    found = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text())
    return [(page.parent / link).resolve() for link in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_lead_somewhere(page: Path) -> None:
    assert [link for link in links(page) if not link.exists()] == []


def headings(page: Path) -> set[str]:
    """What links can name in a page, as GitHub makes it of the headings."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    lines = re.findall(r"^#+ (.*)$", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_lead_to_headings(page: Path) -> None:
    found = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]*)\)", page.read_text())
    targets = [((page.parent / link).resolve() if link else page, name) for link, name in found]
    assert [name for target, name in targets if name not in headings(target)] == []


def test_the_index_has_every_page() -> None:
    assert INDEX in links(ROOT / "README.md")
    missing = {*ROOT.glob("docs/**/*.md")} - {INDEX, *links(INDEX)}
    assert not missing, f"docs/README.md does not link to {sorted(map(str, missing))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_method_of_a_store_that_a_page_calls_exists(page: Path) -> None:
    called = set(re.findall(r"\bstore\.([a-z]\w*)\(", page.read_text()))
    assert {name for name in called if not hasattr(EventStore, name)} == set()


def test_the_table_of_errors_is_the_one_in_the_code() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| (\w+) \| (\d+) \| (\d+) \|",
        (ROOT / "docs/errors.md").read_text(),
        re.MULTILINE,
    )
    classes = [getattr(errors, name) for name in errors.__all__ if name != "StrandlineError"]
    assert rows == [(c.__name__, c.code, c.retry, str(c.status), str(c.exit_code)) for c in classes]


def test_the_explanation_names_the_test_of_every_hazard_and_no_other() -> None:
    tests = "".join(path.read_text() for path in ROOT.glob("tests/test_hazards*.py"))
    page = (ROOT / "docs/explanation.md").read_text()
    assert set(re.findall(r"`(test_\w+)`", page)) == set(re.findall(r"^def (test_\w+)", tests, re.MULTILINE))


def test_every_file_that_the_guarantees_name_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs/guarantees.md").read_text())
    assert len(named) >= 10
    for file, function in named:
        text = (ROOT / file).read_text()
        assert not function or f"def {function}" in text, f"{file} has no {function}"
