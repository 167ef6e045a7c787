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
from evenflow.model.arrays import NOWHERE, Indices
from evenflow.planning.queries.search_state import SearchState, place_group
from evenflow.planning.queries.source_hosts import is_hosted


@kernel
def expand_neighbourhoods(search: SearchState) -> None:
    """Place the unplaced groups, each worker up to its even share of what is left."""
    groups = search.groups
    open_groups = np.zeros(len(search.rates), dtype=np.int64)
    remaining = 0.0
    for item in range(len(groups.size)):
        if search.worker_of_group[item] == NOWHERE:
            remaining += search.group_load[item]
            for at in range(groups.source_starts[item], groups.source_starts[item + 1]):
                open_groups[groups.sources[at]] += 1
    seeds = [(open_groups[source], source) for source in range(len(search.rates))]
    heapq.heapify(seeds)
    later = search.capacity.sum()
    for worker in range(len(search.capacity)):
        room = search.capacity[worker]
        if room <= 0.0:
            continue
        # What is placed here already (pins) counts toward the even share.
        goal = min(room, (remaining + search.worker_load[worker:].sum()) * room / later)
        later -= room
        remaining -= _grow_worker(search, worker, goal, open_groups, seeds)


@kernel
def _grow_worker(
    search: SearchState,
    worker: int,
    goal: float,
    open_groups: Indices,
    seeds: list[tuple[int, int]],
) -> float:
    """Grow one worker up to its goal; return the load it took."""
    taken = 0.0
    frontier = [(0, 0) for _ in range(0)]
    for source in range(len(search.rates)):
        if open_groups[source] > 0 and is_hosted(search.hosts, source, worker):
            heapq.heappush(frontier, (open_groups[source], source))
    full = False
    while not full and search.worker_load[worker] < goal:
        source = _pop_rarest_source(frontier, open_groups)
        if source < 0:
            source = _pop_rarest_source(seeds, open_groups)
            if source < 0:
                break
            heapq.heappush(seeds, (open_groups[source], source))
        for at in range(search.source_starts[source], search.source_starts[source + 1]):
            item = search.groups_of_source[at]
            if search.worker_of_group[item] != NOWHERE:
                continue
            if search.worker_load[worker] + search.group_load[item] > goal:
                full = True
                continue
            taken += _place_with_free_groups(search, item, worker, goal, open_groups, frontier)
    return taken


@kernel
def _pop_rarest_source(heap: list[tuple[int, int]], open_groups: Indices) -> int:
    """Pop the source with the fewest unplaced groups; entries may be out of date."""
    while len(heap) > 0:
        count, source = heapq.heappop(heap)
        if open_groups[source] == count and count > 0:
            return source
        if open_groups[source] > 0:
            heapq.heappush(heap, (open_groups[source], source))
    return -1


@kernel
def _place_with_free_groups(
    search: SearchState,
    item: int,
    worker: int,
    goal: float,
    open_groups: Indices,
    frontier: list[tuple[int, int]],
) -> float:
    """Place a group, and then every group that has come to cost nothing; return their load."""
    groups = search.groups
    new = [
        int(groups.sources[at])
        for at in range(groups.source_starts[item], groups.source_starts[item + 1])
        if not is_hosted(search.hosts, groups.sources[at], worker)
    ]
    taken = _place_open_group(search, item, worker, open_groups)
    for source in new:
        for at in range(search.source_starts[source], search.source_starts[source + 1]):
            other = search.groups_of_source[at]
            if search.worker_of_group[other] != NOWHERE:
                continue
            free = search.worker_load[worker] + search.group_load[other] <= goal
            for pin in range(groups.source_starts[other], groups.source_starts[other + 1]):
                free = free and is_hosted(search.hosts, groups.sources[pin], worker)
            if free:
                taken += _place_open_group(search, other, worker, open_groups)
        if open_groups[source] > 0:
            heapq.heappush(frontier, (open_groups[source], source))
    return taken


@kernel
def _place_open_group(search: SearchState, item: int, worker: int, open_groups: Indices) -> float:
    groups = search.groups
    place_group(search, item, worker)
    for at in range(groups.source_starts[item], groups.source_starts[item + 1]):
        open_groups[groups.sources[at]] -= 1
    return float(search.group_load[item])
