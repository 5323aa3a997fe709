"""What a read may be asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from places import Place
from strandline import Event, InvalidInput


@pytest.mark.parametrize("backwards", ["x", "", 1, 0, None, []])
def test_backwards_is_a_truth_value_and_nothing_like_one(place: Place, backwards: Any) -> None:
    async def read() -> None:
        async with place.connect_async() as store:
            await store.read(backwards=backwards)

    with place.connect() as store:
        store.append(Event("A", {}))
        with pytest.raises(InvalidInput, match="backwards is True or False"):
            store.read(backwards=backwards)
    with pytest.raises(InvalidInput, match="backwards is True or False"):
        asyncio.run(read())
