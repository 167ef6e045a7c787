"""The event loop: tuples through operators on workers, one CPU each, first in first out.

One kernel call processes all events up to a time. Arrivals are known in advance and sorted, so the
next event is either the next arrival or the next worker to finish a tuple; a tournament tree over
the finish times of the workers yields the latter in O(log n).

A waiting tuple is (target, birth) in a pool of linked cells: in the queue of a worker, the queue of
an operator that is being moved, or the window of a join. `target` is 2 x operator + input port. The
birth of a tuple is the arrival of its source tuple; of a pair, the later one.

Selectivity 1.2 means one tuple and another with probability 0.2. A join keeps each input for its
window, in event time: a tuple of birth b matches those of the other input born within b +- window,
each pair once, independent of upstream queues. That holds for inputs in order of birth; after a
union of paths of different length, a late tuple misses partners that were dropped.
"""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Hashes, Indices
from evenflow.planning.operators.kernel_rng import random_unit

NO_CELL = -1
NumberT = TypeVar("NumberT", bound=np.generic)


class Wiring(NamedTuple):
    """The network as the kernel reads it; `*_starts` index rows of targets."""

    cost: Floats
    selectivity: Floats
    window: Floats
    feed_starts: Indices
    feed_targets: Indices
    link_starts: Indices
    link_targets: Indices


class CellPool(NamedTuple):
    """Cells of linked lists. The kernel returns a larger pool when it is full."""

    target: Indices
    birth: Floats
    next_cell: Indices


class Outputs(NamedTuple):
    """Tuples that left the network: sink, birth and output time."""

    sink: Indices
    born_at: Floats
    left_at: Floats


class ClusterState(NamedTuple):
    """The mutable state. Lists are (head, tail) columns of cells."""

    worker: Indices  # of each operator
    suspended: Bools  # operators being moved
    finish_seconds: Floats  # when each worker finishes its tuple; infinity if idle
    serving: Indices  # target of that tuple
    serving_birth: Floats
    tournament: Indices  # tree[1] is the worker that finishes first
    queues: Indices  # of workers
    suspended_queues: Indices  # of operators being moved
    windows: Indices  # of targets that feed joins
    busy_seconds: Floats  # seconds of started services, of each worker
    arrived: Indices  # tuples that reached each operator
    served: Indices  # served tuples of each operator
    emitted: Indices  # output tuples of each operator
    cursor: Indices  # [next arrival, first free cell, number of outputs]
    rng_state: Hashes


@kernel
def update_tournament(finish: Floats, tree: Indices, worker: int) -> None:
    """Update the tournament tree after the finish time of a worker changed."""
    half = len(tree) // 2
    node = (half + worker) >> 1
    while node >= 1:
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = left if finish[left] <= finish[right] else right
        node >>= 1


@kernel
def append_cell(lists: Indices, row: int, cell: int, after: Indices) -> None:
    """Append a cell to a list."""
    after[cell] = NO_CELL
    if lists[row, 0] < 0:
        lists[row, 0] = cell
    else:
        after[lists[row, 1]] = cell
    lists[row, 1] = cell


@kernel
def _double_length(values: NDArray[NumberT]) -> NDArray[NumberT]:
    larger = np.empty(2 * len(values), dtype=values.dtype)
    larger[: len(values)] = values
    return larger


@kernel
def _grow_free_cells(after: Indices) -> Indices:
    """Double the cells and link the new ones as free."""
    size = len(after)
    larger = _double_length(after)
    for cell in range(size, 2 * size):
        larger[cell] = cell + 1
    larger[2 * size - 1] = NO_CELL
    return larger


@kernel
def _count_matches(
    birth: float, window: float, list_: Indices, births: Floats, after: Indices
) -> int:
    """Count the tuples of a window that match this birth; drop outdated ones.

    Dropped cells stay linked from the old to the new head: the caller frees them.
    """
    head = list_[0]
    while head >= 0 and births[head] < birth - window:  # no later tuple matches it either
        head = after[head]
    list_[0] = head
    matches = 0
    while head >= 0 and births[head] <= birth + window:
        matches += 1
        head = after[head]
    return matches


@kernel
def run_until(
    until: float,
    times: Floats,
    sources: Indices,
    wiring: Wiring,
    state: ClusterState,
    pool: CellPool,
    outputs: Outputs,
) -> tuple[CellPool, Outputs]:
    """Process all events up to and including a time.

    One function with local names: calls that pass the state cost more than the events.
    """
    cost, selectivity, windows = wiring.cost, wiring.selectivity, wiring.window
    feed_starts, feed_targets = wiring.feed_starts, wiring.feed_targets
    link_starts, link_targets = wiring.link_starts, wiring.link_targets
    worker_of, suspended, finish, tree = (
        state.worker,
        state.suspended,
        state.finish_seconds,
        state.tournament,
    )
    serving, serving_birth, queues = state.serving, state.serving_birth, state.queues
    busy, arrived, served, emitted = state.busy_seconds, state.arrived, state.served, state.emitted
    targets, births, after = pool.target, pool.birth, pool.next_cell
    sink, sink_birth, sink_left = outputs.sink, outputs.born_at, outputs.left_at
    at, free, out = state.cursor[0], state.cursor[1], state.cursor[2]
    while True:
        done = tree[1]
        now = finish[done]
        if at < len(times) and times[at] < now:  # a source tuple arrives
            now = birth = times[at]
            if now > until:
                break
            row, done, copies = sources[at], NO_CELL, 1
            at += 1
            first, last, ends = feed_starts[row], feed_starts[row + 1], feed_targets
        else:  # a worker finishes a tuple
            if now > until or now == np.inf:
                break
            target, birth = serving[done], serving_birth[done]
            row = target >> 1
            served[row] += 1
            chances, keep = 1, selectivity[row]
            if windows[row] > 0.0:
                head = state.windows[target ^ 1, 0]
                chances = _count_matches(
                    birth, windows[row], state.windows[target ^ 1], births, after
                )
                while head != state.windows[target ^ 1, 0]:
                    next_cell = after[head]
                    after[head] = free
                    free, head = head, next_cell
                if free < 0:
                    free = len(after)
                    targets, births, after = (
                        _double_length(targets),
                        _double_length(births),
                        _grow_free_cells(after),
                    )
                cell, free = free, after[free]
                births[cell] = birth
                append_cell(state.windows, target, cell, after)
            certain = int(keep)
            copies = chances * certain
            if keep > certain:
                for _ in range(chances):
                    copies += random_unit(state.rng_state) < keep - certain
            emitted[row] += copies
            first, last, ends = link_starts[row], link_starts[row + 1], link_targets
            if first == last:  # a sink: the tuples leave the network
                for _ in range(copies):
                    if out == len(sink):
                        sink, sink_birth = _double_length(sink), _double_length(sink_birth)
                        sink_left = _double_length(sink_left)
                    sink[out], sink_birth[out], sink_left[out] = row, birth, now
                    out += 1
                copies = 0
        for _ in range(copies):  # each tuple along all edges
            for edge in range(first, last):
                target = ends[edge]
                operator = target >> 1
                arrived[operator] += 1
                worker = worker_of[operator]
                if finish[worker] == np.inf and not suspended[operator]:
                    serving[worker], serving_birth[worker] = target, birth
                    busy[worker] += cost[operator]
                    finish[worker] = now + cost[operator]
                    update_tournament(finish, tree, worker)
                    continue
                if free < 0:
                    free = len(after)
                    targets, births, after = (
                        _double_length(targets),
                        _double_length(births),
                        _grow_free_cells(after),
                    )
                cell, free = free, after[free]
                targets[cell], births[cell] = target, birth
                if suspended[operator]:
                    append_cell(state.suspended_queues, operator, cell, after)
                else:
                    append_cell(queues, worker, cell, after)
        if done >= 0:  # the worker takes the next tuple from its queue
            cell = queues[done, 0]
            if cell >= 0:
                queues[done, 0] = after[cell]
                serving[done], serving_birth[done] = targets[cell], births[cell]
                busy[done] += cost[targets[cell] >> 1]
                finish[done] = now + cost[targets[cell] >> 1]
                after[cell] = free
                free = cell
            else:
                finish[done] = np.inf
            update_tournament(finish, tree, done)
    state.cursor[0], state.cursor[1], state.cursor[2] = at, free, out
    return CellPool(targets, births, after), Outputs(sink, sink_birth, sink_left)
