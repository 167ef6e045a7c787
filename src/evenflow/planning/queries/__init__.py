"""Which worker a query runs on (herding-small-queries, MSR-TR-2015-26)."""

from evenflow.model.arrays import NOWHERE
from evenflow.planning.queries.metrics import PlacementMetrics, measure_placement, total_traffic
from evenflow.planning.queries.online import OnlinePlacer, departure_events, place_arrivals
from evenflow.planning.queries.problem import (
    Fleet,
    Placement,
    PlacementProblem,
    recommended_absolute_slack,
)
from evenflow.planning.queries.registry import ALGORITHMS, OFFLINE, ONLINE, plan_queries

__all__ = [
    "ALGORITHMS",
    "NOWHERE",
    "OFFLINE",
    "ONLINE",
    "Fleet",
    "OnlinePlacer",
    "Placement",
    "PlacementMetrics",
    "PlacementProblem",
    "departure_events",
    "measure_placement",
    "place_arrivals",
    "plan_queries",
    "recommended_absolute_slack",
    "total_traffic",
]
