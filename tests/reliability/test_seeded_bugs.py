"""The suites find the bugs that are planted for them."""

from __future__ import annotations

import pytest

from reliability.seeded_bugs import BUGS, PACKAGE, ROOT, SOUND, Bug, Patch, is_found, run, table


def name_of(bug: Bug) -> str:
    return bug.name.replace("`", "").replace(" ", "-")


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_a_seeded_bug_fits_the_code(bug: Bug) -> None:
    """If this fails, the code has changed: plant the same bug into the new code."""
    for file, old, new in bug.patches:
        assert (PACKAGE / file).read_text().count(old) == 1, f"{file} has not once: {old}"
        assert new != old


def test_the_guarantees_show_every_seeded_bug() -> None:
    assert table() in (ROOT / "docs/guarantees.md").read_text()


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=() if bug.is_quick else pytest.mark.long) for bug in BUGS], ids=name_of
)
def test_a_seeded_bug_is_found(bug: Bug) -> None:
    ran = run(bug)
    assert is_found(ran), f"the bug survives: {ran.stdout}{ran.stderr}"


def test_nothing_is_found_in_a_copy_without_a_bug() -> None:
    ran = run(SOUND)
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"


@pytest.mark.long
def test_a_copy_that_cannot_be_imported_is_not_taken_for_a_bug_that_is_found() -> None:
    patch = Patch("__init__.py", "from .tag_id import TagId", "raise RuntimeError('this is the copy')")
    ran = run(SOUND._replace(patches=(patch,)))
    assert "this is the copy" in ran.stdout + ran.stderr
    assert not is_found(ran)
