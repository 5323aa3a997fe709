"""Things to iterate over with `async for` that may be awaited first: `read = await store.read(query)`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from typing import Any, Generic, Self, TypeVar

Item = TypeVar("Item")


class MayBeAwaited(Generic[Item]):
    """Something to iterate over with `async for`, which may be awaited first."""

    async def _begin(self) -> None:
        """What awaiting it does."""

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._begin().__await__()
        return self

    def __aiter__(self) -> AsyncIterator[Item]:
        raise NotImplementedError
