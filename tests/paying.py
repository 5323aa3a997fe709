"""Pays many bills at once on one series of invoices: `python tests/paying.py URL LOG COUNT`.

It says "ready" when it can begin, begins when it gets a line, and prints how often each payment was decided.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import strandline
from strandline import DomainEvent, Projection, TagId, command, on


class SeriesId(TagId): ...


class Invoiced(DomainEvent):
    series: SeriesId
    number: int


class Invoices(Projection, last_only=True):
    id: SeriesId
    last: int = 0

    @on
    def invoiced(self, event: Invoiced) -> None:
        self.last = event.number


@command
def pay(invoices: Invoices) -> Iterator[Invoiced]:
    yield Invoiced(series=invoices.id, number=invoices.last + 1)


def main(url: str, log: str, count: str) -> None:
    with strandline.connect(url, log=log) as store:
        gate = threading.Barrier(int(count))
        attempts: list[int] = []

        def pay_one() -> None:
            gate.wait()
            attempts.append(store.execute(pay, Invoices("2026")).attempts)

        threads = [threading.Thread(target=pay_one) for _ in range(int(count))]
        print("ready", flush=True)
        sys.stdin.readline()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(*attempts, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
