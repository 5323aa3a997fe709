"""Copying a log while it is in use."""

from __future__ import annotations

import contextlib
import os

import apsw

from ...errors import InvalidInput
from ..reports import BackupReport, Progress
from .connection import READER_CACHE_KIB, Connection, check_file, create_file, translated
from .schema import check_version, version_of
from .statements import sql

PAGES_PER_STEP = 1_000
_HEAD = sql("head")


def backup(path: str, target: str, progress: Progress | None) -> BackupReport:
    """Copy the log at `path` to the new file `target`."""
    check_file(path, create=False)
    if os.path.exists(target):
        raise InvalidInput(f"{target} exists already", hint="name a new file, or remove the old one first")
    check_file(target, create=True)
    unfinished = f"{target}.unfinished"
    try:
        with translated(target):
            head = _copy(path, unfinished, progress)
            _publish(unfinished, target)
    finally:
        with contextlib.suppress(OSError):  # the copy, or what kept it from being made, is what counts
            os.remove(unfinished)
    return BackupReport(os.path.abspath(target), head, os.path.getsize(target))


def _copy(path: str, unfinished: str, progress: Progress | None) -> int:
    source = Connection(path, cache_kib=READER_CACHE_KIB)
    try:
        check_version(version_of(source, path), path)
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)
        create_file(unfinished)
        # One read transaction around all steps: a writer would make the copy start again and again.
        with source.snapshot():
            rows = source.execute(_HEAD)
            _copy_pages(source, unfinished, progress)
    finally:
        source.close()
    return int(rows[0][0]) if rows else 0


def _copy_pages(source: Connection, unfinished: str, progress: Progress | None) -> None:
    copy = apsw.Connection(unfinished, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        with copy.backup("main", source.database, "main") as steps:
            while not steps.done:
                steps.step(PAGES_PER_STEP)
                if progress is not None:
                    progress(steps.page_count - steps.remaining, steps.page_count)
    finally:
        copy.close()


def _publish(unfinished: str, target: str) -> None:
    """Give the finished copy its name, unless a file of that name has appeared meanwhile."""
    try:
        os.link(unfinished, target)
    except FileExistsError as error:
        raise InvalidInput(f"{target} exists already", hint="name a new file") from error
    folder = os.open(os.path.dirname(os.path.abspath(target)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
