"""An upper bound on the traffic that a repair with a number of moves saves: a linear program.

It ignores capacities, and knows destinations only by where sources flow now:

x_q   query q moves
y_sw  source s leaves worker w: only if all its queries there move
n_s   new copies of s: one if a query moves whose worker was the only one with s; one of all
      sources of q together if no other worker has all of them
      after all, every source keeps a copy: sum_w y_sw - n_s <= copies_s - 1

Every repair is a solution, so the optimum of (sum y - sum n) under sum x <= moves is a bound.
Copies with more than WIDE queries are left out; the bound adds as many as the moves could empty if
they did nothing else. Rates are 1.
"""

import numpy as np

from evenflow.model.arrays import Bools, Floats, Indices
from evenflow.planning.queries import PlacementProblem

WIDE = 60


class _Program:
    """Rows of the form: coefficients times variables <= limit. Variables are numbered."""

    def __init__(self) -> None:
        self.entries: list[tuple[Indices, Indices, float]] = []
        self.limits = np.zeros(0)

    def add(self, limits: Floats, *terms: tuple[Indices, Indices, float]) -> None:
        """Add rows; a term is (row among them, variable, coefficient)."""
        for row, variable, coefficient in terms:
            self.entries.append((row + len(self.limits), variable, coefficient))
        self.limits = np.concatenate((self.limits, limits))

    def add_at_most(self, less: Indices, more: Indices) -> None:
        """Add rows: variable `less` is at most variable `more`."""
        row = np.arange(len(less))
        self.add(np.zeros(len(less)), (row, less, 1.0), (row, more, -1.0))

    def maximum(self, gain: Floats, most: Floats) -> float:
        """Return the optimum with variables between 0 and `most`."""
        import scipy.sparse
        from scipy.optimize import linprog

        row, variable = (np.concatenate([entry[at] for entry in self.entries]) for at in (0, 1))
        value = np.concatenate([np.full(len(entry[0]), entry[2]) for entry in self.entries])
        solved = linprog(
            -gain,
            A_ub=scipy.sparse.csr_matrix(
                (value, (row, variable)), shape=(len(self.limits), len(gain))
            ),
            b_ub=self.limits,
            bounds=np.column_stack((np.zeros(len(most)), most)),
            method="highs-ipm",
        )
        if solved.status != 0:
            raise RuntimeError(f"the linear program was not solved: {solved.message}")
        return float(-solved.fun)


def most_saved(problem: PlacementProblem, moves: int) -> float:
    """Return an upper bound on the copies of sources that a repair with these moves saves."""
    subscriptions, fleet = problem.subscriptions, len(problem.fleet)
    query, source = subscriptions.query_of_entry(), subscriptions.sources.astype(np.int64)
    copies, copy, held = np.unique(
        source * fleet + problem.current[query], return_inverse=True, return_counts=True
    )
    spread = np.bincount(copies // fleet, minlength=len(subscriptions.rates))
    x = np.arange(len(subscriptions))
    n = len(x) + np.arange(len(spread))
    y = len(x) + len(n) + np.arange(len(copies))
    shared = subscriptions.reader_counts()[source] > 1
    leaving, alone = shared & (held[copy] <= WIDE), shared & (spread[source] == 1)
    astray = _without_a_common_worker(problem, copies, source, spread)
    among, row = astray[query], np.cumsum(astray) - 1
    program = _Program()
    program.add_at_most(y[copy[leaving]], x[query[leaving]])
    program.add_at_most(x[query[alone]], n[source[alone]])
    program.add(
        np.zeros(int(astray.sum())),
        (row[astray], x[astray], 1.0),
        (row[query[among]], n[source[among]], -1.0),
    )
    program.add(
        np.maximum(spread - 1.0, 0.0),
        (copies // fleet, y, 1.0),
        (np.arange(len(spread)), n, -1.0),
    )
    program.add(np.array([float(moves)]), (np.zeros_like(x), x, 1.0))
    considered = np.zeros(len(y))
    considered[copy[leaving]] = 1.0
    gain = np.concatenate((np.zeros(len(x)), np.full(len(n), -1.0), considered))
    most = np.concatenate((np.ones(len(x)), np.full(len(n), float(fleet)), considered))
    left_out = moves * int(np.diff(subscriptions.starts).max()) / (WIDE + 1)
    return program.maximum(gain, most) + left_out


def _without_a_common_worker(
    problem: PlacementProblem, copies: Indices, source: Indices, spread: Indices
) -> Bools:
    """Return which queries have every source elsewhere, but not all on one other worker."""
    fleet = len(problem.fleet)
    on = np.zeros((len(spread), fleet), dtype=np.bool_)
    on[copies // fleet, copies % fleet] = True
    starts = problem.subscriptions.starts[:-1]
    all_there = np.logical_and.reduceat(on[source], starts, axis=0)
    all_there[np.arange(len(all_there)), problem.current] = False
    elsewhere = np.logical_and.reduceat(spread[source] > 1, starts)
    return np.asarray(elsewhere & ~all_there.any(axis=1))
