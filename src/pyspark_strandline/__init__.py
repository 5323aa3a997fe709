"""Lets Spark find `format("strandline")` by itself where Strandline is installed."""

from strandline.spark.source.data_source import StrandlineSource as DefaultSource

__all__ = ["DefaultSource"]
