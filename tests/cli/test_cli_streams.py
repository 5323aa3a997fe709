"""What happens when the ends of the pipes are not what one hopes for."""

from __future__ import annotations

import subprocess
import time

import pytest


@pytest.mark.parametrize("arguments", [["read"], ["head"], ["stats"], ["tail", "--no-follow"]])
def test_a_full_disk_behind_stdout_is_an_error_without_traceback(command, school, arguments):
    name, *options = arguments
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [*command, name, school, *options], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (ran.returncode, ran.stderr) == (2, b"error: No space left on device\n")


def test_closed_streams_are_no_failure(command, school):
    for closing, code in ((">&-", 0), ("2>&-", 0)):
        script = f'"$@" {closing}'
        ran = subprocess.run(
            ["bash", "-c", script, "bash", *command, "head", school], capture_output=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (code, b"")


@pytest.mark.parametrize("arguments", [["A", "-"], ["--ndjson", "-"]])
def test_a_closed_stdin_is_one_clear_line_and_makes_no_store(command, tmp_path, arguments):
    ran = subprocess.run(
        ["bash", "-c", '"$@" <&-', "bash", *command, "append", "new.db", *arguments],
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(b"error: stdin is closed")
    assert list(tmp_path.iterdir()) == []


def test_an_ascii_terminal_shows_other_characters_escaped(process):
    assert process("append", "new.db", "Größe", '"ü"').code == 0
    ran = process("read", "new.db", "--type", "Nö", "--where", "{", PYTHONIOENCODING="ascii")
    assert ran.code == 2
    ran = process("head", "fehlt-ö.db", PYTHONIOENCODING="ascii")
    assert (ran.code, ran.out) == (2, "")
    assert "fehlt-\\xf6.db" in ran.err


def test_ctrl_c_ends_the_demo_soon_with_130(terminal):
    screen = terminal("demo", "--path", "demo.db", "--students", "50000", NO_COLOR="1")
    screen.wait_for("/200000")
    began = time.monotonic()
    screen.interrupt()
    ran = screen.finish()
    assert ran.code == 130
    assert time.monotonic() - began < 20
    assert "Traceback" not in ran.out


def test_the_path_may_be_a_url(cli, school, tmp_path):
    assert cli("head", f"sqlite:///{school}").rows == [{"head": 5}]
    assert cli("head", f"sqlite:////{str(tmp_path).lstrip('/')}/{school}").rows == [{"head": 5}]
