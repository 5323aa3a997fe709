"""The gRPC face of a server: what `strandline serve --grpc-port` adds to the HTTP API."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ..application import Application
from .checkups import Health
from .dcb import Dcb
from .transport import Transport


class GrpcFace:
    """Serves one log of an application to UmaDB's clients."""

    def __init__(
        self,
        application: Application,
        log: str,
        listeners: Sequence[socket.socket],
        *,
        cert: str | None = None,
        key: str | None = None,
    ) -> None:
        self._dcb = Dcb(application._service, log)
        self._health = Health()
        self._listeners = listeners
        self._tls = None if cert is None or key is None else (cert, key)
        self._transport: Transport | None = None

    async def start(self) -> None:
        """Take calls from now on."""
        methods = {**self._dcb.methods(), **self._health.methods()}
        self._transport = Transport(methods, self._listeners, self._tls)
        await self._transport.start()

    def begin_drain(self) -> None:
        """Say that the server ends, and end the subscriptions. Calls under way go on."""
        self._health.begin_drain()
        self._dcb.end_subscriptions()

    async def drain(self, seconds: float) -> None:
        """Finish the calls under way, and take no more."""
        self.begin_drain()
        if self._transport is not None:
            await self._transport.stop(seconds)
