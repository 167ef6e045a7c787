"""`variance`: Evenflow's own planner, which minimises variance and imbalance directly.

Property (1) and (2) of borealis-load-distribution, section 2.4, in one objective: with L the mean
load of a worker,

    sum_i (var X_i + (E X_i - L)^2)  =  sum_i |V_i|^2 - n L^2,    v_o = (deviations / sqrt k, mean),

that is, a balanced partition of vectors with k + 1 entries, whose lower bound is Theorem 1's. Even
means and low variance have to fall together: evening the means alone raises latency again.

*Static* (no operator runs yet): heaviest first onto the least loaded worker, simulated annealing
over random moves and swaps, and, up to 1,000 operators, descent to a plan that no single move or
swap can better. A proposal costs O(k), whatever the number of workers.

*Dynamic* (operators run): best move or swap first from the running plan, each of which must gain
more than `move_price` times the load it moves, until `max_moves` operators have moved.
In large clusters only the 64 workers farthest from the mean take part.

With `traffic` given, both also pay its price for every source shipped to every worker, which
weighs herding (herding-small-queries) against correlation.
"""

import numpy as np

from evenflow.model.arrays import NOWHERE, Bools, Floats, Indices, Rng, Workers
from evenflow.planning.least_load import place_by_preference
from evenflow.planning.operators.annealing import FEW_OPERATORS, anneal_placement
from evenflow.planning.operators.descent import SourceReads, descend
from evenflow.planning.operators.load_statistics import centred, worker_series
from evenflow.planning.operators.problem import (
    OperatorConfig,
    OperatorPlan,
    OperatorSnapshot,
    SourceTraffic,
)

PROPOSALS_PER_OPERATOR = 5_000  # proposed moves and swaps of an annealing run
GROUP_PROPOSALS_PER_OPERATOR = 1_000  # the same, to assign operators to groups of workers
MAX_DYNAMIC_WORKERS = 64  # workers among which a dynamic plan moves
MAX_RUNS = 8
MAX_DESCENT_OPERATORS = 1_000  # with more, descent after annealing takes too long


def load_vectors(snapshot: OperatorSnapshot, capacity: float = 1.0) -> Floats:
    """Return v_o of each operator: deviations over sqrt k, and the mean load."""
    deviations = centred(snapshot.samples) / np.sqrt(snapshot.samples.shape[1])
    return np.ascontiguousarray(np.column_stack([deviations, snapshot.load]) / capacity)


def variance_objective(snapshot: OperatorSnapshot, placement: Workers) -> float:
    """Return sum_i (var X_i + (E X_i - L)^2), what the planner minimises."""
    totals = worker_series(load_vectors(snapshot), placement, snapshot.workers)
    return float((totals**2).sum() - snapshot.load.sum() ** 2 / snapshot.workers)


def variance(snapshot: OperatorSnapshot, config: OperatorConfig, rng: Rng) -> OperatorPlan:
    """Plan statically if no movable operator runs yet, else dynamically from the running plan."""
    if not (snapshot.series.movable & ~snapshot.is_new).any():
        return OperatorPlan(plan_static(snapshot, config, rng))
    return OperatorPlan(plan_dynamic(snapshot, config))


def plan_static(snapshot: OperatorSnapshot, config: OperatorConfig, rng: Rng) -> Workers:
    """Place all movable operators, wherever they run now."""
    placement, workers = snapshot.placement.copy(), snapshot.workers
    vectors, movable = load_vectors(snapshot, config.capacity), snapshot.series.movable.copy()
    place_by_preference(snapshot.load, snapshot.load, movable, placement, workers)
    free = np.flatnonzero(movable)
    if workers == 1 or not len(free):
        return placement
    runs = [
        _anneal_and_descend(vectors, free, placement.copy(), workers, config.traffic, rng)
        for _ in range(min(max(FEW_OPERATORS // len(free), 1), MAX_RUNS))
    ]
    return min(runs, key=lambda run: run[0])[1]


def _anneal_and_descend(
    vectors: Floats,
    free: Indices,
    placement: Workers,
    workers: int,
    traffic: SourceTraffic | None,
    rng: Rng,
) -> tuple[float, Workers]:
    """Return the objective and the placement that one annealing run, and descent, lead to."""
    reads = _source_reads(traffic, placement, workers)
    shares = np.ones(workers)
    anneal_placement(PROPOSALS_PER_OPERATOR, vectors, free, placement, shares, rng, reads)
    if len(free) <= MAX_DESCENT_OPERATORS:
        count = len(placement)
        nowhere = np.full(count, NOWHERE, dtype=np.int32)
        dots = vectors @ worker_series(vectors, placement, workers).T
        descend(len(free), vectors, dots, np.zeros(count), nowhere, free, placement, reads)
    return _total_objective(vectors, placement, workers, traffic), placement


def _total_objective(
    vectors: Floats, placement: Workers, workers: int, traffic: SourceTraffic | None
) -> float:
    """Return sum_i |V_i|^2 plus the price of shipped sources."""
    shipped = 0.0 if traffic is None else traffic.price * traffic.shipped_rate(placement, workers)
    return float((worker_series(vectors, placement, workers) ** 2).sum()) + shipped


def assign_to_groups(snapshot: OperatorSnapshot, sizes: Indices, rng: Rng) -> Workers:
    """Assign new operators to groups of workers, evenly by size and with low variance.

    The snapshot's workers are the groups; operators that run stay in theirs.
    """
    owner, load = snapshot.placement.copy(), snapshot.load
    place_by_preference(load, load, snapshot.is_new, owner, snapshot.workers)
    free = np.flatnonzero(snapshot.is_new)
    if snapshot.workers > 1 and len(free):
        reads, vectors = _source_reads(None, owner, snapshot.workers), load_vectors(snapshot)
        proposals = GROUP_PROPOSALS_PER_OPERATOR
        anneal_placement(proposals, vectors, free, owner, 1.0 / sizes, rng, reads)
    return owner


def plan_dynamic(snapshot: OperatorSnapshot, config: OperatorConfig) -> Workers:
    """Improve on the running plan; operators that run nowhere yet are placed first."""
    placement = snapshot.placement.copy()
    place_by_preference(snapshot.load, snapshot.load, snapshot.is_new, placement, snapshot.workers)
    vectors = load_vectors(snapshot, config.capacity)
    workers = _farthest_workers(vectors, placement, snapshot.workers)
    number = np.full(snapshot.workers, NOWHERE, dtype=np.int32)
    number[workers] = np.arange(len(workers))
    operators = np.flatnonzero(number[placement] >= 0)
    part, vectors = number[placement[operators]], vectors[operators]
    current = np.where(snapshot.is_new[operators], NOWHERE, part).astype(np.int32)
    traffic = None if config.traffic is None else config.traffic.for_operators(operators)
    reads = _source_reads(traffic, part, len(workers))
    price = config.move_price * snapshot.load[operators] / config.capacity
    dots = vectors @ worker_series(vectors, part, len(workers)).T
    free = np.flatnonzero(snapshot.series.movable[operators])
    descend(config.max_moves, vectors, dots, price, current, free, part, reads)
    placement[operators] = workers[part]
    return placement


def _farthest_workers(vectors: Floats, placement: Workers, workers: int) -> Indices:
    """Return the workers farthest from the mean: the few moves of a plan concern no others."""
    totals = worker_series(vectors, placement, workers)
    distance = ((totals - totals.mean(axis=0)) ** 2).sum(axis=1)
    return np.sort(np.argsort(-distance, kind="stable")[:MAX_DYNAMIC_WORKERS])


def _source_reads(traffic: SourceTraffic | None, placement: Workers, workers: int) -> SourceReads:
    """Return the traffic as kernels read it; empty arrays if it costs nothing."""
    if traffic is None or traffic.price == 0.0:
        traffic = SourceTraffic.of([[] for _ in placement], [], 0.0)
    readers = traffic.reader_counts(placement, workers)
    arrays = (traffic.starts.copy(), traffic.reads.copy(), traffic.rates.copy())  # writable
    return SourceReads(float(traffic.price), *arrays, readers)


def best_change_plain(
    vectors: Floats,
    placement: Workers,
    workers: int,
    movable: Bools,
    traffic: SourceTraffic | None = None,
) -> tuple[float, int, int, int]:
    """Return the best of all moves and swaps by trying each: (change, operator, to, partner)."""
    before, best = _total_objective(vectors, placement, workers, traffic), (0.0, -1, -1, -1)
    free = np.flatnonzero(movable).tolist()
    tries = [(o, to, -1) for o in free for to in range(workers)]
    tries += [(o, int(placement[p]), p) for o in free for p in free]
    for o, to, p in tries:
        if to == placement[o]:
            continue
        after = placement.copy()
        after[o] = to
        if p >= 0:
            after[p] = placement[o]
        change = _total_objective(vectors, after, workers, traffic) - before
        best = min(best, (change, o, to, p))
    return best
