"""Which running operator goes to which worker (borealis-load-distribution, ICDE 2005).

`plan(name, snapshot, config, rng)` calls a planner of `ALGORITHMS`; `quality` measures its plan.
"""

from evenflow.planning.operators.clustering import plan_clustered
from evenflow.planning.operators.domains import decentralised, disjoint, overlapping, plan_domains
from evenflow.planning.operators.quality import Quality, quality
from evenflow.planning.operators.registry import ALGORITHMS, OperatorPlan, plan, warm_up
from evenflow.planning.operators.snapshot import NEW, OperatorConfig, OperatorSnapshot
from evenflow.planning.operators.traffic import Traffic

__all__ = [
    "ALGORITHMS",
    "NEW",
    "OperatorConfig",
    "OperatorPlan",
    "OperatorSnapshot",
    "Quality",
    "Traffic",
    "decentralised",
    "disjoint",
    "overlapping",
    "plan",
    "plan_clustered",
    "plan_domains",
    "quality",
    "warm_up",
]
