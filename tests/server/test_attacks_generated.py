"""Requests made from the OpenAPI document by schemathesis, right and wrong ones: no 5xx, and nothing written by refusals."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from serving import Client, serving

import strandline
from strandline import Event, EventStore
from strandline.server import app

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it is not written for warnings that are errors
    import schemathesis
    from schemathesis import GenerationMode

PATIENCE_SECONDS = 60
LONGEST_WAIT = 0.01
KNOWN = {"log": "default", "name": "mails", "position": 1, "source": "orders"}


class Target:
    """A server with some events and a follower, and a description of its requests."""

    def __init__(self, client: Client, store: EventStore) -> None:
        self.base = f"http://127.0.0.1:{client.port}"
        self.store = store
        self.description = client.get("/openapi.json").json
        self.session = requests.Session()
        store.append([Event("T", {"n": number}, tags=[f"t:{number}"]) for number in range(3)])
        store.append((), tracking=("orders", 1))
        store.follower("mails").lease(1)

    def state(self) -> Any:
        followers = [
            (each.name, each.state, each.position, each.dead_letters) for each in self.store.followers()
        ]
        return self.store.head(), self.store.tracked("orders"), followers

    def send(self, case: Any) -> tuple[int, str]:
        sent = case.as_transport_kwargs(base_url=self.base)
        with self.session.request(
            **sent, timeout=PATIENCE_SECONDS, allow_redirects=False, stream=True
        ) as reply:
            kind = reply.headers["content-type"].partition(";")[0]
            if kind != "text/event-stream":  # it has no end
                assert reply.content or sent["method"] == "HEAD"
            return reply.status_code, kind

    def check(self, case: Any) -> int:
        before = self.state()
        status, kind = self.send(case)
        assert status < 500 or status == 501, (status, case.as_curl_command())
        operation = self.description["paths"][case.operation.path][case.operation.method.lower()]
        assert str(status) in operation["responses"], (status, case.as_curl_command())
        if status >= 400:
            assert kind == "application/problem+json" or kind == "text/html"
            assert self.state() == before, case.as_curl_command()
        return status


def strategy(description: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Requests for every operation. Most are about the log, the follower and the events that there are."""
    schema = schemathesis.openapi.from_dict(description)
    operations = [each.ok() for each in schema.get_all_operations()]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    cases = [operation.as_strategy(generation_mode=mode) for operation in operations for mode in modes]
    return st.tuples(st.one_of(cases), st.sets(st.sampled_from(sorted(KNOWN)))).map(lambda pair: known(*pair))


def known(case: Any, unknown: set[str]) -> Any:
    given_parameters = case.path_parameters or {}
    for name in given_parameters:
        if name in KNOWN and name not in unknown:
            given_parameters[name] = KNOWN[name]
    if isinstance(case.body, dict) and isinstance(case.body.get("wait"), int | float):
        case.body["wait"] = min(case.body["wait"], LONGEST_WAIT)
    return case


def attack(number: int, requests_to_send: int) -> Counter[int]:
    """Send so many requests to a new server; returns how often each status came."""
    statuses: Counter[int] = Counter()
    with strandline.connect("memory:") as store, serving(app(store)) as client:
        target = Target(client, store)

        @seed(number)
        @settings(
            max_examples=requests_to_send,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy(target.description))
        def send_one(case: Any) -> None:
            statuses[target.check(case)] += 1

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            send_one()
        target.session.close()
    return statuses


def test_some_hundred_generated_requests() -> None:
    statuses = attack(1, 300)
    assert {200, 404, 422} <= statuses.keys()


@pytest.mark.long
def test_a_hundred_thousand_generated_requests() -> None:
    statuses: Counter[int] = Counter()
    number = 1
    while statuses.total() < 100_000:
        number += 1
        statuses += attack(number, 1_000)
    print(statuses)
