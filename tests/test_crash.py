"""A process that is killed while it writes loses nothing it acknowledged, and leaves nothing half done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from crash import Victim
from places import Place

KILLS = 30
KILLS_BESIDE_A_SERVER = 12  # where a writer needs longer to begin


def test_after_many_kills_every_acknowledged_append_is_there_and_none_is_half_there(kept: Place) -> None:
    victim = Victim(kept)
    kills = KILLS_BESIDE_A_SERVER if kept.is_in_database else KILLS
    for kill in range(kills):
        victim.kill_one()
        if kill % 6 == 5:
            victim.judge()
    assert victim.kills == kills
    assert len(victim.acknowledged) > kills // 4


def test_a_process_killed_while_it_creates_the_file_leaves_one_that_opens(tmp_path: Path) -> None:
    for attempt in range(8):
        path = tmp_path / f"log{attempt}.db"
        program = f"import strandline; print(flush=True); strandline.connect({str(path)!r})"
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        if attempt % 2:
            while not path.exists():
                pass
        process.kill()
        process.communicate()
        assert Victim(Place(path)).judge() == 1
