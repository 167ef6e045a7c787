"""Which key of a keyed query goes to which worker (mixed-key-routing, HPDC 2017)."""

from evenflow.planning.keys.balance_goal import feasible
from evenflow.planning.keys.baselines import shuffled_loads
from evenflow.planning.keys.problem import KeyConfig, KeyPlan, KeyPlanner
from evenflow.planning.keys.registry import ALGORITHMS, CHOICE_PLANNERS, warm_up
from evenflow.planning.keys.unequal_workers import load_over_share, plan_for_capacities

__all__ = [
    "ALGORITHMS",
    "CHOICE_PLANNERS",
    "KeyConfig",
    "KeyPlan",
    "KeyPlanner",
    "feasible",
    "load_over_share",
    "plan_for_capacities",
    "shuffled_loads",
    "warm_up",
]
