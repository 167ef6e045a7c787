"""Where `Store` used to be."""

from evenflow.store import Store

__all__ = ["Store"]
