"""Many decisions at once about one thing, from several processes: with the default of attempts nobody gives up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from newest import kept
from paying import Invoiced
from places import Place

place = kept
PAYMENTS = (17, 17, 16)


def test_fifty_payments_at_once_on_one_series_all_succeed(place: Place) -> None:
    place.connect().close()
    log = place.options.get("log", "default")
    program = [sys.executable, str(Path(__file__).parent / "paying.py"), str(place.url), log]
    processes = [
        subprocess.Popen([*program, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for count in PAYMENTS
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [len(answer) for answer in answers] == [*PAYMENTS]
    assert any(int(attempts) > 1 for answer in answers for attempts in answer)
    with place.connect() as store:
        numbers = [event.decode(Invoiced).number for event in store.read()]
    assert numbers == [*range(1, 51)]
