"""How much a server takes on: requests and bytes under way, and requests per second of one caller."""

from __future__ import annotations

import ipaddress
from time import monotonic

from ..errors import InvalidInput
from .problem import Overloaded, TooManyRequests

MOST_CALLERS = 10_000
BURST_SECONDS = 1.0


class Load:
    """The requests under way and the bytes that they hold. More than the bounds is refused, and does not wait."""

    def __init__(self, requests: int, held_bytes: int) -> None:
        self._most_requests = requests
        self._most_bytes = held_bytes
        self.requests = 0
        self.held_bytes = 0

    def take(self) -> None:
        """Begin a request."""
        if self.requests >= self._most_requests:
            raise Overloaded(f"{self._most_requests:,} requests are under way already")
        self.requests += 1

    def release(self, size: int, *, is_taken: bool) -> None:
        """End a request, and forget the bytes that it held."""
        self.requests -= is_taken
        self.held_bytes -= size

    def hold(self, size: int) -> None:
        """Hold bytes of a body or of an answer. A negative size gives some back."""
        if size > 0 and self.held_bytes + size > self._most_bytes:
            raise Overloaded(f"the requests under way hold {self._most_bytes:,} bytes already")
        self.held_bytes += size


class Rate:
    """So many requests per second for each caller. What a caller leaves over in a second can be used at once later."""

    def __init__(self, per_second: float) -> None:
        if not per_second > 0:
            raise InvalidInput(
                f"a rate is a number of requests per second, not {per_second!r}", hint="write --rate 100"
            )
        self._interval = 1 / per_second
        self._ends: dict[str, float] = {}
        """Until when the requests so far of a caller would take, one after another."""

    def check(self, caller: str) -> None:
        """Count a request, or refuse it."""
        now = monotonic()
        end = max(self._ends.pop(caller, now), now)
        wait = end - now - max(BURST_SECONDS - self._interval, 0.0)
        self._ends[caller] = end if wait > 0 else end + self._interval
        if len(self._ends) > MOST_CALLERS:
            self._forget(now)
        if wait > 0:
            raise TooManyRequests(
                f"a caller may send {1 / self._interval:,.10g} requests per second", seconds=wait
            )

    def _forget(self, now: float) -> None:
        """Forget the callers that are below their rate, and if there are still too many, those quiet for longest."""
        ends = [(caller, end) for caller, end in self._ends.items() if end > now]
        self._ends = dict(ends[-MOST_CALLERS // 2 :])


def neighbourhood(address: str) -> str:
    """Return the address of a client as far as it stands for one caller: of IPv6, whose hosts have many, the network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.ip_network((int(parsed), 64), strict=False))
