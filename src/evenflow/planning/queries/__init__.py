"""Which query runs on which worker (herding-small-queries): one algorithm a module."""

from evenflow.planning.queries.cost import Assessment, assess, traffic
from evenflow.planning.queries.online import Online, departure, place_all
from evenflow.planning.queries.problem import (
    NOWHERE,
    Fleet,
    Placement,
    Problem,
    recommended_absolute_slack,
)
from evenflow.planning.queries.registry import ALGORITHMS, OFFLINE, ONLINE, plan_queries

__all__ = [
    "ALGORITHMS",
    "NOWHERE",
    "OFFLINE",
    "ONLINE",
    "Assessment",
    "Fleet",
    "Online",
    "Placement",
    "Problem",
    "assess",
    "departure",
    "place_all",
    "plan_queries",
    "recommended_absolute_slack",
    "traffic",
]
