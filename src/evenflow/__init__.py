"""Evenflow: load distribution for stream processing on Apache Spark."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.model.alert import AlertRule, AlertRules
    from evenflow.model.limits import MemoryLimits
    from evenflow.planning.controller import Autoscale, Balancing
    from evenflow.spark.flow import Flow
    from evenflow.spark.run import Run
    from evenflow.sql.local import run_local

__version__ = "0.2.0"
__all__ = [
    "AlertRule",
    "AlertRules",
    "Autoscale",
    "Balancing",
    "Flow",
    "MemoryLimits",
    "Run",
    "__version__",
    "run_local",
]

_MODULES = {
    "AlertRule": "evenflow.model.alert",
    "AlertRules": "evenflow.model.alert",
    "Autoscale": "evenflow.planning.controller",
    "Balancing": "evenflow.planning.controller",
    "Flow": "evenflow.spark.flow",
    "MemoryLimits": "evenflow.model.limits",
    "Run": "evenflow.spark.run",
    "run_local": "evenflow.sql.local",
}


def __getattr__(name: str) -> Any:
    """Import Spark and the planners on first use only."""
    if name not in _MODULES:
        raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
