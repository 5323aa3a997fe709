"""Small programs that stand before another one, for as long as this process lives."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache


def wrapper(name: str, text: str) -> str:
    """The path of a program `bin/<name>` in a folder of our own; a new text takes the place of the old."""
    path = os.path.join(_folder(name), "bin", name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o700)
    return path


@cache
def _folder(name: str) -> str:
    folder = tempfile.mkdtemp(prefix=f"strandline-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.mkdir(os.path.join(folder, "bin"))
    return folder
