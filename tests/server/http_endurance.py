"""`python tests/server/http_endurance.py --seconds 600`: a server under load of every kind for as long as you like.

It prints a line every ten seconds: what the server says of itself in /metrics. With `--kills` the server is killed and
started again now and then. At the end the log is compared with what the clients noted, every condition is judged again, and
memory has to be flat. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import mean
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1]))

from http_clients import Traffic, traffic
from http_judging import Verdict, judge

from places import Place, new_log
from server_process import ServerProcess, server_process

LINE_SECONDS = 10.0
KILL_SECONDS = (15.0, 60.0)
MEMORY_GROWTH = 1.2
MEMORY_SLACK = 20_000_000


class Sample(NamedTuple):
    """What a server said of itself at some moment."""

    at: float
    memory: float
    head: float
    appends: float
    conflicts: float
    streams: float
    cpu: float


def sample(server: ServerProcess, begun: float) -> Sample:
    with urllib.request.urlopen(f"{server.place.url}/metrics", timeout=60) as answer:
        page = answer.read().decode()

    def value(name: str) -> float:
        found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.MULTILINE)
        return sum(map(float, found))

    return Sample(
        time.monotonic() - begun,
        value("process_resident_memory_bytes"),
        value("strandline_head"),
        value("strandline_appends_total"),
        value("strandline_conflicts_total"),
        value("strandline_live_streams"),
        value("process_cpu_seconds_total"),
    )


def endure(
    kept: Place, folder: Path, seconds: float, *, kills: bool, **settings: float
) -> tuple[Verdict, list[Sample]]:
    """Let clients work for so long, and judge what is there afterwards."""
    samples: list[Sample] = []
    chance = random.Random(0)
    with server_process(kept) as server:
        begun = time.monotonic()
        with traffic(server, folder, seconds=seconds, **settings) as clients:
            next_kill = begun + chance.uniform(*KILL_SECONDS) if kills else float("inf")
            while time.monotonic() < begun + seconds and not clients.has_ended:
                wait(clients, min(begun + seconds, next_kill, time.monotonic() + LINE_SECONDS))
                if time.monotonic() >= next_kill:
                    server.kill()
                    server.start_again()
                    next_kill = time.monotonic() + chance.uniform(*KILL_SECONDS)
                samples.append(sample(server, begun))
                tell(samples)
            clients.finish()
        server.stop()
    print("judging", flush=True)
    return judge(folder, kept, had_faults=kills, is_small=seconds < 60), samples


def wait(clients: Traffic, until: float) -> None:
    while time.monotonic() < until and not clients.has_ended:
        time.sleep(0.2)


def tell(samples: list[Sample]) -> None:
    last = samples[-1]
    before = samples[-2] if len(samples) > 1 else Sample(0, 0, 0, 0, 0, 0, 0)
    passed = last.at - before.at
    print(
        f"{last.at:6.0f} s  head {last.head:9,.0f}  appends/s {max(0, last.appends - before.appends) / passed:7,.0f}"
        f"  conflicts {last.conflicts:8,.0f}  streams {last.streams:3.0f}  cpu {(last.cpu - before.cpu) / passed:5.0%}"
        f"  memory {last.memory / 1e6:6.1f} MB",
        flush=True,
    )


def grows(samples: list[Sample]) -> bool:
    """Whether the server has more memory at the end than after its first third."""
    third = len(samples) // 3
    if third < 3:
        return False
    early = mean(each.memory for each in samples[third : 2 * third])
    late = mean(each.memory for each in samples[-third:])
    return late > early * MEMORY_GROWTH + MEMORY_SLACK


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--url", help="PostgreSQL; otherwise a new file")
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--writers", type=int, default=44)
    parser.add_argument("--watchers", type=int, default=16)
    parser.add_argument("--rude", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds that a writer rests at most")
    chosen = parser.parse_args()
    settings = {name: getattr(chosen, name) for name in ("writers", "watchers", "rude", "pause")}
    with tempfile.TemporaryDirectory() as folder:
        kept = new_log(chosen.url) if chosen.url else Place(Path(folder) / "load.db")
        notes = Path(folder) / "notes"
        notes.mkdir()
        verdict, samples = endure(kept, notes, chosen.seconds, kills=chosen.kills, **settings)
    print(verdict)
    if not chosen.kills and grows(samples):
        sys.exit("the memory of the server grows")


if __name__ == "__main__":
    main()
