"""Which key of a keyed query goes to which worker (mixed-key-routing, HPDC 2017)."""

from evenflow.planning.keys.balance_goal import feasible
from evenflow.planning.keys.baselines import shuffled_loads
from evenflow.planning.keys.problem import KeyConfig, KeyPlan, KeyPlanner
from evenflow.planning.keys.registry import ALGORITHMS, warm_up

__all__ = [
    "ALGORITHMS",
    "KeyConfig",
    "KeyPlan",
    "KeyPlanner",
    "feasible",
    "shuffled_loads",
    "warm_up",
]
