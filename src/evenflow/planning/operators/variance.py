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
from evenflow.planning.operators.annealing import FEW, annealed
from evenflow.planning.operators.descent import descend
from evenflow.planning.operators.snapshot import NEW, OperatorConfig, OperatorSnapshot
from evenflow.planning.operators.spread_by import spread_by
from evenflow.planning.operators.statistics import centred
from evenflow.planning.operators.traffic import Traffic

PROPOSALS = 5_000  # for each operator
GROUP_PROPOSALS = 1_000  # likewise, to share operators out to groups of workers
FARTHEST = 64  # workers among which a dynamic plan moves
MAX_RUNS = 8
DESCENT = 1_000  # operators up to which annealing is followed by descent: beyond, it takes longer


def vectors_of(snapshot: OperatorSnapshot, capacity: float = 1.0) -> Floats:
    """Return v_o of each operator: deviations over sqrt k, and the mean load."""
    deviations = centred(snapshot.samples) / np.sqrt(snapshot.samples.shape[1])
    return np.ascontiguousarray(np.column_stack([deviations, snapshot.load]) / capacity)


def objective(snapshot: OperatorSnapshot, placement: Workers) -> float:
    """Return sum_i (var X_i + (E X_i - L)^2), what the planner minimises."""
    totals = np.zeros((snapshot.workers, snapshot.samples.shape[1] + 1))
    vectors = vectors_of(snapshot)
    np.add.at(totals, placement, vectors)
    return float((totals**2).sum() - snapshot.load.sum() ** 2 / snapshot.workers)


def variance(
    snapshot: OperatorSnapshot, config: OperatorConfig, rng: np.random.Generator
) -> Workers:
    """Plan statically if no movable operator runs yet, else dynamically from the running plan."""
    if not (snapshot.series.movable & ~snapshot.is_new).any():
        return static(snapshot, config, rng)
    return dynamic(snapshot, config, rng)


def static(snapshot: OperatorSnapshot, config: OperatorConfig, rng: np.random.Generator) -> Workers:
    """Place all movable operators anew, wherever they run."""
    placement, workers = snapshot.placement.copy(), snapshot.workers
    vectors, movable = vectors_of(snapshot, config.capacity), snapshot.series.movable.copy()
    spread_by(snapshot.load, snapshot.load, movable, placement, workers)
    free = np.flatnonzero(movable)
    if workers == 1 or not len(free):
        return placement
    found = [
        _settled(vectors, free, placement.copy(), workers, config.traffic, rng)
        for _ in range(min(max(FEW // len(free), 1), MAX_RUNS))
    ]
    return min(found, key=lambda pair: pair[0])[1]


def _settled(
    vectors: Floats,
    free: Indices,
    placement: Workers,
    workers: int,
    traffic: Traffic | None,
    rng: np.random.Generator,
) -> tuple[float, Workers]:
    """Return the objective and the placement that one annealing, and descent, lead to."""
    shipping, parts = _shipping(traffic, placement, workers)
    annealed(PROPOSALS, vectors, free, placement, np.ones(workers), rng, shipping, parts)
    if len(free) <= DESCENT:
        nowhere, nothing = np.full(len(placement), NEW, dtype=np.int32), np.zeros(len(placement))
        dots = _products(vectors, placement, workers)
        descend(len(free), vectors, dots, nothing, nowhere, free, placement, shipping, *parts)
    totals = np.zeros((workers, vectors.shape[1]))
    np.add.at(totals, placement, vectors)
    shipped = 0.0 if traffic is None else shipping * traffic.shipped(placement, workers)
    return float((totals**2).sum()) + shipped, placement


def shared_out(snapshot: OperatorSnapshot, sizes: Indices, rng: np.random.Generator) -> Workers:
    """Share new operators out to groups of workers, evenly by size and with low variance.

    The snapshot's workers are the groups; operators that run stay in theirs.
    """
    owner, load = snapshot.placement.copy(), snapshot.load
    spread_by(load, load, snapshot.is_new, owner, snapshot.workers)
    free = np.flatnonzero(snapshot.is_new)
    if snapshot.workers > 1 and len(free):
        shipping, parts = _shipping(None, owner, snapshot.workers)
        vectors = vectors_of(snapshot)
        annealed(GROUP_PROPOSALS, vectors, free, owner, 1.0 / sizes, rng, shipping, parts)
    return owner


def dynamic(
    snapshot: OperatorSnapshot, config: OperatorConfig, rng: np.random.Generator
) -> Workers:
    """Improve on the running plan; operators that run nowhere yet are placed on the way."""
    del rng  # nothing is left to chance
    placement = snapshot.placement.copy()
    spread_by(snapshot.load, snapshot.load, snapshot.is_new, placement, snapshot.workers)
    vectors = vectors_of(snapshot, config.capacity)
    workers = _farthest(vectors, placement, snapshot.workers)
    number = np.full(snapshot.workers, NEW, dtype=np.int32)
    number[workers] = np.arange(len(workers))
    here = np.flatnonzero(number[placement] >= 0)
    inside = number[placement[here]]
    home = np.where(snapshot.is_new[here], NEW, inside).astype(np.int32)
    traffic = None if config.traffic is None else config.traffic.part(here)
    shipping, parts = _shipping(traffic, inside, len(workers))
    price = config.move_price * snapshot.load[here] / config.capacity
    dots = _products(vectors[here], inside, len(workers))
    free = np.flatnonzero(snapshot.series.movable[here])
    descend(config.max_moves, vectors[here], dots, price, home, free, inside, shipping, *parts)
    placement[here] = workers[inside]
    return placement


def _farthest(vectors: Floats, placement: Workers, workers: int) -> Indices:
    """Return the workers farthest from the mean: the few moves of a plan concern no others."""
    totals = np.zeros((workers, vectors.shape[1]))
    np.add.at(totals, placement, vectors)
    distance = ((totals - totals.mean(axis=0)) ** 2).sum(axis=1)
    return np.sort(np.argsort(-distance, kind="stable")[:FARTHEST])


def _products(vectors: Floats, placement: Workers, workers: int) -> Floats:
    """Return v_o . V_i of all operators and workers."""
    totals = np.zeros((workers, vectors.shape[1]))
    np.add.at(totals, placement, vectors)
    products: Floats = vectors @ totals.T
    return products


def _shipping(
    traffic: Traffic | None, placement: Workers, workers: int
) -> tuple[float, tuple[Indices, Indices, Floats, Indices]]:
    """Return the price of traffic and its arrays; empty ones if it costs nothing."""
    if traffic is None or traffic.price == 0.0:
        nothing = np.zeros(0, dtype=np.int64)
        starts = np.zeros(len(placement) + 1, dtype=np.int64)
        return 0.0, (starts, nothing, np.zeros(0), np.zeros((workers, 0), dtype=np.int64))
    readers = traffic.readers(placement, workers)
    return traffic.price, (
        traffic.starts.copy(), traffic.reads.copy(), traffic.rates.copy(), readers
    )  # fmt: skip


def best_change_plain(
    vectors: Floats,
    placement: Workers,
    workers: int,
    movable: Bools,
    traffic: Traffic | None = None,
) -> tuple[float, int, int, int]:
    """Return the best of all moves and swaps by trying each: (change, operator, to, partner)."""

    def total(owners: Workers) -> float:
        sums = np.zeros((workers, vectors.shape[1]))
        np.add.at(sums, owners, vectors)
        shipped = 0.0 if traffic is None else traffic.price * traffic.shipped(owners, workers)
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
