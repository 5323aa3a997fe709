"""Decisions are tested on each engine once."""

from newest import kept, place, postgres

__all__ = ["kept", "place", "postgres"]
