"""Moves and swaps on a balanced partition of vectors: the search behind `variance`.

Operator o is a vector v_o, worker i the sum V_i of its operators, and the objective

    sum_i |V_i|^2  +  sum of price[o] over operators away from home  +  price of shipped sources.

Moving o from i to j changes the first term by 2 (v_o . V_j - v_o . V_i + |v_o|^2); swapping o with
p on j by the sum of the two moves less 4 v_o . v_p. With all products v_o . V_i kept (`dots`), a
change is judged in constant time. A swap needs v_o . v_p, and what it ships, only where bounds of
both leave hope: v_o . v_p is at most m_o m_p + s_o s_p, with m the last entry (the mean load) and s
the length of the others, and no more is saved than the sources that only o and only p read there.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers

ROUNDING = 1e-12  # changes smaller than this part of the objective are no gain


@kernel
def exclusive_rate(
    operator: int,
    worker: int,
    starts: Indices,
    reads: Indices,
    rates: Floats,
    readers: Indices,
) -> float:
    """Return the rate of the sources that nobody else on an operator's worker reads."""
    rate = 0.0
    for at in range(starts[operator], starts[operator + 1]):
        if readers[worker, reads[at]] == 1:
            rate += rates[reads[at]]
    return rate


@kernel
def shipping_change(
    operator: int,
    source_worker: int,
    target: int,
    starts: Indices,
    reads: Indices,
    rates: Floats,
    readers: Indices,
) -> float:
    """Return by how much the shipped rate changes if an operator moves."""
    change: float = -exclusive_rate(operator, source_worker, starts, reads, rates, readers)
    for at in range(starts[operator], starts[operator + 1]):
        if readers[target, reads[at]] == 0:
            change += rates[reads[at]]
    return change


@kernel
def move_reads(
    operator: int,
    source_worker: int,
    target: int,
    starts: Indices,
    reads: Indices,
    readers: Indices,
) -> None:
    """Count an operator's reads on another worker."""
    for at in range(starts[operator], starts[operator + 1]):
        readers[source_worker, reads[at]] -= 1
        readers[target, reads[at]] += 1


@kernel
def swap_shipping_change(
    one: int,
    two: int,
    first: int,
    second: int,
    starts: Indices,
    reads: Indices,
    rates: Floats,
    readers: Indices,
) -> float:
    """Return by how much the shipped rate changes if two operators change places."""
    change: float = shipping_change(one, first, second, starts, reads, rates, readers)
    move_reads(one, first, second, starts, reads, readers)
    change += shipping_change(two, second, first, starts, reads, rates, readers)
    move_reads(one, second, first, starts, reads, readers)
    return change


@kernel
def away_price_change(price: Floats, home: Workers, operator: int, here: int, there: int) -> float:
    """Return by how much the price of being away from home changes; the new have no home."""
    if home[operator] < 0:
        return 0.0
    if there == home[operator]:
        return float(-price[operator])
    return float(price[operator]) if here == home[operator] else 0.0


@kernel
def move_changes(
    squares: Floats, dots: Floats, price: Floats, home: Workers, placement: Workers, into: Floats
) -> None:
    """Put into [i, o] by how much the objective changes if o moves to i, but for what it ships."""
    count, workers = dots.shape
    for o in range(count):
        here = placement[o]
        leaving = 2 * (squares[o] - dots[o, here])
        for i in range(workers):
            change = leaving + 2 * dots[o, i] + away_price_change(price, home, o, here, i)
            into[i, o] = 0.0 if i == here else change


@kernel
def best_change(
    o: int,
    targets: Indices,
    partners: Indices,
    vectors: Floats,
    means: Floats,
    lengths: Floats,
    alone: Floats,
    moving: Floats,
    placement: Workers,
    shipping: float,
    starts: Indices,
    reads: Indices,
    rates: Floats,
    readers: Indices,
) -> tuple[float, int, int]:
    """Return the best move to some targets or swap with some partners.

    As (change of the objective, worker, partner or -1 for a move); (0, -1, -1) if none gains.
    `means` are m, `lengths` s, `alone` what the sources of `exclusive_rate` cost; `moving` is what
    `move_changes` gives.
    """
    here = placement[o]
    best, to, partner = 0.0, -1, -1
    for j in targets:
        if j == here:
            continue
        change = moving[j, o]
        if shipping > 0.0:
            change += shipping * shipping_change(o, here, j, starts, reads, rates, readers)
        if change < best:
            best, to, partner = change, j, -1
    mean, length, own = 4 * means[o], 4 * lengths[o], alone[o]
    for p in partners:
        j = placement[p]
        if j == here:
            continue
        change = moving[j, o] + moving[here, p] - mean * means[p]
        if change - own - alone[p] - length * lengths[p] >= best:
            continue
        product = 0.0
        for t in range(vectors.shape[1] - 1):
            product += vectors[o, t] * vectors[p, t]
        change -= 4 * product
        if shipping > 0.0:
            if change - own - alone[p] >= best:
                continue
            change += shipping * swap_shipping_change(o, p, here, j, starts, reads, rates, readers)
        if change < best:
            best, to, partner = change, j, p
    return best, to, partner


@kernel
def apply_change(
    o: int,
    to: int,
    partner: int,
    vectors: Floats,
    dots: Floats,
    placement: Workers,
    starts: Indices,
    reads: Indices,
    readers: Indices,
) -> None:
    """Move an operator, or swap it with its partner, and bring all products up to date."""
    here = placement[o]
    step = vectors[o].copy()
    placement[o] = to
    move_reads(o, here, to, starts, reads, readers)
    if partner >= 0:
        step -= vectors[partner]
        placement[partner] = here
        move_reads(partner, to, here, starts, reads, readers)
    for other in range(len(placement)):
        product = 0.0
        for t in range(len(step)):
            product += vectors[other, t] * step[t]
        dots[other, here] -= product
        dots[other, to] += product


@kernel
def descend(
    max_moved: int,
    vectors: Floats,
    dots: Floats,
    price: Floats,
    home: Workers,
    free: Indices,
    placement: Workers,
    shipping: float,
    starts: Indices,
    reads: Indices,
    rates: Floats,
    readers: Indices,
) -> None:
    """Apply the best change again and again until none gains; `placement` changes in place.

    `free` lists the movable operators; no change is made that leaves more than `max_moved` of them
    away from home. The best change of each operator is remembered: after a change between two
    workers only what involves these two is judged anew. Where that was an operator's best, the
    old value still bounds the others from below, and they are judged when it comes up.
    """
    count, workers = dots.shape
    squares, lengths, alone = np.zeros(count), np.zeros(count), np.zeros(count)
    for o in range(count):
        squares[o] = (vectors[o] ** 2).sum()
        lengths[o] = np.sqrt((vectors[o, :-1] ** 2).sum())
        alone[o] = shipping * exclusive_rate(o, placement[o], starts, reads, rates, readers)
    means, moving = vectors[:, -1].copy(), np.zeros((workers, count))
    move_changes(squares, dots, price, home, placement, moving)
    least = -ROUNDING * max(squares.sum(), 1e-300)
    everywhere = np.arange(workers)
    changes = np.zeros(count)
    to = np.full(count, -1)
    partner = np.full(count, -1)
    stale = np.zeros(count, dtype=np.bool_)
    away = 0
    for o in free:
        away += home[o] >= 0 and placement[o] != home[o]
        changes[o], to[o], partner[o] = best_change(
            o, everywhere, free, vectors, means, lengths, alone, moving, placement, shipping,
            starts, reads, rates, readers,
        )  # fmt: skip
    while True:
        best, which, after = least, -1, away
        for o in free:
            if changes[o] < best:
                then = away + _away_count_change(home, o, placement[o], to[o])
                if partner[o] >= 0:
                    then += _away_count_change(home, partner[o], to[o], placement[o])
                if then <= max_moved or then <= away:
                    best, which, after = changes[o], o, then
        if which < 0:
            return
        if stale[which]:
            stale[which] = False
            changes[which], to[which], partner[which] = best_change(
                which, everywhere, free, vectors, means, lengths, alone, moving, placement,
                shipping, starts, reads, rates, readers,
            )  # fmt: skip
            continue
        one, two, away = np.int64(placement[which]), to[which], after
        apply_change(which, two, partner[which], vectors, dots, placement, starts, reads, readers)
        move_changes(squares, dots, price, home, placement, moving)
        touched = np.array([one, two])
        inside = free[(placement[free] == one) | (placement[free] == two)]
        for o in inside:
            alone[o] = shipping * exclusive_rate(o, placement[o], starts, reads, rates, readers)
        for o in free:
            moved = np.int64(placement[o]) in (one, two)
            change, target, other = best_change(
                o, everywhere if moved else touched, free if moved else inside,
                vectors, means, lengths, alone, moving, placement, shipping,
                starts, reads, rates, readers,
            )  # fmt: skip
            if moved or change < changes[o]:
                changes[o], to[o], partner[o], stale[o] = change, target, other, False
            elif to[o] in (one, two):
                stale[o] = True


@kernel
def _away_count_change(home: Workers, operator: int, here: int, there: int) -> int:
    """Return by how many the operators away from home change."""
    if home[operator] < 0:
        return 0
    return int(there != home[operator]) - int(here != home[operator])
