"""The power fails at any moment: what was acknowledged is on the disk, and nothing is half there."""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from places import Place
from reliability.disk import Cut, Disk, checkpoints_often
from reliability.traffic import Writer, follow, judge, write_tasks
from tiny_segments import LIMITS

WRITERS, ROUNDS, TASKS = 3, 14, 4


def write_story(disk: Disk, place: Place, seed: int, rounds: int) -> None:
    """Threads and tasks write at the same time, through two stores; one of them is opened again in between."""
    tell = disk.acknowledge
    errors: list[BaseException] = []

    def in_thread(number: int) -> None:
        try:
            if number == WRITERS:
                writers = [Writer(f"{seed} task {task}", tell) for task in range(TASKS)]
                asyncio.run(write_tasks(place, writers, rounds // 2))
                return
            writer, rng = Writer(f"{seed} {number}", tell), random.Random(f"{seed} {number}")
            for half in range(2):
                with place.connect() as own:
                    for _ in range(rounds // 2):
                        writer.write(own if number else shared)
                        if rng.random() < 0.2:
                            follow(shared, f"f{number}", tell)
                if half:
                    follow(shared, f"f{number}", tell)
        except BaseException as error:
            errors.append(error)

    with place.connect() as shared:
        threads = [threading.Thread(target=in_thread, args=(number,)) for number in range(WRITERS + 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    with place.connect() as store:  # in a new write-ahead log
        writer = Writer(f"{seed} later", tell)
        for _ in range(rounds):
            writer.write(store)


def cut_and_judge(seed: int, rounds: int, cuts: int, folder: Path) -> None:
    """Write a story, then judge what is there after each of many power cuts."""
    (folder / "disk").mkdir()
    disk = Disk(folder / "disk")
    with disk.recording(), checkpoints_often():
        write_story(disk, Place(disk.folder / "log.db"), seed, rounds)
    for number, cut in enumerate(disk.cuts(seed, cuts)):
        try:
            disk_after = judge_after(cut, cut.acknowledged, folder)
            if number % 4 == 0:  # it fails again, while a store recovers
                for again in disk_after.cuts(seed + number, 1):
                    judge_after(again, cut.acknowledged, folder)
        except Exception as error:
            error.add_note(
                f"seed {seed}: the power fails before operation {cut.moment} of {len(disk.operations)}"
                f" ({cut.how}), after {len(cut.acknowledged)} acknowledgements"
            )
            raise


def judge_after(cut: Cut, acknowledged: Sequence[Any], folder: Path) -> Disk:
    """Open what is there after a cut, judge it, and return the disk on which that was done."""
    with tempfile.TemporaryDirectory(dir=folder) as after:
        cut.restore(Path(after))
        disk = Disk(Path(after))
        with disk.recording():
            judge(Place(Path(after) / "log.db"), acknowledged)
        return disk


@pytest.mark.parametrize("has_tiny_segments", [False, True])
def test_after_a_power_cut_everything_acknowledged_is_there_and_nothing_is_half_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_tiny_segments: bool
) -> None:
    for module, name, value in LIMITS if has_tiny_segments else ():
        monkeypatch.setattr(module, name, value)
    cut_and_judge(seed=1, rounds=ROUNDS, cuts=40, folder=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
def test_after_many_power_cuts_everything_acknowledged_is_there(tmp_path: Path, seed: int) -> None:
    cut_and_judge(seed, rounds=4 * ROUNDS, cuts=500, folder=tmp_path)
