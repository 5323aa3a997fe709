"""Types are worked out once, also if several threads are the first to use them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_several_threads_may_be_the_first_to_use_a_class() -> None:
    script = Path(__file__).with_name("first_use.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_several_threads_may_be_the_first_to_read_a_retag() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.setswitchinterval(1e-6)\n"
        "from first_use import at_once\n"
        "from strandline import Event, SequencedEvent\n"
        "from strandline.retag import Change, changes_of, retag_events\n"
        "(event,) = retag_events([Change(1, ('a',), ('b',))])\n"
        "at_once(lambda: changes_of(SequencedEvent.of(event, 2, 0)))\n"
    )
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", script, str(Path(__file__).parent)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
