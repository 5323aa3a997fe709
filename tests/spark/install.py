"""Installs what is installed here into another environment: `pip install` without a package index.

`python install.py ENVIRONMENT REQUIREMENT…` copies the distributions that the requirements need. A folder's modules are
copied as they are.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

import strandline

OURS = ("strandline", "pyspark_strandline")
SOURCE = Path(strandline.__file__).parents[1]
NOT_COPIED = ("__pycache__", "*.c")


def main(environment: str, *wanted: str) -> None:
    (packages,) = Path(environment).glob("lib/python*/site-packages")
    folders = [name for name in wanted if name.startswith((".", "/"))]
    for found in needed(name for name in wanted if name not in folders):
        install(found, packages)
    for folder in folders:
        shutil.copytree(folder, packages, dirs_exist_ok=True)


def needed(requirements: Iterable[str]) -> Iterable[Distribution]:
    """The distributions that the requirements name, and those that these need."""
    found: dict[tuple[str, str], Distribution] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        installed = distribution(wanted.name)
        assert wanted.specifier.contains(installed.version), f"{wanted}, but {installed.version} is installed"
        for extra in {"", *wanted.extras}:
            if (wanted.name, extra) not in found:
                found[wanted.name, extra] = installed
                more = map(Requirement, installed.requires or ())
                waiting += [
                    one for one in more if one.marker is None or one.marker.evaluate({"extra": extra})
                ]
    return {each.name: each for each in found.values()}.values()


def install(found: Distribution, packages: Path) -> None:
    if found.name == "strandline":  # which may be an editable installation
        for name in OURS:
            ignored = shutil.ignore_patterns(*NOT_COPIED)
            shutil.copytree(SOURCE / name, packages / name, ignore=ignored)
        return
    for file in found.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)


if __name__ == "__main__":
    main(*sys.argv[1:])
