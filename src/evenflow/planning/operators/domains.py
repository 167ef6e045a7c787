"""Planning by domains, and without a coordinator (borealis-load-distribution, section 4.3).

Large clusters are planned in parts. *Disjoint* domains share no worker; *overlapping* ones do, so
that load can travel further over several rounds. A *decentralised* run has no
coordinator at all: each worker knows the workers of its own domain only, finds its partner among
them as section 3.3 pairs workers, and exchanges operators with it.

A domain is planned from its own workers and operators alone; nothing outside is read.
"""

from collections.abc import Sequence

import numpy as np

from evenflow.errors import InputError
from evenflow.model import LoadSeries
from evenflow.model.arrays import NOWHERE, Floats, Indices, Workers
from evenflow.planning.operators.load_statistics import (
    correlations,
    divergent_level,
    worker_series,
)
from evenflow.planning.operators.pairwise import pair_by_load
from evenflow.planning.operators.problem import OperatorConfig, OperatorSnapshot
from evenflow.planning.operators.registry import plan_operators
from evenflow.planning.operators.variance import assign_to_groups


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
    rng: np.random.Generator,
    domains: Sequence[Indices],
) -> Workers:
    """Plan one domain after the other; overlapping ones see what earlier ones decided.

    Operators that run nowhere yet are first assigned to the domains, as `variance` would to
    workers of different sizes.
    """
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
    snapshot: OperatorSnapshot, domains: Sequence[Indices], rng: np.random.Generator
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
    rng: np.random.Generator,
    size: int,
    rounds: int = 1,
) -> Workers:
    """Let every worker act once a round, in random order, on what it knows.

    It exchanges with the partner that the pairing of its domain gives it and, if its divergent
    load level is above capacity, with the worker of its domain it is least correlated with. Those
    busy with another exchange of the same round are passed over.
    """
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
