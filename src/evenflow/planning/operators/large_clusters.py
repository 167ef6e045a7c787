"""Planning of large clusters in parts (borealis-load-distribution, section 4.3).

*Domains* are sets of workers planned one after the other, each from its own workers and operators
alone. Disjoint domains share no worker; overlapping ones do, so that load can travel further over
several rounds. A *decentralised* run has no coordinator: each worker knows the workers of its own
domain only, finds its partner among them as section 3.3 pairs workers, and exchanges operators with
it.

*Super-operators*: the time of the planners grows with the square of the operators on a worker, and
many operators on a worker are mostly light ones that need no decision each. So light movable
operators of one worker are bundled until a bundle carries at least a given load. Neighbours in the
list are bundled first: they are usually neighbours in the network too, so the stream between them
stays local.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenflow.errors import InputError, require_non_negative
from evenflow.model import LoadSeries
from evenflow.model.arrays import NOWHERE, Floats, Indices, Rng, Workers
from evenflow.planning.operators.load_statistics import correlations, divergent_level, worker_series
from evenflow.planning.operators.pairwise import pair_by_load
from evenflow.planning.operators.problem import OperatorConfig, OperatorPlan, OperatorSnapshot
from evenflow.planning.operators.registry import plan_operators
from evenflow.planning.operators.variance import assign_to_groups

LARGE_CLUSTER_WAYS = ("domains", "overlapping", "pairs", "central")


def disjoint_domains(loads: Floats, size: int) -> list[Indices]:
    """Return domains of about `size` workers with about equal load, each worker in one.

    Workers are dealt out by load, back and forth.

    >>> [domain.tolist() for domain in disjoint_domains(np.array([4.0, 3.0, 2.0, 1.0]), 2)]
    [[0, 3], [1, 2]]
    """
    _check_size(size)
    count = max(round(len(loads) / size), 1)
    order = np.argsort(-loads, kind="stable")
    turn = np.arange(len(loads)) % (2 * count)
    dealt = np.where(turn < count, turn, 2 * count - 1 - turn)
    return [np.sort(order[dealt == domain]) for domain in range(count)]


def overlapping_domains(workers: int, size: int) -> list[Indices]:
    """Return for each worker the domain it knows: itself and the next ones around a ring.

    >>> [domain.tolist() for domain in overlapping_domains(3, 2)]
    [[0, 1], [1, 2], [2, 0]]
    """
    _check_size(size)
    return [(worker + np.arange(min(size, workers))) % workers for worker in range(workers)]


def _refuse_capacities(config: OperatorConfig) -> None:
    if config.capacities is not None:
        raise InputError("parts of a cluster are planned for equal workers; leave out capacities")


def _check_size(size: int) -> None:
    if size < 2:
        raise InputError(f"a domain needs at least 2 workers, got {size}")


def restrict_to_workers(
    snapshot: OperatorSnapshot, placement: Workers, workers: Indices
) -> tuple[OperatorSnapshot, Indices]:
    """Return what some workers know, numbered 0, 1, ... as listed, and their operators."""
    number = np.full(snapshot.workers, -1, dtype=np.int32)
    number[workers] = np.arange(len(workers))
    operators = np.flatnonzero(number[placement] >= 0)
    series = LoadSeries(
        tuple(snapshot.series.operators[o] for o in operators),
        snapshot.samples[operators],
        snapshot.series.movable[operators],
    )
    return OperatorSnapshot(series, len(workers), number[placement[operators]]), operators


def plan_domains(
    algorithm: str,
    snapshot: OperatorSnapshot,
    config: OperatorConfig,
    rng: Rng,
    domains: Sequence[Indices],
) -> Workers:
    """Plan one domain after the other; overlapping ones see what earlier ones decided.

    Operators that run nowhere yet are first assigned to the domains, as `variance` would to
    workers of different sizes.
    """
    _refuse_capacities(config)
    placement = _assign_new_to_domains(snapshot, domains, rng)
    new = snapshot.is_new.copy()
    for workers in domains:
        part, operators = restrict_to_workers(snapshot, placement, workers)
        start = np.where(new[operators] & part.series.movable, NOWHERE, part.placement)
        part = OperatorSnapshot(part.series, part.workers, start)
        plan = plan_operators(algorithm, part, config.for_operators(operators), rng)
        placement[operators] = workers[plan.placement]
        new[operators] = False
    return placement


def _assign_new_to_domains(
    snapshot: OperatorSnapshot, domains: Sequence[Indices], rng: Rng
) -> Workers:
    """Return a placement in which new operators have the first worker of their domain."""
    placement = snapshot.placement.copy()
    if not snapshot.is_new.any():
        return placement
    domain_of = np.zeros(snapshot.workers, dtype=np.int32)
    for number, workers in enumerate(domains):
        domain_of[workers] = number
    groups = np.where(snapshot.is_new, NOWHERE, domain_of[placement])
    sizes = np.array([len(workers) for workers in domains])
    owner = assign_to_groups(OperatorSnapshot(snapshot.series, len(domains), groups), sizes, rng)
    firsts = np.array([workers[0] for workers in domains])
    return np.where(snapshot.is_new, firsts[owner], placement).astype(np.int32)


def plan_decentralised(
    algorithm: str,
    snapshot: OperatorSnapshot,
    config: OperatorConfig,
    rng: Rng,
    size: int,
    rounds: int = 1,
) -> Workers:
    """Let every worker act once a round, in random order, on what it knows.

    It exchanges with the partner that the pairing of its domain gives it and, if its divergent
    load level is above capacity, with the worker of its domain it is least correlated with. Those
    busy with another exchange of the same round are passed over.
    """
    _refuse_capacities(config)
    if snapshot.is_new.any():
        raise InputError("a decentralised run needs a worker for every operator")
    placement = snapshot.placement.copy()
    known = overlapping_domains(snapshot.workers, size)
    for _ in range(rounds):
        busy: set[int] = set()
        for worker in rng.permutation(snapshot.workers).tolist():
            for partner in _partners(snapshot, placement, known[worker], config):
                if worker not in busy and partner not in busy:
                    pair = np.array([worker, partner])
                    part, operators = restrict_to_workers(snapshot, placement, pair)
                    plan = plan_operators(algorithm, part, config.for_operators(operators), rng)
                    after = pair[plan.placement]
                    if (after != placement[operators]).any():
                        placement[operators] = after
                        busy |= {worker, partner}
    return placement


def _partners(
    snapshot: OperatorSnapshot, placement: Workers, domain: Indices, config: OperatorConfig
) -> list[int]:
    """Return whom the first worker of a domain should exchange with, from its domain alone."""
    part, _ = restrict_to_workers(snapshot, placement, domain)
    series = worker_series(part.samples, part.placement, part.workers)
    pairs = pair_by_load(series.mean(axis=1))
    partners = [one + two for one, two in pairs if 0 in (one, two)]  # the other: this one is 0
    if divergent_level(series)[0] > config.capacity and part.workers > 1:
        partners.append(1 + int(np.argmin(correlations(series)[0, 1:])))
    return [int(domain[at]) for at in partners]


@dataclass(frozen=True, slots=True, eq=False)
class OperatorClusters:
    """The snapshot of super-operators, and which one each operator belongs to."""

    snapshot: OperatorSnapshot
    cluster_of: Indices

    def expand_placement(self, placement: Workers) -> Workers:
        """Return the placement of operators from that of super-operators."""
        return placement[self.cluster_of]


def cluster_operators(snapshot: OperatorSnapshot, least_load: float) -> OperatorClusters:
    """Bundle operators lighter than `least_load`, each bundle on one worker.

    >>> series = LoadSeries(("a", "b", "c"), [[0.1], [0.5], [0.2]], [True, True, True])
    >>> clusters = cluster_operators(OperatorSnapshot(series, 2, [0, 0, 0]), least_load=0.3)
    >>> clusters.snapshot.series.operators, clusters.cluster_of.tolist()
    (('a+1', 'b'), [0, 1, 0])
    """
    require_non_negative("least_load", least_load)
    load, movable = snapshot.load, snapshot.series.movable
    leader = np.arange(len(load))
    light = np.flatnonzero(movable & (load < least_load))
    for worker in np.unique(snapshot.placement[light]).tolist():
        operators = light[snapshot.placement[light] == worker]
        sums = np.cumsum(load[operators])
        start = 0
        while start < len(operators):
            carried = sums[start - 1] if start else 0.0
            end = int(np.searchsorted(sums, carried + least_load)) + 1
            if end > len(operators) and start:  # the rest is too light for its own bundle
                leader[operators[start:]] = leader[operators[start - 1]]
            else:
                leader[operators[start:end]] = operators[start]
            start = end
    leaders, member_of = np.unique(leader, return_inverse=True)
    samples = worker_series(snapshot.samples, member_of.astype(np.int64), len(leaders))
    others = np.bincount(member_of) - 1
    names = tuple(
        snapshot.series.operators[o] + (f"+{more}" if more else "")
        for o, more in zip(leaders.tolist(), others.tolist(), strict=True)
    )
    bundled = LoadSeries(names, samples, movable[leaders])
    return OperatorClusters(
        OperatorSnapshot(bundled, snapshot.workers, snapshot.placement[leaders]), member_of
    )


def plan_clustered(
    algorithm: str, snapshot: OperatorSnapshot, config: OperatorConfig, rng: Rng, least_load: float
) -> OperatorPlan:
    """Plan super-operators and expand the plan; verdicts name super-operators."""
    clusters = cluster_operators(snapshot, least_load)
    if config.traffic is not None:
        config = replace(config, traffic=config.traffic.merge_operators(clusters.cluster_of))
    planned = plan_operators(algorithm, clusters.snapshot, config, rng)
    return OperatorPlan(clusters.expand_placement(planned.placement), planned.verdicts)


def plan_large_cluster(
    algorithm: str,
    snapshot: OperatorSnapshot,
    config: OperatorConfig,
    rng: Rng,
    way: str,
    *,
    domain_size: int,
    max_operators: int,
) -> Workers:
    """Plan one of `LARGE_CLUSTER_WAYS`, with about `max_operators` super-operators at most."""
    if way not in LARGE_CLUSTER_WAYS:
        raise InputError(f"unknown way {way}; choose one of {', '.join(LARGE_CLUSTER_WAYS)}")
    movable_load = float(snapshot.load[snapshot.series.movable].sum())
    many = int(snapshot.series.movable.sum()) > max_operators
    clusters = cluster_operators(snapshot, movable_load / max_operators if many else 0.0)
    bundled = clusters.snapshot
    if config.traffic is not None:
        config = replace(config, traffic=config.traffic.merge_operators(clusters.cluster_of))
    if way == "domains":
        loads = worker_series(bundled.samples, bundled.placement, bundled.workers).mean(axis=1)
        domains = disjoint_domains(loads, domain_size)
        placement = plan_domains(algorithm, bundled, config, rng, domains)
    elif way == "overlapping":
        domains = overlapping_domains(bundled.workers, domain_size)
        step = max(domain_size // 2, 1)
        placement = plan_domains(algorithm, bundled, config, rng, domains[::step])
    elif way == "pairs":
        placement = plan_decentralised(algorithm, bundled, config, rng, domain_size)
    else:
        placement = plan_operators(algorithm, bundled, config, rng).placement
    return clusters.expand_placement(placement)
