"""Sending a batch of appends and retags: one request for each run of appends, and what became of each."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec

from ...append import AppendRequest, AppendResult
from ...errors import (
    AppendConditionFailed,
    EventIdConflict,
    InvalidInput,
    StrandlineError,
    TrackingConflict,
    Unavailable,
)
from ...retag import Retag, Retagged
from .. import Outcome, Work
from .client import JSON, NDJSON, Client, Request
from .forms import RESULT, EventForm, append_body, decoder, retag_body
from .problems import decode_problem
from .wire import Answer

_EVENT, _RETAGGED = decoder(EventForm), decoder(Retagged)
_ASK_TRACKED = "ask store.tracked(source) how far the log has come, and go on from there"
_REFUSALS = (AppendConditionFailed, EventIdConflict, TrackingConflict)
"""What the log itself answered, after it had looked for the ids of the events."""


class Submission:
    """Sends batches to one log."""

    def __init__(self, client: Client, path: str) -> None:
        self._client = client
        self._path = path
        self._head = 0  # the last position that this store has seen

    def saw(self, head: int) -> int:
        """Remember a position that was there before anything is sent from now on."""
        self._head = max(self._head, head)
        return head

    def send(self, works: Sequence[Work]) -> list[Outcome]:
        """Return what became of each request, in order. Raise if nothing is known of any."""
        outcomes: list[Outcome] = []
        failure: Unavailable | None = None
        for is_retag, group in groupby(works, lambda work: isinstance(work, Retag)):
            run = list(group)
            if failure is not None:  # the others would only wait for the same server
                outcomes += [Unavailable(failure.message, hint=failure.hint) for _ in run]
                continue
            try:
                outcomes += [self._retag(work) for work in run] if is_retag else self._append(run)  # type: ignore[arg-type]
            except Unavailable as error:
                failure = error
                outcomes += [error for _ in run]
        for outcome in outcomes:
            if isinstance(outcome, AppendResult):
                self.saw(outcome.last)
        if outcomes and all(isinstance(outcome, Unavailable) for outcome in outcomes):
            raise outcomes[0]  # type: ignore[misc]
        return outcomes

    def _retag(self, retag: Retag) -> Outcome:
        # It has no id that tells whether it was carried out, so it is sent once.
        request = Request("POST", f"{self._path}/retags", retag_body(retag), changes=True, may_resend=False)
        answer = self._client.send(request)
        if answer.status == 201 and answer.content_type == JSON:
            return self._result(answer.body, _RETAGGED)
        return self._client.error_of(answer, changes=True)

    def _append(self, requests: Sequence[AppendRequest]) -> list[Outcome]:
        bodies: list[bytes | StrandlineError] = [_body(request) for request in requests]
        sent = [
            (request, body) for request, body in zip(requests, bodies, strict=True) if isinstance(body, bytes)
        ]
        answers = iter(self._sent(sent) if sent else ())
        return [next(answers) if isinstance(body, bytes) else body for body in bodies]

    def _sent(self, sent: Sequence[tuple[AppendRequest, bytes]]) -> list[Outcome]:
        if len(sent) == 1:
            body = sent[0][1]
            answer = self._client.send(Request("POST", f"{self._path}/events", body, changes=True))
            lines = [self._line_of(answer)]
        else:
            body = b"\n".join(body for _, body in sent)
            answer = self._client.send(
                Request("POST", f"{self._path}/appends", body, NDJSON, NDJSON, changes=True)
            )
            lines = self._lines(answer, len(sent))
        requests = [request for request, _ in sent]
        outcomes = [self._outcome(line, request) for line, request in zip(lines, requests, strict=True)]
        return self._own(requests, outcomes) if answer.is_resent else outcomes

    def _line_of(self, answer: Answer) -> bytes:
        """Return the outcome of a single append."""
        is_ours = answer.content_type == JSON and answer.status in {200, 201}
        if is_ours or answer.content_type == "application/problem+json":
            return answer.body
        raise self._client.error_of(answer, changes=True)

    def _lines(self, answer: Answer, count: int) -> list[bytes]:
        if answer.status != 200 or answer.content_type != NDJSON:
            raise self._client.error_of(answer, changes=True)
        lines = answer.body.splitlines()
        if len(lines) != count:
            raise self._client.stranger(f"{len(lines)} outcomes for {count} appends", changes=True)
        return lines

    def _outcome(self, line: bytes, request: AppendRequest) -> Outcome:
        problem = decode_problem(line)
        return self._result(line) if problem is None else problem.error(request.tracking)

    def _result(
        self, line: bytes, decode: msgspec.json.Decoder[Any] = RESULT
    ) -> AppendResult | StrandlineError:
        try:
            result: AppendResult = decode.decode(line)
        except msgspec.MsgspecError as error:
            return self._client.stranger(str(error), changes=True)
        return result

    def _own(self, requests: Sequence[AppendRequest], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Return the outcomes of requests that were sent twice: what the first try wrote is no duplicate."""
        seen = set[int]()
        return [
            self._own_outcome(request, outcome, seen)
            for request, outcome in zip(requests, outcomes, strict=True)
        ]

    def _own_outcome(self, request: AppendRequest, outcome: Outcome, seen: set[int]) -> Outcome:
        if isinstance(outcome, TrackingConflict) and not request.events:  # no id tells whose position it is
            return _unknown(outcome, _ASK_TRACKED)
        if isinstance(outcome, StrandlineError):
            return outcome if isinstance(outcome, _REFUSALS) else _unknown(outcome, None)
        is_first = outcome.first not in seen
        seen.add(outcome.first)
        if not (outcome.duplicate and is_first) or outcome.first <= self._head:
            return outcome
        is_own = bool(request.events) and self._id_at(outcome.first) == request.events[0].raw_id
        return msgspec.structs.replace(outcome, duplicate=False) if is_own else outcome

    def _id_at(self, position: int) -> bytes | None:
        with contextlib.suppress(StrandlineError):  # a token that may not read
            event: EventForm = self._client.get(f"{self._path}/events/{position}", _EVENT)
            return event.id.bytes
        return None


def _body(request: AppendRequest) -> bytes | StrandlineError:
    try:
        return append_body(request)
    except InvalidInput as error:  # it is refused alone
        return error


def _unknown(error: StrandlineError, hint: str | None) -> Unavailable:
    """Return the error for a request of which an earlier try may have been carried out."""
    return Unavailable(f"nobody knows whether it was written: {error}", hint=hint, written=None)
