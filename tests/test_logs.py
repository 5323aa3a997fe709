"""The names of the logs at a URL."""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline
from places import POSTGRES, Place, PostgresUrl, new_log
from strandline.errors import InvalidInput, NotFound, Unavailable


def test_a_file_has_one_log(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with pytest.raises(NotFound):
        strandline.logs(path)
    assert not path.exists()
    strandline.connect(path).close()
    assert strandline.logs(path) == strandline.logs(f"sqlite:///{path}") == ["default"]


def test_memory_has_one_log() -> None:
    assert strandline.logs("memory:") == ["default"]


def test_what_is_no_store_has_no_logs(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be one" * 100)
    with pytest.raises(InvalidInput):
        strandline.logs(path)
    with pytest.raises(Unavailable):
        strandline.logs("postgresql://127.0.0.1:1/none")


@pytest.mark.parametrize("server", POSTGRES)
def test_a_database_has_logs_by_name(server: str, postgres_url: PostgresUrl) -> None:
    places: list[Place] = [new_log(postgres_url(server)) for _ in range(2)]
    before = strandline.logs(postgres_url(server))
    for place in places:
        place.connect().close()
    names = strandline.logs(postgres_url(server))
    assert names == sorted(names)
    assert {*names} - {*before} == {place.options["log"] for place in places}
