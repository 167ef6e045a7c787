"""Local search on a whole placement: single groups of queries, and bundles that share a source.

Moving one query rarely pays, because the others still need its sources. So besides single groups
the search moves bundles: all groups that read one source on one worker, together, to the worker
where most of their sources flow already. Every other bundle is closed first: it also takes the
groups that share with it a source that few groups on the worker read, so that a small neighbourhood
moves as a whole. Moves that neither gain nor lose are made now and then, and always when they even
the load: that walk along plateaus yields most of the gain.

A price on every query that is not on its current worker turns the same search into repair with few
moves (what migration nets are to hypergraph partitioners).
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Indices, Rng
from evenflow.planning.queries.search_state import SearchState, place_group, remove_group
from evenflow.planning.queries.source_hosts import entry_of

PLATEAU_PROBABILITY = 0.3  # how often a move that changes nothing is made
CLOSE_PROBABILITY = 0.5  # how often a bundle is closed
GAIN_TOLERANCE = 1e-12  # up to which a gain is rounding
MAX_RARE_READERS = 8  # bundles are closed over sources with at most this many readers on a worker


@kernel
def _gather_bundle(search: SearchState, source: int, worker: int) -> int:
    """Bundle all groups that read a source on a worker; 0 if they are too many or one is fixed."""
    if search.hosts.query_count[entry_of(search.hosts, source, worker)] > len(search.bundle):
        return 0
    count = 0
    for at in range(search.source_starts[source], search.source_starts[source + 1]):
        group = search.groups_of_source[at]
        if search.worker_of_group[group] == worker:
            if search.fixed[group]:
                return 0
            search.bundle[count] = group
            count += 1
    return count


@kernel
def _close_bundle(search: SearchState, count: int, most: int) -> int:
    """Add to the bundle the groups that share a source with it that few groups on the worker read.

    Return its new size; 0 if one of them is fixed. It stops growing when the array is full.
    """
    groups, worker = search.groups, search.worker_of_group[search.bundle[0]]
    for at in range(count):
        search.in_bundle[search.bundle[at]] = True
    done, stuck = 0, False
    while done < count and not stuck:
        group = search.bundle[done]
        done += 1
        for source_at in range(groups.source_starts[group], groups.source_starts[group + 1]):
            source = groups.sources[source_at]
            held = search.hosts.query_count[entry_of(search.hosts, source, worker)]
            if held > most or count + held > len(search.bundle):
                continue
            for at in range(search.source_starts[source], search.source_starts[source + 1]):
                other = search.groups_of_source[at]
                if search.worker_of_group[other] == worker and not search.in_bundle[other]:
                    stuck = stuck or search.fixed[other]
                    search.in_bundle[other] = True
                    search.bundle[count] = other
                    count += 1
    for at in range(count):
        search.in_bundle[search.bundle[at]] = False
    return 0 if stuck else count


@kernel
def _added_moves(search: SearchState, count: int, worker: int) -> int:
    """Return how many more queries would have moved with the bundle on the worker."""
    more = 0
    for at in range(count):
        group = search.bundle[at]
        current = search.current_worker[group]
        if current != NOWHERE:
            moved = int(current != worker) - int(current != search.worker_of_group[group])
            more += search.groups.size[group] * moved
    return more


@kernel
def _score_workers(search: SearchState, count: int) -> tuple[float, int]:
    """Sum in `saved_traffic` what already flows to each other worker of the bundle's sources.

    Return what would stay behind, because other groups on the worker need it, and how many workers
    are listed in `touched_workers`. Moving saves (all - staying) and pays (all - saved there).
    """
    groups, hosts = search.groups, search.hosts
    worker = search.worker_of_group[search.bundle[0]]
    distinct, seen = 0, 0
    for at in range(count):
        group = search.bundle[at]
        for source_at in range(groups.source_starts[group], groups.source_starts[group + 1]):
            source = groups.sources[source_at]
            if search.bundle_readers[source] == 0:
                search.bundle_sources[distinct] = source
                distinct += 1
            search.bundle_readers[source] += 1
    staying = 0.0
    for at in range(distinct):
        source = search.bundle_sources[at]
        rate = search.rates[source]
        begin = hosts.first_entry[source]
        for entry in range(begin, begin + hosts.entry_count[source]):
            other = hosts.worker[entry]
            if other == worker:
                staying += rate * (hosts.query_count[entry] > search.bundle_readers[source])
                continue
            if search.saved_traffic[other] == 0.0:
                search.touched_workers[seen] = other
                seen += 1
            search.saved_traffic[other] += rate
        search.bundle_readers[source] = 0
    return staying, seen


@kernel
def _best_target(
    search: SearchState, count: int, price: float, budget: int
) -> tuple[float, int, float]:
    """Return the gain of the bundle's best move, where to, and the bundle's load.

    The gain counts the traffic saved, and the price of each query more that has moved. Only a
    crowded worker sends a bundle to one where nothing of it flows.
    """
    worker, weight = search.worker_of_group[search.bundle[0]], 0.0
    for at in range(count):
        weight += search.group_load[search.bundle[at]]
    staying, seen = _score_workers(search, count)
    best, most = NOWHERE, -np.inf
    for at in range(seen):
        other = search.touched_workers[at]
        gain = search.saved_traffic[other] - staying
        search.saved_traffic[other] = 0.0
        if search.worker_load[other] + weight > search.capacity[other]:
            continue
        if price > 0.0 or budget >= 0:
            more = _added_moves(search, count, other)
            if budget >= 0 and more > 0 and search.moved_queries[0] + more > budget:
                continue
            gain -= price * more
        if gain > most or (gain == most and search.worker_load[other] < search.worker_load[best]):
            best, most = other, gain
    if best == NOWHERE and search.worker_load[worker] > search.capacity[worker]:
        other = _emptiest_worker(search)
        more = _added_moves(search, count, other)
        affordable = budget < 0 or more <= 0 or search.moved_queries[0] + more <= budget
        if affordable and search.worker_load[other] + weight <= search.capacity[other]:
            best, most = other, -staying - price * more
    return most, best, weight


@kernel
def _emptiest_worker(search: SearchState) -> int:
    """Return the worker with the most room left."""
    best = 0
    for worker in range(len(search.worker_load)):
        room = search.capacity[worker] - search.worker_load[worker]
        if room > search.capacity[best] - search.worker_load[best]:
            best = worker
    return best


@kernel
def _is_accepted(
    search: SearchState, gain: float, target: int, weight: float, heat: float, rng: Rng
) -> bool:
    """Decide on a move: yes if it gains, else if it eases a crowded worker, else by chance."""
    if gain > GAIN_TOLERANCE:
        return True
    worker = search.worker_of_group[search.bundle[0]]
    eases = search.worker_load[target] + weight < search.worker_load[worker]
    if eases and search.worker_load[worker] > search.capacity[worker]:
        return True
    if gain >= -GAIN_TOLERANCE:
        return bool(eases or rng.random() < PLATEAU_PROBABILITY)
    return bool(heat > 0.0 and rng.random() < np.exp(gain / heat))


@kernel
def search_pass(
    search: SearchState, order: Indices, price: float, budget: int, heat: float, rng: Rng
) -> float:
    """Try to move every group and one bundle of every source once; return the gain.

    `order` lists groups as g and sources as -s - 1. A negative budget means any number of moves.
    A move that loses x is made with probability exp(-x / heat), never at heat 0.
    """
    gained = 0.0
    for entry in order:
        if entry >= 0:
            count = 0 if search.fixed[entry] else 1
            search.bundle[0] = entry
        else:
            source = -entry - 1
            groups = search.source_starts[source + 1] - search.source_starts[source]
            if groups == 0:
                continue
            drawn = search.source_starts[source] + int(rng.random() * groups)
            worker = search.worker_of_group[search.groups_of_source[drawn]]
            count = _gather_bundle(search, source, worker)
            if count > 0 and rng.random() < CLOSE_PROBABILITY:
                count = _close_bundle(search, count, MAX_RARE_READERS)
        if count == 0:
            continue
        gain, target, weight = _best_target(search, count, price, budget)
        if target == NOWHERE:
            continue
        if _is_accepted(search, gain, target, weight, heat, rng):
            for at in range(count):
                remove_group(search, search.bundle[at])
                place_group(search, search.bundle[at], target)
            gained += gain
    return gained


def pass_order(search: SearchState, rng: Rng) -> Indices:
    """Return all groups in random order, then all sources in random order."""
    groups = rng.permutation(len(search.groups.size))
    return np.concatenate((groups, -rng.permutation(len(search.rates)) - 1)).astype(np.int64)
