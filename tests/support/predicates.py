"""What every planner must keep, by name. Each takes what a test has at hand and asserts."""

import numpy as np

from evenflow.model import KeyLoads
from evenflow.planning.keys import KeyConfig, KeyPlan, feasible
from evenflow.planning.keys.balance_goal import balance_goal, current_owners_suffice


def each_key_placed_once(keys: KeyLoads, plan: KeyPlan) -> None:
    assert len(plan.owner) == len(keys)
    assert plan.owner.min() >= 0
    assert plan.owner.max() < keys.workers


def load_conserved(keys: KeyLoads, plan: KeyPlan) -> None:
    """All load is on some worker; every further owner of a split key pays its shared part."""
    repeated = sum((len(o) - 1) * keys.shared_cost[key] for key, o in plan.splits.items())
    assert np.isclose(plan.loads.sum(), keys.cost.sum() + repeated)


def loads_follow_from_owners(keys: KeyLoads, plan: KeyPlan) -> None:
    assert np.allclose(plan.loads, keys.worker_loads(plan.owner, plan.splits))


def owners_are_distinct_and_home_is_first(keys: KeyLoads, plan: KeyPlan) -> None:
    for key, owners in plan.splits.items():
        assert 2 <= len(owners) == len(set(owners))
        assert set(owners) <= set(range(keys.workers))
        assert plan.owner[key] == owners[0]


def bounds_kept_or_refused_by_name(keys: KeyLoads, config: KeyConfig, plan: KeyPlan) -> None:
    """A broken bound has a verdict, and a verdict means a broken bound."""
    codes = {verdict.code for verdict in plan.verdicts}
    known = {"heavy_key", "coarse_keys", "table_exceeded", "unbalanced", "split_keys",
             "no_plan", "not_proven"}  # fmt: skip
    assert codes <= known
    broken = codes - {"split_keys", "not_proven"}
    assert feasible(keys, config, plan) != bool(broken)


def verdict_bound_is_a_lower_bound(keys: KeyLoads, plan: KeyPlan) -> None:
    """No plan gets below what a heavy or coarse verdict calls reachable."""
    for verdict in plan.verdicts:
        if verdict.code in ("heavy_key", "coarse_keys"):
            assert verdict.reachable is not None
            mean = keys.cost.sum() / keys.workers
            assert plan.loads.max() / mean - 1 >= verdict.reachable - 1e-6


def balanced_plan_left_alone(keys: KeyLoads, config: KeyConfig, plan: KeyPlan) -> None:
    """Nothing moves when both bounds were kept before."""
    if current_owners_suffice(keys, config, balance_goal(keys, config)):
        assert (plan.owner == keys.owner).all()


def fixed_keys_stay(keys: KeyLoads, config: KeyConfig, plan: KeyPlan) -> None:
    """A key too heavy for any worker is not carried about."""
    fixed = balance_goal(keys, config).fixed_keys
    assert (plan.owner[fixed] == keys.owner[fixed]).all()
