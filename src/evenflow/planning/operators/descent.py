"""Moves and swaps on a balanced partition of vectors: the search behind `variance`.

Operator o is a vector v_o, worker i the sum V_i of its operators, and the objective

    sum_i |V_i|^2  +  sum of price[o] over moved operators  +  price of shipped sources.

Moving o from i to j changes the first term by 2 (v_o . V_j - v_o . V_i + |v_o|^2); swapping o with
p on j by the sum of the two moves less 4 v_o . v_p. With all products v_o . V_i kept (`dots`), a
change is evaluated in constant time. A swap needs v_o . v_p, and what it ships, only where bounds
on both leave a possible gain: v_o . v_p is at most m_o m_p + s_o s_p, with m the last entry (the
mean load) and s the length of the others, and no more is saved than the sources that only o and
only p read there.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers

ROUNDING = 1e-12  # changes smaller than this part of the objective count as no gain


class SourceReads(NamedTuple):
    """Which sources operators read, for the price of shipping them.

    price                   of a unit of shipped rate; 0 if traffic does not count
    starts, sources         the sources of operator o are sources[starts[o]:starts[o + 1]]
    rates                   of each source
    readers                 operators on each worker (row) that read each source (column)
    """

    price: float
    starts: Indices
    sources: Indices
    rates: Floats
    readers: Indices


class DescentState(NamedTuple):
    """What the descent knows of each operator, and the placement it changes.

    vectors, dots     v_o, and v_o . V_i of every worker
    squares, means, lengths  |v_o|^2, and m and s of the module's docstring
    move_price        price of an operator that is not on its current worker
    current           the worker it runs on before the search, negative for a new one
    exclusive_price   what the sources that nobody else on its worker reads cost there
    move_change       change of the objective if o (column) moves to i (row), without shipping
    """

    vectors: Floats
    dots: Floats
    squares: Floats
    means: Floats
    lengths: Floats
    move_price: Floats
    current: Workers
    placement: Workers
    exclusive_price: Floats
    move_change: Floats


@kernel
def exclusive_rate(operator: int, worker: int, reads: SourceReads) -> float:
    """Return the rate of the sources that nobody else on an operator's worker reads."""
    rate = 0.0
    for at in range(reads.starts[operator], reads.starts[operator + 1]):
        if reads.readers[worker, reads.sources[at]] == 1:
            rate += reads.rates[reads.sources[at]]
    return rate


@kernel
def shipping_change(operator: int, origin: int, target: int, reads: SourceReads) -> float:
    """Return by how much the shipped rate changes if an operator moves."""
    change: float = -exclusive_rate(operator, origin, reads)
    for at in range(reads.starts[operator], reads.starts[operator + 1]):
        if reads.readers[target, reads.sources[at]] == 0:
            change += reads.rates[reads.sources[at]]
    return change


@kernel
def move_reads(operator: int, origin: int, target: int, reads: SourceReads) -> None:
    """Count an operator's reads on another worker."""
    for at in range(reads.starts[operator], reads.starts[operator + 1]):
        reads.readers[origin, reads.sources[at]] -= 1
        reads.readers[target, reads.sources[at]] += 1


@kernel
def swap_shipping_change(one: int, two: int, first: int, second: int, reads: SourceReads) -> float:
    """Return by how much the shipped rate changes if two operators change places."""
    change: float = shipping_change(one, first, second, reads)
    move_reads(one, first, second, reads)
    change += shipping_change(two, second, first, reads)
    move_reads(one, second, first, reads)
    return change


@kernel
def _moved_change(current: Workers, operator: int, here: int, there: int) -> int:
    """Return by how many the moved operators change; new ones do not count as moved."""
    if current[operator] < 0:
        return 0
    return int(there != current[operator]) - int(here != current[operator])


@kernel
def _update_move_changes(state: DescentState) -> None:
    count, workers = state.dots.shape
    for o in range(count):
        here = state.placement[o]
        leaving = 2 * (state.squares[o] - state.dots[o, here])
        for i in range(workers):
            price = state.move_price[o] * _moved_change(state.current, o, here, i)
            change = leaving + 2 * state.dots[o, i] + price
            state.move_change[i, o] = 0.0 if i == here else change


@kernel
def best_change(
    o: int, targets: Indices, partners: Indices, state: DescentState, reads: SourceReads
) -> tuple[float, int, int]:
    """Return the best move to some targets or swap with some partners.

    As (change of the objective, worker, partner or -1 for a move); (0, -1, -1) if none gains.
    """
    vectors, move_change, placement = state.vectors, state.move_change, state.placement
    here = placement[o]
    best, to, partner = 0.0, -1, -1
    for j in targets:
        if j == here:
            continue
        change = move_change[j, o]
        if reads.price > 0.0:
            change += reads.price * shipping_change(o, here, j, reads)
        if change < best:
            best, to, partner = change, j, -1
    means, lengths, exclusive = state.means, state.lengths, state.exclusive_price
    mean, length, most_saved = 4 * means[o], 4 * lengths[o], exclusive[o]
    for p in partners:
        j = placement[p]
        if j == here:
            continue
        change = move_change[j, o] + move_change[here, p] - mean * means[p]
        if change - most_saved - exclusive[p] - length * lengths[p] >= best:
            continue
        product = 0.0
        for t in range(vectors.shape[1] - 1):
            product += vectors[o, t] * vectors[p, t]
        change -= 4 * product
        if reads.price > 0.0:
            if change - most_saved - exclusive[p] >= best:
                continue
            change += reads.price * swap_shipping_change(o, p, here, j, reads)
        if change < best:
            best, to, partner = change, j, p
    return best, to, partner


@kernel
def apply_change(o: int, to: int, partner: int, state: DescentState, reads: SourceReads) -> None:
    """Move an operator, or swap it with its partner, and update all products."""
    vectors, placement = state.vectors, state.placement
    here = placement[o]
    step = vectors[o].copy()
    placement[o] = to
    move_reads(o, here, to, reads)
    if partner >= 0:
        step -= vectors[partner]
        placement[partner] = here
        move_reads(partner, to, here, reads)
    for other in range(len(placement)):
        product = 0.0
        for t in range(len(step)):
            product += vectors[other, t] * step[t]
        state.dots[other, here] -= product
        state.dots[other, to] += product


def descend(
    max_moved: int,
    vectors: Floats,
    dots: Floats,
    move_price: Floats,
    current: Workers,
    free: Indices,
    placement: Workers,
    reads: SourceReads,
) -> None:
    """Apply the best change again and again until none gains; `placement` changes in place.

    `free` lists the movable operators; no change is made that leaves more than `max_moved` of them
    away from their current worker.
    """
    state = DescentState(
        vectors=vectors,
        dots=dots,
        squares=np.zeros(len(vectors)),
        means=vectors[:, -1].copy(),
        lengths=np.zeros(len(vectors)),
        move_price=move_price,
        current=current,
        placement=placement,
        exclusive_price=np.zeros(len(vectors)),
        move_change=np.zeros((dots.shape[1], len(vectors))),
    )
    _descend(max_moved, free, state, reads)


@kernel
def _descend(max_moved: int, free: Indices, state: DescentState, reads: SourceReads) -> None:
    """Descend with the best change of each operator remembered.

    After a change between two workers only what involves these two is evaluated again. Where that
    was an operator's best, the old value still bounds the others from below, and they are evaluated
    when it comes up.
    """
    current, placement, exclusive = state.current, state.placement, state.exclusive_price
    count, workers = state.dots.shape
    for o in range(count):
        state.squares[o] = (state.vectors[o] ** 2).sum()
        state.lengths[o] = np.sqrt((state.vectors[o, :-1] ** 2).sum())
        exclusive[o] = reads.price * exclusive_rate(o, placement[o], reads)
    _update_move_changes(state)
    least = -ROUNDING * max(state.squares.sum(), 1e-300)
    everywhere = np.arange(workers)
    changes = np.zeros(count)
    to = np.full(count, -1)
    partner = np.full(count, -1)
    stale = np.zeros(count, dtype=np.bool_)
    moved = 0
    for o in free:
        moved += current[o] >= 0 and placement[o] != current[o]
        changes[o], to[o], partner[o] = best_change(o, everywhere, free, state, reads)
    while True:
        best, chosen, moved_after = least, -1, moved
        for o in free:
            if changes[o] < best:
                then = moved + _moved_change(current, o, placement[o], to[o])
                if partner[o] >= 0:
                    then += _moved_change(current, partner[o], to[o], placement[o])
                if then <= max_moved or then <= moved:
                    best, chosen, moved_after = changes[o], o, then
        if chosen < 0:
            return
        if stale[chosen]:
            stale[chosen] = False
            changes[chosen], to[chosen], partner[chosen] = best_change(
                chosen, everywhere, free, state, reads
            )
            continue
        one, two, moved = np.int64(placement[chosen]), to[chosen], moved_after
        apply_change(chosen, two, partner[chosen], state, reads)
        _update_move_changes(state)
        touched = np.array([one, two])
        inside = free[(placement[free] == one) | (placement[free] == two)]
        for o in inside:
            exclusive[o] = reads.price * exclusive_rate(o, placement[o], reads)
        for o in free:
            affected = np.int64(placement[o]) in (one, two)
            targets, partners = (everywhere, free) if affected else (touched, inside)
            change, target, other = best_change(o, targets, partners, state, reads)
            if affected or change < changes[o]:
                changes[o], to[o], partner[o], stale[o] = change, target, other, False
            elif to[o] in (one, two):
                stale[o] = True
