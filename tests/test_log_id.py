"""A log says which one it is without counting anything."""

from __future__ import annotations

from places import Place


def test_the_id_of_a_log_is_that_of_its_figures(place: Place):
    with place.connect() as store, place.another().connect() as other:
        assert store.engine.log_id() == store.stats().log
        assert store.engine.log_id() != other.engine.log_id()
