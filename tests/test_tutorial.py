"""The tutorial is a story: its files are written, its commands run in order, and say what the page says."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs/tutorial.md"
BLOCK = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)
VARIES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d+\.\d+s")  # when it ran, and how long
UNWANTED = {"COLUMNS", "FORCE_COLOR", "STRANDLINE_URL", "STRANDLINE_LOG", "PYTEST_ADDOPTS"}
COLUMNS = 115


def on_a_terminal(command: str, folder: Path) -> str:
    """What a person sees who types the command; what goes to stderr is shown if it fails."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    environment |= {"PATH": programs, "NO_COLOR": "1", "TERM": "xterm"}
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=subprocess.PIPE,
    )
    os.close(terminal)
    screen = b""
    with os.fdopen(master, "rb", buffering=0) as lines:
        try:
            while data := lines.read(65536):
                screen += data
        except OSError:  # Linux says so when the other side is closed
            pass
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, f"{command}\n{screen.decode()}{errors.decode()}"
    return screen.decode().replace("\r\n", "\n")


def write(block: str, folder: Path) -> str:
    """Write the file that a block is, or is a part of; returns its name."""
    heading, _, code = block.partition("\n")
    found = re.fullmatch(r"# (\w+\.py)(, continued)?", heading)
    assert found, f"the block does not say which file it is: {heading}"
    with (folder / found[1]).open("a" if found[2] else "x") as file:
        file.write(f"\n\n{code}" if found[2] else block)
    return found[1]


def lasting(lines: list[str]) -> list[str]:
    """The lines without what differs from run to run."""
    return [VARIES.sub("…", line).rstrip() for line in lines]


def test_the_tutorial_runs_and_says_what_the_page_says(tmp_path: Path) -> None:
    files: set[str] = set()
    commands = []
    for kind, block in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            files.add(write(block, tmp_path))
            continue
        for step in block.removeprefix("$ ").split("\n$ "):
            command, *expected = step.rstrip("\n").split("\n")
            commands.append(command)
            screen = on_a_terminal(command, tmp_path)
            assert lasting(screen.splitlines()) == lasting(expected), screen
    assert len(commands) >= 10
    assert all(any(name.removesuffix(".py") in command for command in commands) for name in files)
