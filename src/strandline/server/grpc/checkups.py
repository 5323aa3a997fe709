"""The health service: load balancers and UmaDB's clients ask it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

from .dcb import SERVICE, decode
from .messages import health
from .method import Method
from .refusals import Refusal, Status

_Status = health.HealthCheckResponse.ServingStatus


class Health:
    """Says whether the server serves. Nobody needs a token to ask."""

    def __init__(self) -> None:
        self._is_draining = asyncio.Event()

    def methods(self) -> Mapping[str, Method]:
        """Return the methods by their paths."""
        prefix = "/grpc.health.v1.Health/"
        return {
            f"{prefix}Check": Method(self._check),
            f"{prefix}Watch": Method(answers=self._watch, is_live=True),
        }

    def begin_drain(self) -> None:
        """Say from now on that the server does not serve."""
        self._is_draining.set()

    async def _check(self, authorization: bytes | None, body: bytes) -> bytes:
        self._find(body)
        return self._answer()

    async def _watch(self, authorization: bytes | None, body: bytes) -> AsyncGenerator[bytes]:
        self._find(body)
        return self._changes()

    async def _changes(self) -> AsyncGenerator[bytes]:
        if not self._is_draining.is_set():
            yield self._answer()
            await self._is_draining.wait()
        yield self._answer()

    def _find(self, body: bytes) -> None:
        service = decode(health.HealthCheckRequest, body).service
        if service not in {"", SERVICE}:
            raise Refusal(Status.NOT_FOUND, f"there is no service {service!r:.80}. Hint: ask for {SERVICE!r}")

    def _answer(self) -> bytes:
        name = "NOT_SERVING" if self._is_draining.is_set() else "SERVING"
        return bytes(health.HealthCheckResponse(status=_Status.Value(name)).SerializeToString())
