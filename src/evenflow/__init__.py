"""Evenflow: load distribution for stream processing on Apache Spark."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.planning.controller import Balancing
    from evenflow.spark import Flow, Run

__version__ = "0.2.0"
__all__ = ["Balancing", "Flow", "Run", "__version__"]


def __getattr__(name: str) -> Any:
    """Import Spark on first use only."""
    if name == "Balancing":
        from evenflow.planning.controller import Balancing

        return Balancing
    if name in {"Flow", "Run"}:
        from evenflow import spark

        return getattr(spark, name)
    raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
