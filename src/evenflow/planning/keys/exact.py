"""The optimum of equation 3 for small cases: least state moved under both bounds.

Every move of a key costs its state, wherever it goes; only the way home also saves a table entry.
So destinations other than home are first left open: a relaxed model decides for each key whether it
stays, goes home or goes elsewhere, with the load that goes elsewhere spread freely over the room
there is. It has two binaries a key instead of one for each worker. If the keys it sends elsewhere
can be packed into that room, its optimum is the optimum; only otherwise the full model, one binary
for each key and worker, is solved. Both by HiGHS (extra `solvers`).

`cover` plans first: a key with more state than all that cover moves cannot be part of the optimum,
and its plan is used if time runs out. Costs go to the solver in units of the mean load, states in
units of cover's plan, since its tolerances are absolute.
"""

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from evenflow.errors import InputError
from evenflow.model import KeyLoads, Verdict, VerdictCode
from evenflow.model.arrays import Floats, Indices, Rng, Workers
from evenflow.planning.keys.balance_goal import (
    BalanceGoal,
    balance_goal,
    current_owners_suffice,
    finish_plan,
)
from evenflow.planning.keys.cover import cover
from evenflow.planning.keys.metrics import moved_state
from evenflow.planning.keys.problem import KeyConfig, KeyPlan

MAX_SECONDS = 120.0
MAX_BINARIES = 400_000
OPTIMALITY_GAP = 1e-6  # relative gap at which a solution counts as the optimum
STATUS_INFEASIBLE = 2  # status of the solver: no solution exists


@dataclass(frozen=True, slots=True, eq=False)
class SolverCase:
    """A problem, a plan of it if one is known, and which keys may move."""

    keys: KeyLoads
    config: KeyConfig
    goal: BalanceGoal
    known_plan: KeyPlan | None
    movable: Floats  # 1 for keys that may move
    state_unit: float

    @property
    def load_unit(self) -> float:
        """The mean load of a worker; 1 if no key has any."""
        return self.goal.mean_load or 1.0

    @classmethod
    def of(cls, keys: KeyLoads, config: KeyConfig) -> "SolverCase":
        """Plan with cover and rule out keys with more state than it moves."""
        goal, movable = balance_goal(keys, config), ~keys.immovable_mask
        plan = cover(keys, config, np.random.default_rng(0))
        if not goal.is_met(plan.loads) or plan.table_size(keys) > config.max_table:
            unit = float(keys.state.mean()) or 1.0
            return cls(keys, config, goal, None, movable.astype(np.float64), unit)
        moved = moved_state(keys, plan.owner)
        movable &= keys.state <= moved * (1 + OPTIMALITY_GAP)
        return cls(keys, config, goal, plan, movable.astype(np.float64), moved / 1e4 or 1.0)


def exact(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Return a plan that provably moves the least state, or a verdict with the remaining gap."""
    goal = balance_goal(keys, config)
    if current_owners_suffice(keys, config, goal):
        return finish_plan(keys, config, keys.owner, goal)
    case = SolverCase.of(keys, config)
    solution = _solve(_relaxed_model(case))
    owner = _round_relaxed_solution(case, solution)
    small = len(keys) * keys.workers <= MAX_BINARIES
    if owner is None and solution.status != STATUS_INFEASIBLE and small:
        solution = _solve(_full_model(case))
        owner = _owners_of_solution(case, solution)
    if owner is None and solution.status == STATUS_INFEASIBLE and case.known_plan is None:
        return _add_verdict(
            finish_plan(keys, config, keys.owner, goal),
            VerdictCode.NO_PLAN,
            "no plan keeps the balance and the table bound; nothing moves",
        )
    best = _less_moved_plan(case, owner)
    lower_bound = float(solution.mip_dual_bound or 0.0) * case.state_unit
    moved = moved_state(keys, best.owner)
    if case.known_plan is None and owner is None:
        return _add_verdict(
            best,
            VerdictCode.NOT_PROVEN,
            f"no plan was found within {MAX_SECONDS:g} s; nothing moves",
        )
    if moved - lower_bound <= OPTIMALITY_GAP * max(moved, case.state_unit):
        return best
    gap = f"{(moved - lower_bound) / moved:.2%}"
    return _add_verdict(
        best, VerdictCode.NOT_PROVEN, f"the plan moves at most {gap} more than the optimum"
    )


def _less_moved_plan(case: SolverCase, owner: Workers | None) -> KeyPlan:
    """Return the plan of the solver or the one known before, whichever moves less."""
    if owner is None and case.known_plan is not None:
        return case.known_plan
    owner = case.keys.owner if owner is None else owner
    plan = finish_plan(case.keys, case.config, owner, case.goal)
    plans = [plan] if case.known_plan is None else [plan, case.known_plan]
    return min(plans, key=lambda plan: moved_state(case.keys, plan.owner))


def _add_verdict(plan: KeyPlan, code: VerdictCode, message: str) -> KeyPlan:
    return replace(plan, verdicts=(*plan.verdicts, Verdict(code, "all keys", message)))


def least_moved_state(keys: KeyLoads, config: KeyConfig) -> float:
    """Return state that every plan within the bounds must move: the relaxed model as an LP."""
    case = SolverCase.of(keys, config)
    solution = _solve(_relaxed_model(case), binary=False)
    return float("inf") if solution.x is None else float(solution.fun) * case.state_unit


def _relaxed_model(case: SolverCase) -> dict[str, Any]:
    """Variables: away_k, home_k (binary), in_d (load that arrives at d from elsewhere)."""
    sparse = _import_scipy("sparse")
    keys, count, workers = case.keys, len(case.keys), case.keys.workers
    every, displaced = np.arange(count), np.flatnonzero(keys.owner != keys.home)
    cost, width = keys.cost / case.load_unit, 2 * count + workers
    rows = np.concatenate(
        (keys.owner, keys.owner[displaced], keys.home[displaced], np.arange(workers))
    )
    columns = np.concatenate(
        (every, count + displaced, count + displaced, 2 * count + np.arange(workers))
    )
    values = np.concatenate((-cost, -cost[displaced], cost[displaced], np.ones(workers)))
    loads = sparse.csr_array((values, (rows, columns)), shape=(workers, width))
    once = sparse.csr_array(
        (np.ones(2 * count), (np.tile(every, 2), np.arange(2 * count))), shape=(count, width)
    )
    flow = np.zeros((1, width))
    flow[0, :count], flow[0, 2 * count :] = cost, -1.0
    entries = np.zeros((1, width))
    entries[0, :count] = keys.owner == keys.home
    entries[0, count + displaced] = -1.0
    upper = np.concatenate((case.movable, np.zeros(count), np.full(workers, np.inf)))
    upper[count + displaced] = case.movable[displaced]
    room = (case.goal.max_load - keys.worker_loads()) / case.load_unit
    return {
        "c": np.concatenate((_move_prices(case), _move_prices(case), np.zeros(workers))),
        "upper": upper,
        "whole": np.concatenate((np.ones(2 * count), np.zeros(workers))),
        "matrix": sparse.vstack((loads, once, sparse.csr_array(flow), sparse.csr_array(entries))),
        "low": np.concatenate((np.full(workers + count, -np.inf), [0.0, -np.inf])),
        "high": np.concatenate(
            (room, np.ones(count), [0.0, case.config.max_table - len(displaced)])
        ),
    }


def _round_relaxed_solution(case: SolverCase, solution: Any) -> Workers | None:
    """Give keys that go elsewhere a worker with room, the heaviest first; None if one fits nowhere.

    The least loaded worker is tried first, for an even result, then the fullest that has room.
    """
    if solution.x is None:
        return None
    count = len(case.keys)
    home = solution.x[count : 2 * count] > 0.5
    away = np.flatnonzero((solution.x[:count] > 0.5) & ~home)
    even = _pack_heaviest_first(case, home, away, emptiest=True)
    return _pack_heaviest_first(case, home, away, emptiest=False) if even is None else even


def _pack_heaviest_first(
    case: SolverCase, home: Any, away: Indices, emptiest: bool
) -> Workers | None:
    keys = case.keys
    owner = np.where(home, keys.home, keys.owner)
    load = keys.worker_loads(owner)
    np.subtract.at(load, keys.owner[away], keys.cost[away])
    for key in away[np.argsort(-keys.cost[away], kind="stable")]:
        fits = load + keys.cost[key] <= case.goal.max_load
        fits[keys.owner[key]] = False
        if not fits.any():
            return None
        score = np.where(fits, -load if emptiest else load, -np.inf)
        worker = int(score.argmax())
        owner[key] = worker
        load[worker] += keys.cost[key]
    return owner if load.max() <= case.goal.max_load else None


def _full_model(case: SolverCase) -> dict[str, Any]:
    """One binary for each key and worker."""
    sparse = _import_scipy("sparse")
    keys, count, workers = case.keys, len(case.keys), case.keys.workers
    size = count * workers
    key: Indices = np.repeat(np.arange(count), workers)
    worker = np.tile(np.arange(workers), count)
    column, stays = np.arange(size), worker == keys.owner[key]
    cost = keys.cost[key] / case.load_unit
    loads = sparse.csr_array((cost, (worker, column)), shape=(workers, size))
    once = sparse.csr_array((np.ones(size), (key, column)), shape=(count, size))
    entries = sparse.csr_array((worker != keys.home[key]).astype(float)[None, :])
    limits = np.full(workers, case.goal.max_load / case.load_unit)
    return {
        "c": np.where(stays, 0.0, _move_prices(case)[key]),
        "upper": np.where(stays, 1.0, case.movable[key]),
        "whole": np.ones(size),
        "matrix": sparse.vstack((loads, once, entries)),
        "low": np.concatenate((np.full(workers, -np.inf), np.ones(count), [-np.inf])),
        "high": np.concatenate((limits, np.ones(count), [float(case.config.max_table)])),
    }


def _owners_of_solution(case: SolverCase, solution: Any) -> Workers | None:
    if solution.x is None:
        return None
    owner: Workers = solution.x.reshape(len(case.keys), -1).argmax(axis=1).astype(np.int32)
    return owner


def _move_prices(case: SolverCase) -> Floats:
    """Price of a move: the state; a tiny price for keys without state, so that they stay."""
    state = case.keys.state / case.state_unit
    return np.where(state > 0, state, 1e-6)


def _solve(model: dict[str, Any], binary: bool = True) -> Any:
    optimize = _import_scipy("optimize")
    return optimize.milp(
        model["c"],
        integrality=model["whole"] if binary else None,
        bounds=optimize.Bounds(0.0, model["upper"]),
        constraints=optimize.LinearConstraint(model["matrix"], model["low"], model["high"]),
        options={"time_limit": MAX_SECONDS, "mip_rel_gap": OPTIMALITY_GAP / 10},
    )


def _import_scipy(part: str) -> Any:
    try:
        return import_module(f"scipy.{part}")
    except ImportError as error:
        message = "exact needs a solver: install evenflow with the extra [solvers]"
        raise InputError(message) from error
