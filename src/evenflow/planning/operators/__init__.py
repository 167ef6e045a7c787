"""Which worker a running operator moves to (borealis-load-distribution, ICDE 2005).

`plan_operators(name, snapshot, config, rng)` calls a planner of `ALGORITHMS`,
`measure_operator_plan` measures its plan.
"""

from evenflow.model.arrays import NOWHERE
from evenflow.planning.operators.large_clusters import (
    disjoint_domains,
    overlapping_domains,
    plan_clustered,
    plan_decentralised,
    plan_domains,
)
from evenflow.planning.operators.metrics import OperatorPlanMetrics, measure_operator_plan
from evenflow.planning.operators.problem import (
    OperatorConfig,
    OperatorPlan,
    OperatorSnapshot,
    SourceTraffic,
)
from evenflow.planning.operators.registry import ALGORITHMS, plan_operators, warm_up

__all__ = [
    "ALGORITHMS",
    "NOWHERE",
    "OperatorConfig",
    "OperatorPlan",
    "OperatorPlanMetrics",
    "OperatorSnapshot",
    "SourceTraffic",
    "disjoint_domains",
    "measure_operator_plan",
    "overlapping_domains",
    "plan_clustered",
    "plan_decentralised",
    "plan_domains",
    "plan_operators",
    "warm_up",
]
