from __future__ import annotations

from functools import partial

from at_once import conflicts, overlapping

from invoice_number import CustomerId, InvoiceIssued, Invoices, issue, numbers
from strandline import Event, EventStore, Query


def test_numbers_follow_each_other_in_the_order_of_the_log(store: EventStore) -> None:
    assert [store.execute(issue, Invoices(), CustomerId("c1"), 100).value for _ in range(3)] == [1, 2, 3]
    assert numbers(store) == [1, 2, 3]
    assert store.project(Invoices()).last == 3


def test_numbers_have_no_gaps_and_no_repeats_however_many_write(store: EventStore) -> None:
    patiently = issue.with_options(attempts=100)
    calls = [partial(store.execute, patiently, Invoices(), CustomerId(f"c{n}"), 100) for n in range(12)]
    outcomes = overlapping(store, calls)
    assert sorted(outcome.value for outcome in outcomes) == numbers(store) == list(range(1, 13))
    assert store.stats().refused >= 11


def test_only_the_newest_invoice_is_read(store: EventStore) -> None:
    store.append(Event("InvoiceIssued", "in the words of an old program"))
    store.append(InvoiceIssued(number=7, customer=CustomerId("c1"), cents=100))
    assert store.execute(issue, Invoices(), CustomerId("c1"), 100).value == 8


def test_only_invoices_meet_each_other(store: EventStore) -> None:
    other = partial(store.append, Event("ParcelSent", {}, tags=["customer:c1"]))
    rival = partial(store.execute, issue, Invoices(), CustomerId("c2"), 100)
    issuing = partial(store.execute, issue, Invoices(), CustomerId("c1"), 100)
    assert conflicts(store, issuing, other) == 0
    assert conflicts(store, issuing, rival) == 1
    assert numbers(store) == [1, 2, 3]
    conditions = [append.condition for append in store.appends() if append.condition is not None]
    assert {condition.fail_if_events_match for condition in conditions} == {Query.types("InvoiceIssued")}
