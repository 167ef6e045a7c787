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
more than `move_price` times the load it moves, until `max_moves` operators are away from home.
In large clusters only the 64 workers farthest from the mean take part.

With `traffic` given, both also pay its price for every source shipped to every worker, which
weighs herding (herding-small-queries) against correlation.
"""

import numpy as np

from evenflow.model.arrays import Bools, Floats, Indices, Workers
from evenflow.planning.operators.annealing import FEW_OPERATORS, anneal_placement
from evenflow.planning.operators.descent import descend
from evenflow.planning.operators.load_statistics import centred
from evenflow.planning.operators.place_by_preference import place_by_preference
from evenflow.planning.operators.problem import NOWHERE, OperatorConfig, OperatorSnapshot
from evenflow.planning.operators.traffic import SourceTraffic

PROPOSALS_PER_OPERATOR = 5_000  # for each operator
GROUP_PROPOSALS_PER_OPERATOR = 1_000  # likewise, to share operators out to groups of workers
MAX_DYNAMIC_WORKERS = 64  # workers among which a dynamic plan moves
MAX_RUNS = 8
MAX_DESCENT_OPERATORS = (
    1_000  # operators up to which annealing is followed by descent: beyond, it takes longer
)


def load_vectors(snapshot: OperatorSnapshot, capacity: float = 1.0) -> Floats:
    """Return v_o of each operator: deviations over sqrt k, and the mean load."""
    deviations = centred(snapshot.samples) / np.sqrt(snapshot.samples.shape[1])
    return np.ascontiguousarray(np.column_stack([deviations, snapshot.load]) / capacity)


def variance_objective(snapshot: OperatorSnapshot, placement: Workers) -> float:
    """Return sum_i (var X_i + (E X_i - L)^2), what the planner minimises."""
    totals = np.zeros((snapshot.workers, snapshot.samples.shape[1] + 1))
    vectors = load_vectors(snapshot)
    np.add.at(totals, placement, vectors)
    return float((totals**2).sum() - snapshot.load.sum() ** 2 / snapshot.workers)


def variance(
    snapshot: OperatorSnapshot, config: OperatorConfig, rng: np.random.Generator
) -> Workers:
    """Plan statically if no movable operator runs yet, else dynamically from the running plan."""
    if not (snapshot.series.movable & ~snapshot.is_new).any():
        return plan_static(snapshot, config, rng)
    return plan_dynamic(snapshot, config, rng)


def plan_static(
    snapshot: OperatorSnapshot, config: OperatorConfig, rng: np.random.Generator
) -> Workers:
    """Place all movable operators anew, wherever they run."""
    placement, workers = snapshot.placement.copy(), snapshot.workers
    vectors, movable = load_vectors(snapshot, config.capacity), snapshot.series.movable.copy()
    place_by_preference(snapshot.load, snapshot.load, movable, placement, workers)
    free = np.flatnonzero(movable)
    if workers == 1 or not len(free):
        return placement
    found = [
        _anneal_and_descend(vectors, free, placement.copy(), workers, config.traffic, rng)
        for _ in range(min(max(FEW_OPERATORS // len(free), 1), MAX_RUNS))
    ]
    return min(found, key=lambda pair: pair[0])[1]


def _anneal_and_descend(
    vectors: Floats,
    free: Indices,
    placement: Workers,
    workers: int,
    traffic: SourceTraffic | None,
    rng: np.random.Generator,
) -> tuple[float, Workers]:
    """Return the objective and the placement that one annealing, and descent, lead to."""
    shipping, parts = _traffic_arrays(traffic, placement, workers)
    anneal_placement(
        PROPOSALS_PER_OPERATOR, vectors, free, placement, np.ones(workers), rng, shipping, parts
    )
    if len(free) <= MAX_DESCENT_OPERATORS:
        nowhere, nothing = (
            np.full(len(placement), NOWHERE, dtype=np.int32),
            np.zeros(len(placement)),
        )
        dots = _dot_products(vectors, placement, workers)
        descend(len(free), vectors, dots, nothing, nowhere, free, placement, shipping, *parts)
    totals = np.zeros((workers, vectors.shape[1]))
    np.add.at(totals, placement, vectors)
    shipped = 0.0 if traffic is None else shipping * traffic.shipped_rate(placement, workers)
    return float((totals**2).sum()) + shipped, placement


def assign_to_groups(
    snapshot: OperatorSnapshot, sizes: Indices, rng: np.random.Generator
) -> Workers:
    """Share new operators out to groups of workers, evenly by size and with low variance.

    The snapshot's workers are the groups; operators that run stay in theirs.
    """
    owner, load = snapshot.placement.copy(), snapshot.load
    place_by_preference(load, load, snapshot.is_new, owner, snapshot.workers)
    free = np.flatnonzero(snapshot.is_new)
    if snapshot.workers > 1 and len(free):
        shipping, parts = _traffic_arrays(None, owner, snapshot.workers)
        vectors = load_vectors(snapshot)
        anneal_placement(
            GROUP_PROPOSALS_PER_OPERATOR, vectors, free, owner, 1.0 / sizes, rng, shipping, parts
        )
    return owner


def plan_dynamic(
    snapshot: OperatorSnapshot, config: OperatorConfig, rng: np.random.Generator
) -> Workers:
    """Improve on the running plan; operators that run nowhere yet are placed on the way."""
    del rng  # nothing is left to chance
    placement = snapshot.placement.copy()
    place_by_preference(snapshot.load, snapshot.load, snapshot.is_new, placement, snapshot.workers)
    vectors = load_vectors(snapshot, config.capacity)
    workers = _farthest_workers(vectors, placement, snapshot.workers)
    number = np.full(snapshot.workers, NOWHERE, dtype=np.int32)
    number[workers] = np.arange(len(workers))
    here = np.flatnonzero(number[placement] >= 0)
    inside = number[placement[here]]
    home = np.where(snapshot.is_new[here], NOWHERE, inside).astype(np.int32)
    traffic = None if config.traffic is None else config.traffic.for_operators(here)
    shipping, parts = _traffic_arrays(traffic, inside, len(workers))
    price = config.move_price * snapshot.load[here] / config.capacity
    dots = _dot_products(vectors[here], inside, len(workers))
    free = np.flatnonzero(snapshot.series.movable[here])
    descend(config.max_moves, vectors[here], dots, price, home, free, inside, shipping, *parts)
    placement[here] = workers[inside]
    return placement


def _farthest_workers(vectors: Floats, placement: Workers, workers: int) -> Indices:
    """Return the workers farthest from the mean: the few moves of a plan concern no others."""
    totals = np.zeros((workers, vectors.shape[1]))
    np.add.at(totals, placement, vectors)
    distance = ((totals - totals.mean(axis=0)) ** 2).sum(axis=1)
    return np.sort(np.argsort(-distance, kind="stable")[:MAX_DYNAMIC_WORKERS])


def _dot_products(vectors: Floats, placement: Workers, workers: int) -> Floats:
    """Return v_o . V_i of all operators and workers."""
    totals = np.zeros((workers, vectors.shape[1]))
    np.add.at(totals, placement, vectors)
    products: Floats = vectors @ totals.T
    return products


def _traffic_arrays(
    traffic: SourceTraffic | None, placement: Workers, workers: int
) -> tuple[float, tuple[Indices, Indices, Floats, Indices]]:
    """Return the price of traffic and its arrays; empty ones if it costs nothing."""
    if traffic is None or traffic.price == 0.0:
        nothing = np.zeros(0, dtype=np.int64)
        starts = np.zeros(len(placement) + 1, dtype=np.int64)
        return 0.0, (starts, nothing, np.zeros(0), np.zeros((workers, 0), dtype=np.int64))
    readers = traffic.reader_counts(placement, workers)
    return traffic.price, (
        traffic.starts.copy(), traffic.reads.copy(), traffic.rates.copy(), readers
    )  # fmt: skip


def best_change_plain(
    vectors: Floats,
    placement: Workers,
    workers: int,
    movable: Bools,
    traffic: SourceTraffic | None = None,
) -> tuple[float, int, int, int]:
    """Return the best of all moves and swaps by trying each: (change, operator, to, partner)."""

    def total(owners: Workers) -> float:
        sums = np.zeros((workers, vectors.shape[1]))
        np.add.at(sums, owners, vectors)
        shipped = 0.0 if traffic is None else traffic.price * traffic.shipped_rate(owners, workers)
        return float((sums**2).sum()) + shipped

    before, best = total(placement), (0.0, -1, -1, -1)
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
        best = min(best, (total(after) - before, o, to, p))
    return best
