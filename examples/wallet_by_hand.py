"""A withdrawal by hand: "only once" and "only if the balance is as I read it", both in one append.

The problem: a client that lost the answer sends its withdrawal again, and must neither be charged twice nor
be told that there is no money left, which is true by now. Two checks in two steps fail at it, in streams as
anywhere: between "was it done?" and "is there enough?" the twin of the request does it. Here one append
carries two boundaries: the events with the operation's tag, of which there must be none at all, and those of
the wallet, of which there must be none that is newer than the read.

The command of wallet.py does all this if it is given an `idempotency_key`; this is what is inside.
"""

from __future__ import annotations

import tempfile

import strandline
from strandline import AppendResult, EventStore, Query, TagId
from wallet import InsufficientFunds, Status, Wallet, Withdrawn, balance, check_funds, open_wallet


class OperationId(TagId): ...


def withdraw_once(store: EventStore, operation: str, wallet: str, cents: int) -> AppendResult:
    """One attempt. Raises `AppendConditionFailed` if the wallet has moved meanwhile: then try again.

    The condition is all that was read: strict, so that a deposit refuses it, too.
    """
    done = Query.tag(OperationId(operation))
    state = Wallet(wallet)
    read = store.read(state.query())
    for event in read:
        state.apply(event)
    if not store.exists(done):  # asked after the read: a twin that the read has seen is seen here, too
        check_funds(state, cents)
    withdrawn = Withdrawn(wallet=state.id, cents=cents).to_event(tags=[OperationId(operation)])
    return store.append(withdrawn, read.condition, unless_exists=done)


def story(store: EventStore) -> None:
    """A withdrawal, the same one again, another one that comes too late."""
    store.execute(open_wallet, Status("alice"), "Alice", 100)
    first = withdraw_once(store, "w-123", "alice", 80)
    again = withdraw_once(store, "w-123", "alice", 80)
    print(f"w-123 takes 80 of 100: position {first.position}, duplicate={first.duplicate}")
    print(f"w-123 again: position {again.position}, duplicate={again.duplicate}")
    print(f"alice has {balance(store, 'alice')}")
    try:
        withdraw_once(store, "w-124", "alice", 80)
    except InsufficientFunds as refusal:
        print(f"w-124 is another one, and hears the rule: InsufficientFunds{refusal}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, strandline.connect(f"{folder}/wallets.db") as bank:
        story(bank)
