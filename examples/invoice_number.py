"""Invoice numbers: 1, 2, 3 … without a gap and without a repeat, whoever writes invoices at the same time.

The problem: the law wants a series without holes, and every invoice is made by a different request. Streams
per invoice or per customer fail at it, because the number is a rule about all invoices; a database sequence
leaves a hole when its transaction fails, and one stream for everything makes unrelated things wait for each
other. Here the boundary is one type of event: a decision reads the newest invoice alone, and is refused if
another one was written meanwhile.

The scenario is "invoice number" of https://dcb.events.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import strandline
from strandline import DomainEvent, EventStore, Projection, Query, TagId, command, on


class CustomerId(TagId): ...


class InvoiceIssued(DomainEvent):
    number: int
    customer: CustomerId
    cents: int


class Invoices(Projection, last_only=True):
    """The series. It has no key, so it guards all invoices; it needs the last one only, however many."""

    last: int = 0

    @on
    def issued(self, event: InvoiceIssued) -> None:
        self.last = event.number


@command
def issue(invoices: Invoices, customer: CustomerId, cents: int) -> Generator[InvoiceIssued, None, int]:
    """Write an invoice; what the generator returns, its number, is the value of the execution."""
    number = invoices.last + 1
    yield InvoiceIssued(number=number, customer=customer, cents=cents)
    return number


def story(store: EventStore) -> None:
    """Twenty invoices from eight clients."""

    def bill(order: int) -> int | None:
        customer = CustomerId(f"c{order % 3}")
        return store.execute(issue.with_options(attempts=100), Invoices(), customer, 1_000 + order).value

    with ThreadPoolExecutor(8) as clients:
        told = sorted(number for number in clients.map(bill, range(20)) if number is not None)
    print(f"20 invoices from 8 clients, numbered {numbers(store)}")
    print(f"the clients were told the same: {told == numbers(store)}")
    print(f"{store.stats().refused} times somebody else was faster, and the next number was taken instead")


def numbers(store: EventStore) -> list[int]:
    """The numbers, in the order of the log."""
    return [event.decode(InvoiceIssued).number for event in store.read(Query.types("InvoiceIssued"))]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, strandline.connect(f"{folder}/invoices.db") as books:
        story(books)
