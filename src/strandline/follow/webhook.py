"""Publishing to a URL: one signed POST per event, the CloudEvent as its body."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from ..cloudevent import to_cloudevent
from ..cloudevent.outgoing import SOURCE
from ..errors import InvalidInput, Unavailable
from ..event import SequencedEvent, encode_sorted
from .delivery import Undeliverable

TIMESTAMP, SIGNATURE = "Strandline-Timestamp", "Strandline-Signature"
REFUSES_EVENT = {400, 409, 413, 415, 422}
"""Answers that are about this event. All others but 500 are about the receiver."""
CLOCK_SECONDS = 300.0


class WebhookFailed(Exception):
    """The receiver failed at an event."""


class Webhook:
    """Posts events to a URL, one after the other, signed with a secret that the receiver has too.

    Any 2xx is success. 400, 409, 413, 415 and 422 make a dead letter at once. 500 is tried again, then makes one. Any
    other answer, or none, says that the receiver takes no events now: the outbox tries again, then stops with
    `Unavailable`. Redirects are not followed.
    """

    batch = 1  # so that what was taken is not sent again because of the next one
    attempts = 12  # almost two minutes: longer than it takes to start a receiver anew

    def __init__(
        self,
        url: str,
        *,
        secret: str | bytes,
        timeout: float = 10.0,
        headers: Mapping[str, str] | None = None,
        source: str = SOURCE,
    ) -> None:
        self._place = _checked(url)
        self._url = url
        self._secret = _key(secret)
        self._headers = _plain(headers or {})
        self._source = source
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
            raise InvalidInput(f"a timeout is a number of seconds, not {timeout!r:.40}", hint="timeout=10")
        self._timeout = timeout

    def __call__(self, events: Sequence[SequencedEvent]) -> None:
        """Post them in order; what follows one that was not taken is not sent."""
        for event in events:
            self._post(encode_sorted(to_cloudevent(event, source=self._source)))

    def __repr__(self) -> str:
        return f"<Webhook {self._place}>"

    def _post(self, body: bytes) -> None:
        status, reason = self._answer(body)
        if 200 <= status < 300:
            return
        told = f"{self._place} answered {status}" if status else f"{self._place}: {reason}"
        if status in REFUSES_EVENT:
            raise Undeliverable(told)
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            raise WebhookFailed(told)
        raise Unavailable(
            f"the receiver takes no events: {told}",
            hint="start the receiver, or correct the URL, and run the outbox again: it goes on with this event",
        )

    def _answer(self, body: bytes) -> tuple[int, str]:
        """The status of the answer; 0 and why if there is none."""
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request

        timestamp = str(int(time.time()))
        headers = self._headers | {
            "Content-Type": "application/cloudevents+json; charset=utf-8",
            TIMESTAMP: timestamp,
            SIGNATURE: signature(self._secret, timestamp, body),
        }
        request = Request(self._url, body, headers, method="POST")  # noqa: S310  (the scheme was checked)
        try:
            with _opener().open(request, timeout=self._timeout) as response:
                return response.status, ""
        except HTTPError as error:
            with error:
                return error.code, ""
        except (OSError, HTTPException) as error:
            return 0, str(getattr(error, "reason", error)) or type(error).__name__


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over the timestamp, a dot and the body."""
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def verify_signature(
    secret: str | bytes, headers: Mapping[str, str], body: bytes, *, tolerance: float = CLOCK_SECONDS
) -> bool:
    """For receivers: whether a request was signed with this secret, not longer than `tolerance` seconds ago."""
    given = {name.lower(): value for name, value in headers.items()}
    timestamp, signed = given.get(TIMESTAMP.lower(), ""), given.get(SIGNATURE.lower(), "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16):
        return False
    is_fresh = abs(time.time() - int(timestamp)) <= tolerance
    expected = signature(_key(secret), timestamp, body)
    return hmac.compare_digest(expected.encode(), signed.encode("utf-8", "replace")) and is_fresh


def _opener() -> Any:
    """Follows no redirects: a signed event goes to the URL that was named, or nowhere."""
    from urllib.request import HTTPRedirectHandler, build_opener

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    return build_opener(NoRedirects)


def _checked(url: object) -> str:
    """The scheme and host of a URL that may be posted to; the rest may be a secret."""
    hint = "write https://host/path; a password belongs into headers"
    try:
        parts = urlsplit(url) if isinstance(url, str) and url.isascii() and url.isprintable() else None
        port = parts.port if parts else None
    except ValueError:
        parts = port = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or " " in str(url):
        raise InvalidInput("a webhook has an http or https URL", hint=hint)
    if parts.username is not None:
        raise InvalidInput("the URL of a webhook has no user and no password", hint=hint)
    return f"{parts.scheme}://{parts.hostname}" + (f":{port}" if port else "")


def _key(secret: object) -> bytes:
    key = secret.encode() if isinstance(secret, str) else secret
    if not isinstance(key, bytes) or not key:
        raise InvalidInput(
            "the secret of a webhook is text or bytes, not empty", hint="secrets.token_hex(32)"
        )
    return key


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str) and f"{name}{value}".isascii()) or not (
            name and f"{name}{value}".isprintable()
        ):
            raise InvalidInput("headers are names and values of printable ASCII", hint="check headers=…")
    return dict(headers)
