"""How much traffic can any repair save with a number of moves? A linear program bounds it.

It knows nothing of capacities, and of destinations only what follows from where sources flow now:

x_q   query q moves
y_sw  source s leaves worker w: only if all its queries there move
n_s   new copies of s: one if a query moves whose worker was the only one with s; one of all
      sources of q together if no other worker has all of them
      after all, every source keeps a copy: sum_w y_sw - n_s <= copies_s - 1

Every repair is a solution, so the optimum of (sum y - sum n) under sum x <= moves is a bound.
Copies with more than WIDE queries are left out; as many are added as the moves could empty if they
did nothing else. Rates are 1.
"""

import numpy as np

from evenflow.model.arrays import Bools, Floats, Indices
from evenflow.planning.queries import Problem

WIDE = 60


class _Rows:
    """Rows of the program, all of the form: coefficients times variables <= limit."""

    def __init__(self) -> None:
        self.count = 0
        self.entries: list[tuple[Indices, Indices, float]] = []
        self.limits: list[Floats] = []

    def add(self, limits: Floats, *terms: tuple[Indices, Indices, float]) -> None:
        """Add rows; a term is (row among them, variable, coefficient)."""
        for row, variable, coefficient in terms:
            self.entries.append((row + self.count, variable, coefficient))
        self.limits.append(limits)
        self.count += len(limits)


def most_saved(problem: Problem, moves: int) -> float:
    """Return how many copies of sources a repair with that many moves saves at most."""
    import scipy.sparse
    from scipy.optimize import linprog

    subscriptions, fleet = problem.subscriptions, len(problem.fleet)
    queries, sources = len(subscriptions), len(subscriptions.rates)
    query, source = subscriptions.query_of_subscription(), subscriptions.sources.astype(np.int64)
    copies, copy, held = np.unique(
        source * fleet + problem.current[query], return_inverse=True, return_counts=True
    )
    spread = np.bincount(copies // fleet, minlength=sources)
    x, n, y = 0, queries, queries + sources
    rows = _Rows()

    shared = subscriptions.degrees()[source] > 1
    leaving = np.flatnonzero(shared & (held[copy] <= WIDE))
    one = np.arange(len(leaving))
    rows.add(np.zeros(len(one)), (one, y + copy[leaving], 1), (one, x + query[leaving], -1))

    alone = np.flatnonzero(shared & (spread[source] == 1))
    one = np.arange(len(alone))
    rows.add(np.zeros(len(one)), (one, x + query[alone], 1), (one, n + source[alone], -1))

    astray = _without_a_common_worker(problem, copies, query, source, spread)
    among = np.flatnonzero(astray[query])
    row = (np.cumsum(astray) - 1)[query[among]]
    one = np.arange(int(astray.sum()))
    rows.add(np.zeros(len(one)), (one, x + np.flatnonzero(astray), 1), (row, n + source[among], -1))

    every = np.arange(sources)
    rows.add(
        np.maximum(spread - 1.0, 0.0),
        (copies // fleet, y + np.arange(len(copies)), 1),
        (every, n + every, -1),
    )
    rows.add(
        np.array([float(moves)]),
        (np.zeros(queries, dtype=np.int64), x + np.arange(queries), 1),
    )

    matrix = scipy.sparse.csr_matrix(
        (
            np.concatenate([np.full(len(row), value) for row, _, value in rows.entries]),
            (
                np.concatenate([row for row, _, _ in rows.entries]),
                np.concatenate([variable for _, variable, _ in rows.entries]),
            ),
        ),
        shape=(rows.count, y + len(copies)),
    )
    considered = np.zeros(len(copies))
    considered[copy[leaving]] = 1
    limits = np.concatenate((np.ones(queries), np.full(sources, float(fleet)), considered))
    gain = np.concatenate((np.zeros(queries), np.full(sources, -1.0), considered))
    solved = linprog(
        -gain,
        A_ub=matrix,
        b_ub=np.concatenate(rows.limits),
        bounds=np.column_stack((np.zeros(len(limits)), limits)),
        method="highs-ipm",
    )
    if solved.status != 0:
        raise RuntimeError(f"the bound was not found: {solved.message}")
    widest = int(np.diff(subscriptions.starts).max())
    return float(-solved.fun) + moves * widest / (WIDE + 1)


def _without_a_common_worker(
    problem: Problem, copies: Indices, query: Indices, source: Indices, spread: Indices
) -> Bools:
    """Tell which queries find each source elsewhere, but on no other worker all of them."""
    fleet = len(problem.fleet)
    on = np.zeros((len(spread), fleet), dtype=np.bool_)
    on[copies // fleet, copies % fleet] = True
    starts = problem.subscriptions.starts[:-1]
    all_there = np.logical_and.reduceat(on[source], starts, axis=0)
    all_there[np.arange(len(all_there)), problem.current] = False
    elsewhere = np.logical_and.reduceat(spread[source] > 1, starts)
    return np.asarray(elsewhere & ~all_there.any(axis=1))
