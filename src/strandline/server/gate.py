"""Which requests may come in: those that name this server, not the pages of other sites in a browser."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from ..errors import Forbidden

_PLACE = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{1,5})?")
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class Gate:
    """Checks `Host` and `Origin`. A page with a foreign name must not reach a server by DNS rebinding."""

    def __init__(self, allowed_hosts: Iterable[str]) -> None:
        self._allowed = _LOCAL | {host.lower() for host in allowed_hosts}

    def check(self, host: bytes | None, origin: bytes | None, server: tuple[str, int | None] | None) -> None:
        """Refuse a request with a foreign `Host` or `Origin`. `server` is the address that the connection came to."""
        place = (host or b"").decode("latin-1").lower()
        if not self._is_own(place, server):
            raise Forbidden(
                f"the request is for {place!r:.80}, which is not a name of this server",
                hint="use the address that the server listens on, or allow the name: --allow-host NAME",
            )
        if origin is not None:
            self._check_origin(origin.decode("latin-1").lower(), place)

    def _is_own(self, host: str, server: tuple[str, int | None] | None) -> bool:
        name = _name_of(host)
        if name in self._allowed or (name and "*" in self._allowed):
            return True
        # A name in a foreign page's URL is never the bare address that the connection came to.
        return server is not None and name == server[0].lower()

    def _check_origin(self, origin: str, host: str) -> None:
        _, separator, place = origin.partition("://")
        allowed = self._allowed - _LOCAL
        if separator and (place == host or _name_of(place) in allowed):
            return
        raise Forbidden(
            f"the request comes from a page of {origin!r:.80}",
            hint="call the server from its own pages, from outside a browser, or allow the name: --allow-host NAME",
        )


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach a host's address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _name_of(place: str) -> str:
    """Return the name in `name:port` or `[address]:port`, or nothing if it is neither."""
    found = _PLACE.fullmatch(place)
    return "" if found is None else found[1] or found[2]
