"""The optimum of equation 3 for small cases: least state moved under both bounds.

Every move of a key costs its state, wherever it goes; only the way home also saves a table entry.
So destinations other than home are first left open: a relaxed model decides for each key whether it
stays, goes home or goes elsewhere, with the load that goes elsewhere spread freely over the room
there is. It has two binaries a key instead of one for each worker. If the keys it sends
elsewhere can be packed into that room, its optimum is the optimum; only otherwise the full model,
one binary for each key and worker, is solved. Both by HiGHS (extra `solvers`).
"""

from typing import Any

import numpy as np

from evenflow.errors import InputError
from evenflow.model import KeyLoads, Verdict
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.keys.bound import Bound, bound, close, settled
from evenflow.planning.keys.config import KeyConfig, KeyPlan

MAX_SECONDS = 120.0
MAX_BINARIES = 400_000


def exact(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Return a plan that provably moves the least state, or a verdict saying how near it is."""
    aim = bound(keys, config)
    if settled(keys, config, aim):
        return close(keys, config, keys.owner, aim)
    goes, gap = _relaxed(keys, config, aim)
    owner = None if goes is None else _pack(keys, goes, aim)
    if goes is not None and owner is None:
        owner, gap = _full(keys, config, aim)
    if owner is None:
        unsolved = Verdict(
            "no_plan", "all keys", "no plan keeps the balance and the table bound; nothing moves"
        )
        plan = close(keys, config, keys.owner, aim)
        return KeyPlan(plan.owner, plan.loads, (*plan.verdicts, unsolved))
    plan = close(keys, config, owner, aim)
    if gap <= 1e-6:
        return plan
    verdict = Verdict(
        "not_proven",
        "all keys",
        f"stopped after {MAX_SECONDS:g} s with a plan at most {gap:.2%} above the optimum",
        gap,
    )
    return KeyPlan(plan.owner, plan.loads, (*plan.verdicts, verdict))


def lower_bound(keys: KeyLoads, config: KeyConfig) -> float:
    """Return state that every plan within the bounds must move: the relaxed model as an LP."""
    solution = _solve(_model(keys, config, bound(keys, config)), binary=False)
    return float(solution.fun) if solution.x is not None else float("inf")


def _relaxed(keys: KeyLoads, config: KeyConfig, aim: Bound) -> tuple[Floats | None, float]:
    """Return for each key 0 (stays), 1 (goes home) or 2 (goes elsewhere), and the gap."""
    solution = _solve(_model(keys, config, aim), binary=True)
    if solution.x is None:
        return None, 0.0
    away = solution.x[: len(keys)] > 0.5
    home = solution.x[len(keys) : 2 * len(keys)] > 0.5
    return np.where(home, 1, np.where(away, 2, 0)), float(solution.mip_gap or 0.0)


def _model(keys: KeyLoads, config: KeyConfig, aim: Bound) -> dict[str, Any]:
    """Variables: away_k, home_k (binary), in_d (load that arrives at d from elsewhere)."""
    from scipy import sparse

    count, workers = len(keys), keys.workers
    every, displaced = np.arange(count), np.flatnonzero(keys.owner != keys.home)
    cost, width = keys.cost, 2 * count + workers
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
    upper = np.zeros(width)
    upper[:count] = ~aim.fixed
    upper[count + displaced] = ~aim.fixed[displaced]
    upper[2 * count :] = np.inf
    price = np.concatenate((_move_cost(keys), _move_cost(keys), np.zeros(workers)))
    return {
        "c": price,
        "upper": upper,
        "whole": np.concatenate((np.ones(2 * count), np.zeros(workers))),
        "matrix": sparse.vstack((loads, once, sparse.csr_array(flow), sparse.csr_array(entries))),
        "low": np.concatenate((np.full(workers + count, -np.inf), [0.0, -np.inf])),
        "high": np.concatenate(
            (aim.limit - keys.loads(), np.ones(count), [0.0, config.max_table - len(displaced)])
        ),
    }


def _pack(keys: KeyLoads, goes: Floats, aim: Bound) -> Workers | None:
    """Give keys that go elsewhere a worker with room, the heaviest first; None if one has none.

    The least loaded worker is tried first, for an even result, then the fullest that still has
    room.
    """
    even = _fill(keys, goes, aim, emptiest=True)
    return _fill(keys, goes, aim, emptiest=False) if even is None else even


def _fill(keys: KeyLoads, goes: Floats, aim: Bound, emptiest: bool) -> Workers | None:
    owner = np.where(goes == 1, keys.home, keys.owner).astype(np.int32)
    load = keys.loads(owner)
    away = np.flatnonzero(goes == 2)
    np.subtract.at(load, keys.owner[away], keys.cost[away])
    for key in away[np.argsort(-keys.cost[away], kind="stable")]:
        fits = load + keys.cost[key] <= aim.limit
        fits[keys.owner[key]] = False
        if not fits.any():
            return None
        score = np.where(fits, -load if emptiest else load, -np.inf)
        worker = int(score.argmax())
        owner[key] = worker
        load[worker] += keys.cost[key]
    return owner


def _full(keys: KeyLoads, config: KeyConfig, aim: Bound) -> tuple[Workers | None, float]:
    """Solve with one binary for each key and worker."""
    from scipy import sparse

    count, workers = len(keys), keys.workers
    size = count * workers
    if size > MAX_BINARIES:
        raise InputError(
            f"exact is for small cases: {count} keys x {workers} workers need {size} binaries, "
            f"at most {MAX_BINARIES} are tried; use cover"
        )
    key: Indices = np.repeat(np.arange(count), workers)
    worker = np.tile(np.arange(workers), count)
    column = np.arange(size)
    price = np.where(worker == keys.owner[key], 0.0, _move_cost(keys)[key])
    loads = sparse.csr_array((keys.cost[key], (worker, column)), shape=(workers, size))
    once = sparse.csr_array((np.ones(size), (key, column)), shape=(count, size))
    entries = sparse.csr_array((worker != keys.home[key]).astype(float)[None, :])
    upper = np.where(aim.fixed[key] & (worker != keys.owner[key]), 0.0, 1.0)
    solution = _solve(
        {
            "c": price,
            "upper": upper,
            "whole": np.ones(size),
            "matrix": sparse.vstack((loads, once, entries)),
            "low": np.concatenate((np.full(workers, -np.inf), np.ones(count), [-np.inf])),
            "high": np.concatenate(
                (np.full(workers, aim.limit), np.ones(count), [float(config.max_table)])
            ),
        },
        binary=True,
    )
    if solution.x is None:
        return None, 0.0
    chosen = solution.x.reshape(count, workers).argmax(axis=1).astype(np.int32)
    return chosen, float(solution.mip_gap or 0.0)


def _move_cost(keys: KeyLoads) -> Floats:
    """Price of a move: the state, with a trifle for keys that have none so that they rest."""
    trifle = 1e-6 * float(keys.state.mean() or 1.0)
    return np.where(keys.state > 0, keys.state, trifle)


def _solve(model: dict[str, Any], binary: bool) -> Any:
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ImportError as error:
        raise InputError(
            "exact needs a solver: install evenflow with the extra [solvers]"
        ) from error
    scale = float(model["c"].max()) or 1.0
    solution = milp(
        model["c"] / scale,
        integrality=model["whole"] if binary else None,
        bounds=Bounds(0.0, model["upper"]),
        constraints=LinearConstraint(model["matrix"], model["low"], model["high"]),
        options={"time_limit": MAX_SECONDS, "mip_rel_gap": 1e-7},
    )
    if solution.x is not None:
        solution.fun = float(solution.fun) * scale
    return solution
