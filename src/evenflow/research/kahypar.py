"""Mt-KaHyPar, a hypergraph partitioner, on our problem. Optional: extra `[solvers]`.

Groups of equal queries are vertices, sources are nets, the objective is connectivity: the traffic
of the result is the objective plus the rates of all sources. Pins are fixed vertices. A price on
moves becomes migration nets: each worker is a fixed vertex without weight, and each group is tied
to its present worker by a net of the price times its queries.
"""

import subprocess
import sys
from functools import cache

import numpy as np

from evenflow.model.arrays import NOWHERE, Floats, Indices
from evenflow.planning.queries.problem import PlacementProblem
from evenflow.planning.queries.search_state import SearchState, place_groups, start_search

RESOLUTION = 1000  # rates and loads become integers: multiples of mean / RESOLUTION


class SolverMissing(Exception):  # noqa: N818
    """Mt-KaHyPar is not installed, or refused to start."""


def kahypar(
    problem: PlacementProblem,
    seed: int,
    price: float = 0.0,
    preset: str = "DEFAULT",
    threads: int = 1,
) -> SearchState:
    """Place all queries with Mt-KaHyPar; `price` is traffic per query moved from where it runs.

    Return the placement as a search, ready to be refined.
    """
    try:
        import mtkahypar

        if not _can_start():
            raise SolverMissing("it ends its own process when it starts on this machine")
        solver = mtkahypar.initialize(threads, False)
    except Exception as error:  # whatever a native library throws at its start
        raise SolverMissing(str(error) or type(error).__name__) from error
    search = start_search(problem)
    workers = len(problem.fleet)
    mtkahypar.set_seed(seed)
    context = solver.context_from_preset(getattr(mtkahypar.PresetType, preset))
    context.set_partitioning_parameters(workers, problem.fleet.slack, mtkahypar.Objective.KM1)
    context.logging = False
    weights = _integer_weights(search.group_load, search.groups.load)
    limits = np.floor(search.capacity / search.group_load.sum() * weights.sum()).astype(np.int64)
    context.set_individual_target_block_weights(np.maximum(limits, 1).tolist())
    nets, net_weights = _nets(problem, search, price)
    graph = solver.create_hypergraph(
        context, len(weights) + workers, len(nets), nets,
        [*weights.tolist(), *[0] * workers], net_weights,
    )  # fmt: skip
    fixed = np.full(len(weights) + workers, NOWHERE)
    settled = problem.initial_workers()[search.groups.members[search.groups.member_starts[:-1]]]
    fixed[: len(weights)][search.fixed] = settled[search.fixed]
    fixed[len(weights) :] = np.arange(workers)
    graph.add_fixed_vertices(fixed.tolist(), workers)
    part = np.array(graph.partition(context).get_partition(), dtype=np.int32)
    place_groups(search, part[: len(weights)])
    return search


@cache
def _can_start() -> bool:
    """Start the solver in a process of its own: where it cannot, it aborts, and us with it."""
    program = "import mtkahypar; mtkahypar.initialize(1, False)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)  # noqa: S603
    return done.returncode == 0


def _nets(
    problem: PlacementProblem, search: SearchState, price: float
) -> tuple[list[list[int]], list[int]]:
    rates = problem.subscriptions.rates
    scale = RESOLUTION / float(rates.mean())
    nets, weights = [], []
    for source in range(len(rates)):
        pins = search.groups_of_source[
            search.source_starts[source] : search.source_starts[source + 1]
        ]
        if len(pins) > 1:
            nets.append(pins.tolist())
            weights.append(max(1, round(float(rates[source]) * scale)))
    if price > 0:
        count = len(search.group_load)
        for item in np.flatnonzero(search.current_worker != NOWHERE):
            nets.append([int(item), count + int(search.current_worker[item])])
            weights.append(max(1, round(price * int(search.groups.size[item]) * scale)))
    return nets, weights


def _integer_weights(weight: Floats, load: Floats) -> Indices:
    unit = load[0] if load.min() == load.max() else load.mean() / RESOLUTION
    rounded: Indices = np.maximum(np.rint(weight / unit), 1).astype(np.int64)
    return rounded
