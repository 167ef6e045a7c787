"""The load no worker should exceed, and what makes it unreachable.

The goal of a plan is L_max = (1 + theta_max) mean. That can be out of reach whatever is moved: a
key heavier than L_max makes its worker too heavy, and of the q n + 1 heaviest keys some worker of n
has at least q + 1. The largest such minimum is a lower bound of every plan's fullest worker; where
it exceeds L_max it becomes the goal, since moving more would not help, and a verdict names the key.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from evenflow.model import KeyLoads, Verdict, VerdictCode
from evenflow.model.arrays import Bools, Floats, Workers
from evenflow.planning.keys.metrics import moved_state
from evenflow.planning.keys.problem import KeyConfig, KeyPlan

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class BalanceGoal:
    """The load limit of a plan; `fixed_keys` marks keys that stay: too heavy or immovable."""

    mean_load: float
    max_load: float
    fixed_keys: Bools
    verdicts: tuple[Verdict, ...]

    def is_met(self, loads: Floats) -> bool:
        """Return whether no worker exceeds the limit."""
        return float(loads.max()) <= self.max_load


def balance_goal(keys: KeyLoads, config: KeyConfig) -> BalanceGoal:
    """Return the lowest limit that may be reachable, and why it is not lower."""
    mean = float(keys.cost.sum()) / keys.workers
    limit = configured_limit(keys, config)
    floor, key = _pigeonhole_bound(keys.cost, keys.workers, config.max_imbalance)
    if floor <= limit:
        return BalanceGoal(mean, limit, keys.immovable_mask, ())
    reachable = floor / mean - 1
    code, cause = VerdictCode.HEAVY_KEY, "alone needs"
    if keys.cost[key] <= limit:
        code = VerdictCode.COARSE_KEYS
        cause = "and the keys as heavy fill the workers so that one needs"
    verdict = Verdict(
        code,
        keys.key_name(key),
        f"key {keys.key_name(key)} {cause} {floor:.6g}, more than the {limit:.6g} that "
        f"--max-imbalance {config.max_imbalance:g} allows a worker; "
        f"no plan gets below an imbalance of {reachable:.4g}",
        reachable,
    )
    return BalanceGoal(mean, floor * (1 + TOLERANCE), _fixed_keys(keys, limit), (verdict,))


def configured_limit(keys: KeyLoads, config: KeyConfig) -> float:
    """Return L_max = (1 + theta_max) mean, with a tolerance for rounding."""
    mean = float(keys.cost.sum()) / keys.workers
    return (1 + config.max_imbalance) * mean * (1 + TOLERANCE)


def current_owners_suffice(keys: KeyLoads, config: KeyConfig, goal: BalanceGoal) -> bool:
    """Return whether the current owners keep both bounds, so that nothing needs to move."""
    entries = int(np.count_nonzero(keys.owner != keys.home))
    return entries <= config.max_table and goal.is_met(keys.worker_loads())


def plan_rank(
    keys: KeyLoads, config: KeyConfig, goal: BalanceGoal, owner: Workers
) -> tuple[int, float, float]:
    """Order plans: entries beyond the table bound, load beyond the limit, state moved."""
    entries = int(np.count_nonzero(owner != keys.home))
    over = float(keys.worker_loads(owner).max()) - goal.max_load
    return max(entries - config.max_table, 0), max(over, 0.0), moved_state(keys, owner)


def plan_owners(
    keys: KeyLoads,
    config: KeyConfig,
    owners: Callable[[BalanceGoal], Workers],
    *,
    only_if_needed: bool = False,
) -> KeyPlan:
    """Return the plan of the owners that a planner computes for the balance goal.

    With `only_if_needed`, nothing moves if the current owners keep both bounds.
    """
    goal = balance_goal(keys, config)
    suffice = only_if_needed and current_owners_suffice(keys, config, goal)
    return finish_plan(keys, config, keys.owner if suffice else owners(goal), goal)


def best_owners(
    keys: KeyLoads, config: KeyConfig, goal: BalanceGoal, candidates: Iterable[Workers]
) -> Workers:
    """Return the first of the candidates of the lowest rank."""
    return min(candidates, key=lambda owner: plan_rank(keys, config, goal, owner))


def finish_plan(
    keys: KeyLoads,
    config: KeyConfig,
    owner: Workers,
    goal: BalanceGoal,
    loads: Floats | None = None,
) -> KeyPlan:
    """Return the plan with a verdict for every bound it does not keep.

    `loads` are passed where they do not follow from the owners (keys that are split).
    """
    loads = keys.worker_loads(owner) if loads is None else loads
    verdicts = list(goal.verdicts)
    entries = int(np.count_nonzero(owner != keys.home))
    if entries > config.max_table:
        verdicts.append(
            Verdict(
                VerdictCode.TABLE_EXCEEDED,
                "routing table",
                f"the plan needs {entries} table entries, --max-table allows {config.max_table}",
            )
        )
    if not goal.is_met(loads):
        worker = int(loads.argmax())
        reached = float(loads[worker]) / goal.mean_load - 1
        verdicts.append(
            Verdict(
                VerdictCode.UNBALANCED,
                f"worker {worker}",
                f"worker {worker} keeps {loads[worker]:.6g}, {reached:.4g} above the mean; "
                f"the limit is {goal.max_load:.6g}",
            )
        )
    return KeyPlan(owner, loads, tuple(verdicts))


def feasible(keys: KeyLoads, config: KeyConfig, plan: KeyPlan) -> bool:
    """Return whether a plan keeps both bounds as configured."""
    balanced = float(plan.loads.max()) <= configured_limit(keys, config)
    return balanced and plan.table_size(keys) <= config.max_table


def _pigeonhole_bound(cost: Floats, workers: int, max_imbalance: float) -> tuple[float, int]:
    """Return the largest pigeonhole bound and the key that causes it.

    The bound for q is at most (q + 1) / q means, so only q below 1 / theta_max can matter.
    """
    if not len(cost):
        return 0.0, -1
    rounds = int(min(1 / max(max_imbalance, 1e-3), 64, (len(cost) - 1) // workers)) + 1
    top = min(len(cost), rounds * workers + 1)
    heavy = np.argpartition(-cost, top - 1)[:top] if top < len(cost) else np.arange(len(cost))
    heavy = heavy[np.lexsort((heavy, -cost[heavy]))]
    sums = np.concatenate(([0.0], np.cumsum(cost[heavy])))
    ends = np.arange(1, top + 1, workers)
    floors = sums[ends] - sums[ends - np.arange(1, len(ends) + 1)]
    best = int(floors.argmax())
    return float(floors[best]), int(heavy[ends[best] - 1])


def _fixed_keys(keys: KeyLoads, limit: float) -> Bools:
    """Mark immovable keys and, on each worker, the heaviest too heavy key: moving it is useless."""
    fixed = keys.immovable_mask.copy()
    heavy = np.flatnonzero(keys.cost > limit)
    order = heavy[np.lexsort((heavy, -keys.state[heavy], -keys.cost[heavy]))]
    _, first = np.unique(keys.owner[order], return_index=True)
    fixed[order[first]] = True
    return fixed
