"""Several choices per key: PKG, D-Choices and W-Choices, baselines for aggregates.

PKG, partial key grouping (Nasir et al., ICDE 2015)
    Every key has two candidate workers. Each of its tuples goes to the less loaded of the two, and
    partial results are merged. A key with more than 2/n of the load overloads both.

D-Choices and W-Choices (Nasir et al., ICDE 2016)
    Keys with at least theta = 1/(5n) of the load are the *head*; all others have two choices. Keys
    of the head have d choices (D) or all workers (W). d is the smallest number for which the
    candidates of each prefix of the head can carry what must go to them (`head_choices`).

Letters of the papers: n workers, p_k part of the load of key k, H head, b_h expected number of
different candidates of the h heaviest keys, epsilon imbalance that is tolerated.

Departures
    A plan holds for an interval, and the content of a row decides among the owners, so that a batch
    that runs again divides its rows alike: tuples are not sent by the load of the moment. Instead,
    the heaviest key first, the least loaded of a key's candidates share it evenly, as many as give
    the lowest maximum. The papers need no table; here every key off its hash worker takes an entry,
    and keys too light to matter (`LEAST_COST`), or without room in the table, stay there. The
    candidates of a key are different workers. A key whose rows must be copied (a join) or cannot be
    divided stays where it is.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evenflow.model import KeyLoads, Verdict, VerdictCode, hash_keys
from evenflow.model.arrays import Bools, Floats, Indices, Rng, Workers
from evenflow.planning.keys.balance_goal import balance_goal, configured_limit, finish_plan
from evenflow.planning.keys.problem import KeyConfig, KeyPlan

EPSILON = 1e-4
HEAD_PART = 0.2  # theta = HEAD_PART / n
LEAST_COST = 0.002  # of the mean load of a worker


def pkg(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Give every key two choices."""
    return _plan_choices(keys, config, {})


def d_choices(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Give the keys of the head d choices, all others two."""
    head = head_keys(keys)
    total = float(keys.cost.sum())
    shares = keys.cost[head] / total if total > 0 else keys.cost[head]
    choices = head_choices(shares, keys.workers)
    return _plan_choices(keys, config, dict.fromkeys(head.tolist(), choices))


def w_choices(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Give the keys of the head all workers, all others two choices."""
    return _plan_choices(keys, config, dict.fromkeys(head_keys(keys).tolist(), keys.workers))


def head_keys(keys: KeyLoads) -> Indices:
    """Return the divisible keys with at least theta of the load, the heaviest first."""
    theta = HEAD_PART / keys.workers
    heavy = np.flatnonzero(divisible_keys(keys) & (keys.cost >= theta * keys.cost.sum()))
    order: Indices = heavy[np.argsort(-keys.cost[heavy], kind="stable")]
    return order


def divisible_keys(keys: KeyLoads) -> Bools:
    """Mark the keys whose rows each go to one owner: no part of their cost is shared."""
    free: Bools = (keys.cost > 0) & (keys.shared_cost <= 1e-9 * keys.cost)
    return free & ~keys.immovable_mask


def all_divisible(keys: KeyLoads) -> KeyLoads:
    """Return the keys as those of an aggregate: any number of workers may share each of them."""
    return replace(keys, shared=np.zeros(len(keys)))


def head_choices(shares: Floats, workers: int) -> int:
    """Return d for a head with these parts of the load, descending; at most all workers.

    For each h, what goes to the candidates of the h heaviest keys: all of these keys, keys of the
    rest of the head whose d candidates are all among them, and likewise two for the tail. That must
    not exceed b_h / n + epsilon, as in the authors' program (SLBStorm), which tests the first and
    the last h only.

    >>> head_choices(np.array([0.3]), 10), head_choices(np.array([0.02]), 10)
    (6, 2)
    """
    if not len(shares) or workers < 3:
        return min(2, workers)
    prefix, tail = np.cumsum(shares), max(1.0 - float(shares.sum()), 0.0)
    for choices in range(max(2, int(np.ceil(shares[0] * workers))), workers):
        candidates = expected_candidates(np.arange(1, len(shares) + 1) * choices, workers)
        part = candidates / workers
        needed = prefix + part**choices * (prefix[-1] - prefix) + part**2 * tail
        if bool((needed <= part + EPSILON).all()):
            return choices
    return workers


def expected_candidates(draws: Indices, workers: int) -> Floats:
    """Return b_h: how many different workers so many random draws give on average."""
    return workers - workers * np.power((workers - 1) / workers, draws.astype(np.float64))


def candidate_workers(keys: KeyLoads, key: int, choices: int) -> tuple[int, ...]:
    """Return the candidates of a key: its hash worker, then others in the order of their hashes.

    They depend only on the key, and more choices add candidates.
    """
    home = int(keys.home[key])
    key_hash = np.uint64(key) if keys.hashes is None else keys.hashes[key]
    others = np.delete(np.arange(keys.workers), home)
    order = np.argsort(hash_keys(np.full(len(others), key_hash).astype(np.int64), others))
    return (home, *others[order][: choices - 1].tolist())


def _plan_choices(keys: KeyLoads, config: KeyConfig, head: Mapping[int, int]) -> KeyPlan:
    """Share the keys of the head among their choices, then place the tail."""
    divisible = divisible_keys(keys)
    owner = np.where(divisible, keys.home, keys.owner).astype(np.int32)
    splits: dict[int, tuple[int, ...]] = {}
    planned = divisible & (keys.cost >= LEAST_COST * keys.cost.sum() / keys.workers)
    loads = np.bincount(owner, np.where(planned, 0.0, keys.cost), keys.workers).astype(np.float64)
    heaviest_first = np.argsort(-keys.cost, kind="stable")
    room = config.max_table - int(np.count_nonzero(owner != keys.home))
    for key in heaviest_first[planned[heaviest_first]].tolist():
        choices = min(head.get(key, 2), config.max_owners, keys.workers) if room > 0 else 1
        candidates = candidate_workers(keys, key, choices)
        owners = _least_loaded(candidates, float(keys.cost[key]), loads)
        loads[list(owners)] += keys.cost[key] / len(owners)
        owner[key] = owners[0]
        if len(owners) > 1:
            splits[key] = owners
        room -= len(owners) > 1 or owners[0] != keys.home[key]
    return _finished(keys, config, owner, loads, splits)


def _least_loaded(candidates: tuple[int, ...], cost: float, loads: Floats) -> tuple[int, ...]:
    """Return the candidates, the least loaded first, that share a key with the lowest maximum."""
    ordered = sorted(candidates, key=lambda worker: loads[worker])
    counts = np.arange(1, len(ordered) + 1)
    levels = loads[ordered] + cost / counts  # of the fullest, if so many share the key
    most = int(counts[levels <= levels.min() * (1 + 1e-12)].max())
    return tuple(worker for worker in candidates if worker in ordered[:most])


def _finished(
    keys: KeyLoads,
    config: KeyConfig,
    owner: Workers,
    loads: Floats,
    splits: dict[int, tuple[int, ...]],
) -> KeyPlan:
    goal = replace(balance_goal(keys, config), max_load=configured_limit(keys, config), verdicts=())
    plan = replace(finish_plan(keys, config, owner, goal, loads), splits=splits)
    if not splits:
        return plan
    partial_results = sum(map(len, splits.values()))
    merge = Verdict(
        VerdictCode.SPLIT_KEYS,
        f"{len(splits)} keys",
        f"{len(splits)} keys are split: {partial_results} partial results need a merge in every "
        "batch, and joins are not possible",
    )
    return replace(plan, verdicts=(*plan.verdicts, merge))
