"""How often a store looks for what other processes wrote."""

from __future__ import annotations

import threading
import time

import pytest

from places import Place

LOOK_EVERY_SECONDS = 0.02
FIRST_LOOKS = 3  # one before it waits, one of the thread that looks, one that may be under way


def test_an_idle_subscription_looks_at_most_once_per_20_ms(
    kept: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept.connect() as store:
        looks, head = [0], store.engine.head

        def counted() -> int:
            looks[0] += 1
            return head()

        monkeypatch.setattr(store.engine, "head", counted)
        began = time.perf_counter()
        with store.subscribe() as events:
            waiting = threading.Thread(target=lambda: next(iter(events), None))
            waiting.start()
            time.sleep(0.4)
            seen, passed = looks[0], time.perf_counter() - began
        waiting.join()
        assert 1 <= seen <= passed / LOOK_EVERY_SECONDS + FIRST_LOOKS
