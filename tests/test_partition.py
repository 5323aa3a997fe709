"""Routing by tags: the vectors and the figures of the algorithm's first description."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline import InvalidInput, TagId
from strandline.partition import stream_for
from strandline.testing.strategies import own_names


class UserId(TagId): ...


class CourseId(TagId): ...


def boundaries(count: int) -> list[list[str]]:
    return [[f"course:{number}", f"user:{number}"] for number in range(count)]


def bucket(tags: list[str], partitions: int = 64) -> int:
    return int(stream_for(tags, partitions).removeprefix("dcb:partition:"))


def java_units(text: str) -> list[int]:
    """The `char`s of a Java String, by which it is compared."""
    units: list[int] = []
    for point in map(ord, text):
        above = point - 0x10000
        units += [point] if above < 0 else [0xD800 + (above >> 10), 0xDC00 + (above & 0x3FF)]
    return units


def java_partition(tags: set[str], partitions: int = 64) -> int:
    """The first description, word by word: CRC-32 bit by bit, and exact fractions in the place of doubles."""
    crc = 0xFFFF_FFFF
    for byte in "|".join(sorted(tags, key=java_units)).encode():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB8_8320 if crc & 1 else 0)
    crc ^= 0xFFFF_FFFF
    key = ((crc << 32) ^ (crc * 0x9E3779B97F4A7C15)) % 2**64
    bucket, jump = -1, 0
    while jump < partitions:
        bucket = jump
        key = (key * 2862933555777941757 + 1) % 2**64
        jump = int(Fraction((bucket + 1) * 2**31, (key >> 33) + 1))
    return bucket


@pytest.mark.parametrize(
    ("tags", "partition"),
    [
        (["user:123"], 1),
        (["course:432", "user:123"], 12),
        (["course:999", "user:123"], 33),
        (["course:c1", "student:s1"], 41),
        (["a", "b", "c"], 54),
        (["é:1"], 34),
        (["～:1", "😀:1"], 40),  # as Java 17 says, too; sorted by characters it would be 6
        ([], 0),
    ],
)
def test_the_vectors(tags: list[str], partition: int) -> None:
    assert stream_for(tags) == f"dcb:partition:{partition}"
    assert not tags or java_partition({*tags}) == partition


@given(tags=st.sets(own_names(4) | st.text("a:|é～\ue000😀\U0010ffff", min_size=1), min_size=1, max_size=4))
def test_tags_are_joined_in_the_order_of_java(tags: set[str]) -> None:
    assert bucket(list(tags)) == java_partition(tags)


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
