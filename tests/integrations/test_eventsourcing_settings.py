"""The settings, the closing, and what happens without the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from eventsourcing.dcb.api import DCBEvent
from eventsourcing.dcb.persistence import DCBInfrastructureFactory
from eventsourcing.persistence import (
    InfrastructureFactory,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from logs import MAPPER, MODULE
from school import School

import strandline
from strandline.integrations.eventsourcing import Factory, factory


def test_one_setting_chooses_the_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (MODULE | MAPPER | {"STRANDLINE_URL": str(tmp_path / "school.db")}).items():
        monkeypatch.setenv(name, value)
    with School() as school:
        assert isinstance(school.factory, Factory)
        school.open("algebra", seats=1)
    with strandline.connect(tmp_path / "school.db", create=False) as store:
        (event,) = store.read()
    assert (event.type, event.tags) == ("school:CourseOpened", ("course:algebra",))


@pytest.mark.parametrize("kind", [DCBInfrastructureFactory, InfrastructureFactory])
def test_their_library_finds_the_factory(kind: type) -> None:
    assert type(kind.construct(MODULE)) is Factory


def test_a_setting_with_the_name_of_the_application_wins(tmp_path: Path) -> None:
    urls = {"STRANDLINE_URL": str(tmp_path / "all.db"), "SCHOOL_STRANDLINE_URL": str(tmp_path / "school.db")}
    with School(MODULE | MAPPER | urls) as school:
        school.open("algebra", seats=1)
    assert {path.name for path in tmp_path.glob("*.db")} == {"school.db"}


@pytest.mark.parametrize("url", [{}, {"STRANDLINE_URL": ""}])
def test_a_missing_url_is_a_clear_error(url: dict[str, str]) -> None:
    with pytest.raises(OSError, match="set SCHOOL_STRANDLINE_URL or STRANDLINE_URL to a file"):
        School(MODULE | MAPPER | url)


def test_an_impossible_url_is_a_clear_error() -> None:
    with pytest.raises(ProgrammingError, match="gopher"):
        School(MODULE | MAPPER | {"STRANDLINE_URL": "gopher://x"})


def test_a_file_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(OperationalError):
        School(MODULE | MAPPER | {"STRANDLINE_URL": str(tmp_path / "no" / "school.db")})


@pytest.mark.parametrize(
    ("log", "options"), [({}, {}), ({"STRANDLINE_LOG": ""}, {}), ({"STRANDLINE_LOG": "a"}, {"log": "a"})]
)
def test_the_log_is_named_only_if_it_is_set(
    monkeypatch: pytest.MonkeyPatch, log: dict[str, str], options: dict[str, str]
) -> None:
    asked = []

    def connect(url: str, **options: str) -> strandline.EventStore:
        asked.append((url, options))
        return strandline.connect("memory:")

    monkeypatch.setattr(factory, "connect", connect)
    with School(MODULE | MAPPER | {"STRANDLINE_URL": "postgresql://"} | log):
        assert asked == [("postgresql://", options)]


def test_a_missing_driver_is_said_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(url: str) -> strandline.EventStore:
        raise strandline.MissingDependency("no driver", hint="pip install 'strandline[postgres]'")

    monkeypatch.setattr(factory, "connect", connect)
    with pytest.raises(strandline.MissingDependency):
        School(MODULE | MAPPER | {"STRANDLINE_URL": "postgresql://"})


def test_the_recorders_of_a_factory_share_a_log(settings: dict[str, str]) -> None:
    factory = Factory(settings)
    first, second = factory.dcb_recorder(), factory.dcb_recorder()
    first.append([DCBEvent("A", b"")])
    assert second.read().head == 1
    factory.close()


def test_closing_closes_the_store_and_again_is_harmless(settings: dict[str, str]) -> None:
    school = School(settings)
    recorder = school.recorder
    school.close()
    school.close()
    for use in (
        lambda: recorder.append([DCBEvent("A", b"")]),
        recorder.read,
        recorder.subscribe,
        lambda: school.open("algebra", seats=1),
    ):
        with pytest.raises(InterfaceError, match="closed"):
            use()


def test_a_factory_that_made_nothing_opens_no_file(tmp_path: Path) -> None:
    Factory({"STRANDLINE_URL": str(tmp_path / "school.db")}).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["aggregate_recorder", "application_recorder", "process_recorder"])
def test_aggregates_are_refused_with_the_setting_to_change(name: str) -> None:
    factory = InfrastructureFactory.construct(MODULE)
    factory.env.name = "Bank"
    with pytest.raises(NotSupportedError, match=r"set BANK_PERSISTENCE_MODULE to .* eventsourcing\.sqlite"):
        getattr(factory, name)()


def run(program: str, *path: str) -> str:
    paths = os.pathsep.join([*path, *filter(None, sys.path)])
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, capture_output=True, check=True, text=True, env={"PYTHONPATH": paths}
    ).stdout


REPORT = """
try:
    import strandline.integrations.eventsourcing
except ImportError as error:
    print(type(error).__name__, error, error.hint, sep="|")
"""


def test_without_the_package_the_error_says_what_to_install() -> None:
    kind, message, hint = run(f"import sys; sys.modules['eventsourcing'] = None\n{REPORT}").split("|")
    assert kind == "MissingDependency"
    assert "needs the package eventsourcing, version 9.5" in message
    assert hint == "pip install 'strandline[eventsourcing]'\n"


def test_another_version_of_the_package_is_named_too(tmp_path: Path) -> None:
    package = tmp_path / "eventsourcing"
    package.mkdir()
    (package / "__init__.py").write_text("")
    kind, message, _ = run(REPORT, str(tmp_path)).split("|")
    assert kind == "MissingDependency"
    assert "eventsourcing.dcb" in message
