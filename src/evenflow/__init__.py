"""Evenflow: load distribution for stream processing on Apache Spark."""

__version__ = "0.1.0"
