from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time

import strandline
from strandline import Event


def positions(ran):
    assert ran.code == 0, ran.err
    return [row["position"] for row in ran.rows]


def test_tail_shows_the_last_events_in_order(cli, school):
    assert positions(cli("tail", school, "--no-follow")) == [1, 2, 3, 4, 5]
    assert positions(cli("tail", school, "--no-follow", "-n", 2)) == [4, 5]
    assert positions(cli("tail", school, "--no-follow", "--lines", 0)) == []
    assert positions(cli("tail", school, "--no-follow", "--lines", 1, "--type", "CourseDefined")) == [2]
    assert positions(cli("tail", school, "--no-follow", "--after", 3)) == [4, 5]


def test_piped_lines_are_those_of_read(cli, school):
    assert cli("tail", school, "--no-follow").out == cli("read", school).out


def test_tail_follows_what_other_processes_write_until_ctrl_c(terminal, school):
    screen = terminal("tail", school, "--lines", "1", "--tag", "course:c1", NO_COLOR="1")
    screen.wait_for("waiting for events after position 5")
    with strandline.connect(school) as store:
        store.append(Event("CourseClosed", {"no": "match"}, tags=["course:c2"]))
        store.append(Event("CourseClosed", {"its": "end"}, tags=["course:c1"]))
    screen.wait_for('{"its":"end"}')
    screen.interrupt()
    ran = screen.finish()
    assert ran.code == 0
    assert "Traceback" not in ran.out
    assert "match" not in ran.out
    assert [line.split()[0] for line in ran.out.splitlines()[:2]] == ["position", "5"]


def test_piped_events_arrive_one_by_one(command, school):
    arguments = [*command, "tail", school, "--lines", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
        assert following.stdout
        assert following.stderr
        with strandline.connect(school) as store:
            seen = append_until_seen(store, following.stdout)
            last = store.append(Event("Last", {})).position
        rows = [json.loads(following.stdout.readline()) for _ in range(seen, last)]
        assert [row["position"] for row in rows] == list(range(seen + 1, last + 1))
        following.send_signal(signal.SIGINT)
        following.stdout.read()
        assert following.stderr.read() == b""
        assert following.wait(60) == 0


def append_until_seen(store, pipe):
    """The follower begins at the head it finds when it is ready, so events are written until it shows one."""
    for _ in range(600):
        store.append(Event("Tick", {}))
        if select.select([pipe], [], [], 0.1)[0]:
            return json.loads(pipe.readline())["position"]
    raise AssertionError("nothing arrived")


def test_ctrl_c_ends_other_commands_with_130(command, school):
    arguments = [*command, "append", school, "--ndjson", "-", "--chunk", "1"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
        assert waiting.stdin
        assert waiting.stderr
        waiting.stdin.write(b'{"type": "Tick", "data": {}}\n')
        waiting.stdin.flush()
        wait_until_open(waiting.pid, school)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(60) == 130
        assert waiting.stderr.read() == b""


def wait_until_open(pid, name):
    deadline = time.monotonic() + 60
    while not any(target.endswith(name) for target in open_files(pid)):
        assert time.monotonic() < deadline, f"{name} was never opened"
        time.sleep(0.01)


def open_files(pid):
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            yield os.readlink(f"/proc/{pid}/fd/{entry}")
