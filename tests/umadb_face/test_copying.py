"""A log of UmaDB that was brought over is the same for UmaDB's clients."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import umadb
from faces import grpc_serving, umadb_serving

import strandline

SCRIPT = Path(__file__).parents[2] / "examples/from_umadb/copy_log.py"


def fill(client: umadb.Client) -> None:
    """Write a log with everything that UmaDB takes and Strandline can keep."""
    used, nil = uuid4(), UUID(int=0)
    plain = umadb.Event("Plain", b"\x00\xff", [], None, {})
    client.append([plain] * 1_500)
    client.append([umadb.Event("Tagged", b"{}", ["b", "a", "ü:中"], uuid4(), {"user": "ada", "": "x"})])
    client.append([umadb.Event("Nil", b"", ["a"], nil), umadb.Event("Nil", b"", ["a"], nil)])
    client.append([umadb.Event("Used", b"1", ["a"], used)])
    client.append([umadb.Event("Used", b"1", ["a"], used)])
    client.append([umadb.Event("Used", b"2", ["z", "a"], used), plain])
    for position in (3, 7):
        tracking = umadb.TrackingInfo("kafka", position)
        client.append(
            [umadb.Event("Tracked", b"t", ["k"], uuid4()), umadb.Event("Tracked", b"t")], None, tracking
        )
    client.append([umadb.Event("Last", b"")])
    client.append([], None, umadb.TrackingInfo("kafka", 9))
    client.append([], None, umadb.TrackingInfo("mail", 5))


def contents(client: umadb.Client) -> list[Any]:
    return [
        (
            each.position,
            each.event.event_type,
            bytes(each.event.data),
            each.event.tags,
            each.event.uuid,
            each.event.metadata,
            each.tracking_info,
        )
        for each in client.read()
    ]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(SCRIPT), *arguments]
    return subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=120, check=False)


def test_a_copied_log_is_the_same_for_umadbs_clients(tmp_path: Path) -> None:
    log = str(tmp_path / "log.db")
    with umadb_serving(tmp_path) as url:
        client = umadb.Client(url)
        fill(client)
        for _ in range(2):  # the second time there is nothing left to copy
            done = run(url, log, "mail")
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout == f"1,512 events are in {log}\n"
        client.append([umadb.Event("Later", b"")])
        assert run(url, log).returncode == 0
        expected = contents(client)
        tracked = [client.get_tracking_info(source) for source in ("kafka", "mail", "other")]
    with strandline.connect(log, create=False) as store, grpc_serving(store) as served:
        copied = contents(served.client())
        new = [each[4] for each in copied]
        assert [each[:4] + each[5:] for each in copied] == [each[:4] + each[5:] for each in expected]
        assert [new[n] for n, each in enumerate(expected) if each[4] is not None] == [
            each[4] for each in expected if each[4] is not None
        ]
        assert all(isinstance(uuid, UUID) for uuid in new)
        assert [served.client().get_tracking_info(source) for source in ("kafka", "mail", "other")] == tracked
        assert store.count() == len(expected) == served.client().head()


def test_an_event_that_cannot_be_kept_ends_the_copy_before_it(tmp_path: Path) -> None:
    with umadb_serving(tmp_path) as url:
        umadb.Client(url).append([umadb.Event("Fine", b""), umadb.Event("", b"")])
        done = run(url, str(tmp_path / "log.db"))
    assert done.returncode == 1
    assert done.stderr.startswith("event 2 cannot be copied: a type has 1 to 256 characters")


def test_a_target_with_other_events_is_noticed(tmp_path: Path) -> None:
    with umadb_serving(tmp_path) as url, strandline.connect(tmp_path / "log.db") as store:
        umadb.Client(url).append([umadb.Event("Fine", b"")] * 3)
        store.append(strandline.Event("Other", 1, id=uuid4()), tracking=("kafka", 17))
        client = umadb.Client(url)
        client.append([umadb.Event("Fine", b"")], None, umadb.TrackingInfo("kafka", 2))
        done = run(url, str(tmp_path / "log.db"))
    assert done.returncode == 1
    assert "kafka" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("http://127.0.0.1:1",)])
def test_without_arguments_it_says_how_it_is_called(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert "python copy_log.py http://127.0.0.1:50051 school.db" in done.stderr
