"""Peers that are not written in Python and bring their own clients."""
