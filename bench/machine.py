"""The machine that was measured, and what else it was doing."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw

import strandline

MIB = 1 << 20
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def describe(directory: Path) -> dict[str, Any]:
    """Cores, memory, versions, and the file system the stores are on."""
    mount, kind = _file_system(directory)
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_name(),
        "memory_mib": _PAGE * os.sysconf("SC_PHYS_PAGES") // MIB,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "directory": str(directory),
        "file_system": kind,
        "mounted_at": mount,
        "load_average": os.getloadavg(),
    }


def code_digest() -> str:
    """Tells the code that is measured from any other."""
    digest, root = hashlib.sha256(), Path(strandline.__file__).parent
    for path in sorted(path for path in root.rglob("*") if path.suffix in {".py", ".pyx", ".sql"}):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def resident_bytes(process: int | str) -> int:
    """Resident memory of a process, by pid or `self`."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE


def descendants_with(text: str) -> list[int]:
    """The processes that this one has started, or they in turn, whose command line has this text."""
    found = []
    for process in _family(os.getpid(), _processes()):
        try:
            if text.encode() in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
        except OSError:  # it has just ended
            continue
    return found


def disk_bytes(directory: Path) -> dict[str, int]:
    """The files of a store: their length, what is allocated for them, and the blocks with content.

    A store that allocates ahead has blocks of zeros at the end, which say nothing about its events.
    """
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {
        "bytes": sum(_used_bytes(path) for path in files),
        "length": sum(path.stat().st_size for path in files),
        "allocated": sum(path.stat().st_blocks * 512 for path in files),
    }


class ForeignLoad:
    """How many cores were busy with something that is neither this process nor a descendant of it."""

    def __init__(self) -> None:
        self._own = _seconds_of_each(os.getpid())
        self._busy, self._began = _busy_seconds(), perf_counter()

    def cores(self) -> float:
        """The average since the beginning; call it while the servers still run."""
        busy, passed = _busy_seconds() - self._busy, perf_counter() - self._began
        # What one that has ended took before is no work of others, although it is nobody's now.
        own = sum(taken - self._own.get(pid, 0.0) for pid, taken in _seconds_of_each(os.getpid()).items())
        return min(max(0.0, (busy - own) / passed), os.cpu_count() or 1) if passed else 0.0


def _busy_seconds() -> float:
    user, nice, system, _idle, _wait, irq, soft_irq, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + soft_irq) / _TICKS


def own_seconds(pid: int) -> float:
    """CPU seconds of a process and its descendants; those that ended are in the figures of their parents."""
    return sum(_seconds_of_each(pid).values())


def _seconds_of_each(pid: int) -> dict[int, float]:
    processes = _processes()
    return {process: processes[process][1] for process in _family(pid, processes) if process in processes}


def _processes() -> dict[int, tuple[int, float]]:
    """All processes: their parents, and the CPU seconds that they took."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        found[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)
    return found


def _family(pid: int, processes: dict[int, tuple[int, float]]) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for process, (parent, _) in processes.items():
        children.setdefault(parent, []).append(process)
    family = [pid]
    for process in family:
        family += children.get(process, ())
    return family


def _cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )


def _file_system(directory: Path) -> tuple[str, str]:
    here = directory.resolve()
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    mount, kind = max((m for m in mounts if here.is_relative_to(m[0])), key=lambda m: len(m[0]))
    return mount, kind


def _used_bytes(path: Path) -> int:
    zeros = bytes(_PAGE)
    with path.open("rb") as file:
        return sum(len(block) for block in iter(lambda: file.read(_PAGE), b"") if block != zeros)
