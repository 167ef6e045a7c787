"""Neighbourhood expansion: fill one worker after another with what hangs together.

After Zhang et al., "Graph Edge Partitioning via Neighborhood Heuristic" (KDD 2017), taken from
edges of a graph to queries of any number of sources. A worker grows from a source: of the sources
that flow to it already, the one with the fewest unplaced queries is closed next, that is, all its
unplaced queries come to the worker, and with them their other sources; queries whose sources all
flow there come for free. Popular sources are never closed early, so they alone are cut.
"""

import heapq

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Indices
from evenflow.planning.queries.hosts import holds
from evenflow.planning.queries.problem import NOWHERE
from evenflow.planning.queries.search import Search, enter


@kernel
def expand(search: Search) -> None:
    """Place the unplaced groups, each worker up to its even share of what is left."""
    groups = search.groups
    open_groups = np.zeros(len(search.rates), dtype=np.int64)
    remaining = 0.0
    for item in range(len(groups.size)):
        if search.part[item] == NOWHERE:
            remaining += search.weight[item]
            for at in range(groups.starts[item], groups.starts[item + 1]):
                open_groups[groups.sources[at]] += 1
    seeds = [(open_groups[source], source) for source in range(len(search.rates))]
    heapq.heapify(seeds)
    later = search.room.sum()
    for worker in range(len(search.room)):
        room = search.room[worker]
        if room <= 0.0:
            continue
        # What is placed here already (pins) counts toward the even share.
        goal = min(room, (remaining + search.load[worker:].sum()) * room / later)
        later -= room
        remaining -= _grow(search, worker, goal, open_groups, seeds)


@kernel
def _grow(
    search: Search, worker: int, goal: float, open_groups: Indices, seeds: list[tuple[int, int]]
) -> float:
    """Grow one worker up to its goal; return the load it took."""
    taken = 0.0
    border = [(0, 0) for _ in range(0)]
    for source in range(len(search.rates)):
        if open_groups[source] > 0 and holds(search.hosts, source, worker):
            heapq.heappush(border, (open_groups[source], source))
    full = False
    while not full and search.load[worker] < goal:
        source = _next(border, open_groups)
        if source < 0:
            source = _next(seeds, open_groups)
            if source < 0:
                break
            heapq.heappush(seeds, (open_groups[source], source))
        for at in range(search.start[source], search.start[source + 1]):
            item = search.items[at]
            if search.part[item] != NOWHERE:
                continue
            if search.load[worker] + search.weight[item] > goal:
                full = True
                continue
            taken += _absorb(search, item, worker, goal, open_groups, border)
    return taken


@kernel
def _next(heap: list[tuple[int, int]], open_groups: Indices) -> int:
    """Pop the source with the fewest unplaced groups; entries may be out of date."""
    while len(heap) > 0:
        count, source = heapq.heappop(heap)
        if open_groups[source] == count and count > 0:
            return source
        if open_groups[source] > 0:
            heapq.heappush(heap, (open_groups[source], source))
    return -1


@kernel
def _absorb(
    search: Search,
    item: int,
    worker: int,
    goal: float,
    open_groups: Indices,
    border: list[tuple[int, int]],
) -> float:
    """Place a group, and then every group that has come to cost nothing; return their load."""
    groups = search.groups
    new = [
        int(groups.sources[at])
        for at in range(groups.starts[item], groups.starts[item + 1])
        if not holds(search.hosts, groups.sources[at], worker)
    ]
    taken = _place(search, item, worker, open_groups)
    for source in new:
        for at in range(search.start[source], search.start[source + 1]):
            other = search.items[at]
            if search.part[other] != NOWHERE:
                continue
            free = search.load[worker] + search.weight[other] <= goal
            for pin in range(groups.starts[other], groups.starts[other + 1]):
                free = free and holds(search.hosts, groups.sources[pin], worker)
            if free:
                taken += _place(search, other, worker, open_groups)
        if open_groups[source] > 0:
            heapq.heappush(border, (open_groups[source], source))
    return taken


@kernel
def _place(
    search: Search,
    item: int,
    worker: int,
    open_groups: Indices,
) -> float:
    groups = search.groups
    enter(search, item, worker)
    for at in range(groups.starts[item], groups.starts[item + 1]):
        open_groups[groups.sources[at]] -= 1
    return float(search.weight[item])
