"""Routing by tags: the vectors and the figures of the algorithm's first description."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from strandline import InvalidInput, TagId
from strandline.partition import stream_for


class UserId(TagId): ...


class CourseId(TagId): ...


def boundaries(count: int) -> list[list[str]]:
    return [[f"course:{number}", f"user:{number}"] for number in range(count)]


def bucket(tags: list[str], partitions: int = 64) -> int:
    return int(stream_for(tags, partitions).removeprefix("dcb:partition:"))


@pytest.mark.parametrize(
    ("tags", "partition"),
    [
        (["user:123"], 1),
        (["course:432", "user:123"], 12),
        (["course:999", "user:123"], 33),
        (["course:c1", "student:s1"], 41),
        (["a", "b", "c"], 54),
        (["é:1"], 34),
        ([], 0),
    ],
)
def test_the_vectors(tags: list[str], partition: int) -> None:
    assert stream_for(tags) == f"dcb:partition:{partition}"


def test_order_and_repeats_do_not_matter() -> None:
    assert stream_for({"user:123", "course:432"}) == stream_for(["user:123", "course:432", "user:123"])
    assert stream_for(["user:123", "course:432"]) == "dcb:partition:12"


def test_a_tag_id_is_its_tag() -> None:
    assert stream_for([UserId("123"), CourseId("432")]) == "dcb:partition:12"


def test_the_number_and_the_name_of_the_partitions_can_be_given() -> None:
    assert stream_for(["user:123"], 1) == "dcb:partition:0"
    assert stream_for(["user:123"], prefix="orders-") == "orders-1"
    assert stream_for([], 8, "orders-") == "orders-0"


def test_boundaries_spread_evenly() -> None:
    sizes = Counter(map(bucket, boundaries(64_000)))  # 1,000 each would be ideal, 934 to 1,080 were measured
    assert len(sizes) == 64
    assert min(sizes.values()) >= 900
    assert max(sizes.values()) <= 1_100


def test_one_more_partition_moves_few_boundaries_and_only_into_it() -> None:
    moved = [after for tags in boundaries(64_000) if (after := bucket(tags, 65)) != bucket(tags)]
    assert len(moved) / 64_000 == pytest.approx(1 / 65, abs=0.0014)  # 1.54 % is ideal, 1.67 % was measured
    assert set(moved) == {64}


@pytest.mark.parametrize(
    "arguments",
    [
        (["a"], 0),
        (["a"], -1),
        (["a"], True),
        (["a"], 2.0),
        (["a"], 2**31),
        ("user:123",),
        (UserId("123"),),
        (None,),
        (["$stream:x"],),
        (["a\n"],),
        ([1],),
        (["a"], 64, "x" * 256),
        (["a"], 64, "x\x00"),
    ],
)
def test_bad_input_is_refused_with_a_hint(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInput) as caught:
        stream_for(*arguments)
    assert caught.value.hint
