"""Where a server is: its URL in parts, checked once."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from ...errors import InvalidInput

_PORTS = {"http": 80, "https": 443}
_NOT_IN_A_URL = re.compile(r"[\s\x00-\x1f\x7f]")
_EXAMPLE = 'for example strandline.connect("http://127.0.0.1:4455", log="default")'


class Address(NamedTuple):
    """The address of a server. Nothing of it is secret."""

    scheme: str
    host: str
    port: int
    path: str
    """Where the server is mounted: nothing, or `/strandline`."""

    @classmethod
    def of(cls, url: str) -> Address:
        """Return the address that a URL names. No error repeats the URL, for a secret may be in it."""
        parts, port = _split(url)
        if "@" in parts.netloc:
            raise InvalidInput(
                "the URL of a server has no user and no password",
                hint="give the token by itself: connect(url, token=…), or STRANDLINE_TOKEN on the command line",
            )
        if parts.query or parts.fragment or not parts.hostname:
            raise InvalidInput("the URL of a server is http://host:port, with nothing behind", hint=_EXAMPLE)
        path = parts.path.rstrip("/")
        if "/v1/logs" in path:
            raise InvalidInput("the URL of a server does not name a log", hint=_EXAMPLE)
        return cls(
            parts.scheme,
            _ascii(parts.hostname),
            port or _PORTS[parts.scheme],
            quote(path, safe="/%:@!$&'()*+,;=~"),
        )

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme == "https"

    @property
    def place(self) -> str:
        """The host and the port, as the header `Host` names them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"{self.scheme}://{self.place}{self.path}"


def _split(url: str) -> tuple[SplitResult, int | None]:
    if _NOT_IN_A_URL.search(url):
        raise InvalidInput("a URL has no spaces and no control characters", hint=_EXAMPLE)
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError:
        failure = InvalidInput("this is not the URL of a server", hint=_EXAMPLE)
    raise failure  # here, where no context repeats the URL


def _ascii(host: str) -> str:
    try:
        return host.encode("ascii" if host.isascii() else "idna").decode()
    except UnicodeError:
        failure = InvalidInput(f"{host!r:.80} is not the name of a host", hint=_EXAMPLE)
    raise failure
