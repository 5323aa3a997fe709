"""The machine: Python, disk and file system."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from ..screen import size
from .finding import Finding, State, judged

OLDEST_PYTHON = (3, 11)
LITTLE_SPACE = 1024**3
TOO_LITTLE_SPACE = 100 * 1024**2
MOUNTS = Path("/proc/self/mountinfo")
NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"orangefs", "smb3", "smbfs", "vboxsf"}
    | {"fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
)


def machine_findings(folder: Path | None) -> Iterator[Finding]:
    """Python, and the disk that the folder is on."""
    wanted = ".".join(map(str, OLDEST_PYTHON))
    yield judged(
        "python",
        f"{platform.python_version()} (needs {wanted} or newer)",
        f"install Python {wanted} or newer",
        good=sys.version_info[:2] >= OLDEST_PYTHON,
    )
    if folder is None:
        return
    yield disk_finding(folder, shutil.disk_usage(folder).free)
    yield file_system_finding(folder, file_system(folder))


def disk_finding(folder: Path, free: int) -> Finding:
    """Whether there is room for a log to grow."""
    found = f"{size(free)} free in {folder}"
    fix = f"make room in {folder}, or keep the store on another disk"
    worse: State = "bad" if free < TOO_LITTLE_SPACE else "warning"
    return judged("disk", found, fix, good=free >= LITTLE_SPACE, otherwise=worse)


def file_system_finding(folder: Path, kind: str) -> Finding:
    """Whether locks and syncs can be trusted there."""
    found = f"{kind or 'unknown'} in {folder}"
    fix = "keep the store on a local disk: file locks and syncs over a network are not dependable"
    return judged("file system", found, fix, good=kind not in NETWORK_FILE_SYSTEMS, otherwise="warning")


def file_system(folder: Path, mounts: Path = MOUNTS) -> str:
    """The type of the file system a folder is on, empty if this system does not tell."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    resolved = folder.resolve()
    found = [entry for entry in map(_mount, lines) if resolved.is_relative_to(entry[0])]
    return max(found, key=lambda entry: len(entry[0].parts), default=(resolved, ""))[1]


def _mount(line: str) -> tuple[Path, str]:
    # The fields of proc(5): the fifth is the mount point, the type follows a lone dash.
    before, _, after = line.partition(" - ")
    point = before.split(" ")[4].replace("\\040", " ")
    return Path(point), after.split(" ", 1)[0]
