"""Strandline measured beside its peers, in one run: `python -m bench --help`."""
