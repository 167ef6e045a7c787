"""Which worker a running operator moves to (borealis-load-distribution, ICDE 2005).

`plan_operators(name, snapshot, config, rng)` calls a planner of `ALGORITHMS`,
`measure_operator_plan` measures its plan.
"""

from evenflow.model.arrays import NOWHERE
from evenflow.planning.operators.large_clusters import (
    LARGE_CLUSTER_WAYS,
    disjoint_domains,
    overlapping_domains,
    plan_clustered,
    plan_decentralised,
    plan_domains,
    plan_large_cluster,
)
from evenflow.planning.operators.metrics import OperatorPlanMetrics, measure_operator_plan
from evenflow.planning.operators.problem import (
    OperatorConfig,
    OperatorPlan,
    OperatorSnapshot,
    SourceTraffic,
)
from evenflow.planning.operators.registry import ALGORITHMS, plan_operators, warm_up
from evenflow.planning.operators.relabel_workers import relabel_workers

__all__ = [
    "ALGORITHMS",
    "LARGE_CLUSTER_WAYS",
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
    "plan_large_cluster",
    "plan_operators",
    "relabel_workers",
    "warm_up",
]
