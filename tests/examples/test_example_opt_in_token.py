from __future__ import annotations

from functools import partial

import pytest
from at_once import kinds, overlapping

from opt_in_token import (
    VALIDITY,
    SignUp,
    SignUpConfirmed,
    TokenExpired,
    TokenInUse,
    TokenUnknown,
    TokenUsed,
    confirm,
    start,
)
from strandline import EventStore, Query
from strandline.testing import ManualClock

ADA = SignUp("ada@example.org", "1234")


def test_a_token_confirms_its_own_address_once(store: EventStore) -> None:
    store.execute(start, ADA, "Ada")
    with pytest.raises(TokenInUse):
        store.execute(start, ADA, "Eve")
    for stranger in (SignUp("eve@example.org", "1234"), SignUp("ada@example.org", "4321")):
        with pytest.raises(TokenUnknown):
            store.execute(confirm, stranger)
    store.execute(confirm, ADA)
    with pytest.raises(TokenUsed):
        store.execute(confirm, ADA)
    (event,) = store.read(Query.types("SignUpConfirmed"))
    assert event.decode(SignUpConfirmed) == SignUpConfirmed(email=ADA.email, token=ADA.token, name="Ada")


def test_a_token_is_good_for_an_hour(store: EventStore, clock: ManualClock) -> None:
    other = SignUp("bob@example.org", "1234")
    store.execute(start, ADA, "Ada")
    store.execute(start, other, "Bob")
    clock.move(VALIDITY.total_seconds())
    store.execute(confirm, ADA)
    clock.move(1)
    with pytest.raises(TokenExpired):
        store.execute(confirm, other)


def test_the_boundary_is_address_and_token_together(store: EventStore) -> None:
    store.execute(start, ADA, "Ada")
    (append,) = store.appends()
    assert append.condition is not None
    (item,) = append.condition.fail_if_events_match.items
    assert item.tags == ("email:ada@example.org", "token:1234")


def test_of_many_clicks_one_confirms(store: EventStore) -> None:
    store.execute(start, ADA, "Ada")
    outcomes = overlapping(store, [partial(store.execute, confirm, ADA)] * 6)
    assert kinds(outcomes) == {"Executed": 1, "TokenUsed": 5}
    assert store.count(Query.types("SignUpConfirmed")) == 1
