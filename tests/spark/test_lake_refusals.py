"""What cannot be right is refused with one clear line, and changes nothing."""

from __future__ import annotations

import fcntl
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from lake_story import FIRST, begin, go_on
from lakes import equals_log
from local_jobs import export

from places import Place
from strandline import Event
from strandline.errors import (
    InvalidInput,
    MissingDependency,
    NotFound,
    SchemaMismatch,
    StrandlineError,
    Unavailable,
)
from strandline.spark import lake_files
from strandline.spark.lake.folder import LOCK, MANIFEST


@pytest.fixture
def log(tmp_path: Path) -> Place:
    place = Place(tmp_path / "log.db")
    begin(place)
    return place


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def files_of(lake: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in lake.rglob("*") if path.is_file()}


def refused(log: Place, lake: Path | str, says: str, **options: Any) -> StrandlineError:
    """The export is refused in these words, with a hint, and nothing is written."""
    before = files_of(Path(lake))
    with pytest.raises(StrandlineError, match=says) as caught:
        export(log, lake, **options)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    after = files_of(Path(lake))
    after.pop(str(Path(lake) / LOCK), None)
    before.pop(str(Path(lake) / LOCK), None)
    assert after == before
    return caught.value


def test_the_lake_of_another_log(log: Place, lake: Path, tmp_path: Path):
    export(log, lake)
    other = Place(tmp_path / "other.db")
    begin(other)

    refused(other, lake, "was reached in the log .* and this is")


def test_the_lake_of_a_log_that_was_restored(log: Place, lake: Path, tmp_path: Path):
    shutil.copy(log.url, tmp_path / "backup.db")
    go_on(log)
    export(log, lake)
    restored = Place(tmp_path / "backup.db")
    refused(restored, lake, "the log ends at 13 now: an older state was restored")
    with restored.connect() as store:
        store.append([Event("Other", {})] * 1)
        store.append([Event("Other", {"n": n}) for n in range(40)])

    refused(restored, lake, "is not the one that was there before")


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_lake_that_lacks_a_part(log: Place, lake: Path, format: str):
    export(log, lake, format, **FIRST)
    shutil.rmtree(lake / "silver/CourseDefined")

    refused(log, lake, "lacks .*silver/CourseDefined.*, or a part of it", format=format)


def test_a_lake_with_half_a_file(log: Place, lake: Path):
    export(log, lake)
    file = Path(lake_files(lake)[0])
    file.write_bytes(file.read_bytes()[:-1])

    refused(log, lake, "lacks bronze/.*, or a part of it")


def test_a_folder_without_a_manifest(log: Place, lake: Path):
    export(log, lake)
    (lake / MANIFEST).unlink()

    refused(log, lake, r"has other files \(bronze, silver\) and no manifest")


@pytest.mark.parametrize("text", ["{", "[]", '{"manifest": 1}'])
def test_a_manifest_that_cannot_be_read(log: Place, lake: Path, text: str):
    export(log, lake)
    (lake / MANIFEST).write_text(text)

    refused(log, lake, "manifest cannot be read")


def test_a_manifest_that_contradicts_itself(log: Place, lake: Path):
    export(log, lake, batch=4)
    manifest = json.loads((lake / MANIFEST).read_text())
    del manifest["batches"][1]
    (lake / MANIFEST).write_text(json.dumps(manifest))

    refused(log, lake, "contradicts itself")


def test_a_manifest_of_a_newer_program(log: Place, lake: Path):
    export(log, lake)
    text = (lake / MANIFEST).read_text()
    (lake / MANIFEST).write_text(text.replace('"manifest": 1', '"manifest": 2'))

    assert isinstance(refused(log, lake, "has version 2, this program knows 1"), SchemaMismatch)


def test_a_folder_that_is_not_empty(log: Place, lake: Path):
    lake.mkdir()
    (lake / "thesis.docx").write_text("")

    refused(log, lake, r"has other files \(thesis.docx\)")


def test_a_lake_that_somebody_put_a_file_into(log: Place, lake: Path):
    export(log, lake)
    (lake / "silver/Paid/more.parquet").write_bytes(b"")

    refused(log, lake, "silver/Paid/more.parquet is in the lake .* and does not belong there")


def test_files_that_readers_do_not_see_do_no_harm(log: Place, lake: Path):
    export(log, lake)
    (lake / "silver/Paid/_notes").write_bytes(b"")
    go_on(log)
    export(log, lake)

    equals_log(lake, log)


def test_two_exports_at_once(log: Place, lake: Path):
    export(log, lake)
    with open(lake / LOCK, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert isinstance(refused(log, lake, "another export is writing to"), Unavailable)
    export(log, lake)


def test_a_lake_that_is_a_file(log: Place, tmp_path: Path):
    (tmp_path / "lake").write_text("")

    refused(log, tmp_path / "lake", "cannot be a lake")


@pytest.mark.parametrize("place", ["s3://bucket/lake", "abfss://x@y/lake", "hdfs:/lake"])
def test_a_lake_in_an_object_store(log: Place, place: str):
    assert "copy it: the data first" in refused(log, place, "a folder of this machine or a mounted one").hint


def test_another_format_than_before(log: Place, lake: Path):
    export(log, lake)

    refused(log, lake, "has the format parquet, not delta", format="delta")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "csv"}, "parquet or delta, not 'csv'"),
        ({"batch": 0}, "a whole number of events from 1"),
        ({"events": "nowhere"}, "there is no module 'nowhere'"),
        ({"events": "academy:Nothing"}, "module 'academy' has no 'Nothing'"),
        ({"events": "academy:CourseId"}, "is no event class, and no module that has some"),
        ({"events": "json"}, "is no event class, and no module that has some"),
        ({"events": ["academy", "school_later"]}, "are both the class of CourseDefined"),
        ({"projections": "academy:CourseId"}, "academy:CourseId is no projection"),
        ({"projections": "nowhere:Course"}, "there is no module 'nowhere'"),
    ],
)
def test_what_makes_no_sense(log: Place, lake: Path, options: dict[str, Any], says: str):
    assert isinstance(refused(log, lake, says, **options), InvalidInput)
    assert not lake.exists()


def test_a_log_that_is_not_there(lake: Path, tmp_path: Path):
    assert isinstance(refused(Place(tmp_path / "none.db"), lake, "none.db"), NotFound)
    assert not lake.exists()


def test_delta_without_its_package(log: Place, lake: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    error = refused(log, lake, "Delta tables need the package deltalake", format="delta")

    assert isinstance(error, MissingDependency)
    assert error.hint == "pip install 'strandline[delta]'"


def test_files_of_a_lake_or_table_that_is_not_there(log: Place, lake: Path):
    with pytest.raises(NotFound, match="no lake at"):
        lake_files(lake)
    export(log, lake)
    with pytest.raises(NotFound, match="has no table 'silver/Nothing'") as caught:
        lake_files(lake, "silver/Nothing")
    assert "silver/CourseDefined" in caught.value.hint
