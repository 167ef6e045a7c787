"""Moves and swaps on a balanced partition of vectors: the search behind `variance`.

Operator o is a vector v_o, worker i the sum V_i of its operators, and the objective

    sum_i |V_i|^2  +  sum of price[o] over operators away from home  +  price of shipped sources.

Moving o from i to j changes the first term by 2 (v_o . V_j - v_o . V_i + |v_o|^2); swapping o with
p on j by the sum of the two moves less 4 v_o . v_p. With all products v_o . V_i kept, a change is
judged in constant time, and a swap needs v_o . v_p only where the rest makes it promising.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices, Workers

ROUNDING = 1e-12  # changes smaller than this part of the objective are no gain


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
    change = 0.0
    for at in range(starts[operator], starts[operator + 1]):
        source = reads[at]
        if readers[target, source] == 0:
            change += rates[source]
        if readers[source_worker, source] == 1:
            change -= rates[source]
    return change


@kernel
def ship(
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
    ship(one, first, second, starts, reads, readers)
    change += shipping_change(two, second, first, starts, reads, rates, readers)
    ship(one, second, first, starts, reads, readers)
    return change


@kernel
def away_change(price: Floats, home: Workers, operator: int, here: int, there: int) -> float:
    """Return by how much the price of being away from home changes; the new have no home."""
    if home[operator] < 0:
        return 0.0
    if there == home[operator]:
        return float(-price[operator])
    return float(price[operator]) if here == home[operator] else 0.0


@kernel
def best_change(
    o: int,
    vectors: Floats,
    squares: Floats,
    dots: Floats,
    price: Floats,
    home: Workers,
    movable: Bools,
    placement: Workers,
    shipping: float,
    starts: Indices,
    reads: Indices,
    rates: Floats,
    readers: Indices,
) -> tuple[float, int, int]:
    """Return the best change of one operator: (change, worker, partner or -1 for a move)."""
    here = placement[o]
    best, to, partner = 0.0, -1, -1
    for j in range(dots.shape[1]):
        if j == here:
            continue
        change = 2 * (dots[o, j] - dots[o, here] + squares[o])
        change += away_change(price, home, o, here, j)
        if change < best or shipping > 0.0:
            if shipping > 0.0:
                change += shipping * shipping_change(o, here, j, starts, reads, rates, readers)
            if change < best:
                best, to, partner = change, j, -1
    for p in range(len(placement)):
        j = placement[p]
        if j == here or not movable[p]:
            continue
        change = 2 * (dots[o, j] - dots[o, here] + squares[o])
        change += 2 * (dots[p, here] - dots[p, j] + squares[p])
        change += away_change(price, home, o, here, j) + away_change(price, home, p, j, here)
        if shipping == 0.0 and change - 4 * np.sqrt(squares[o] * squares[p]) >= best:
            continue
        product = 0.0
        for t in range(vectors.shape[1]):
            product += vectors[o, t] * vectors[p, t]
        change -= 4 * product
        if shipping > 0.0:
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
    totals: Floats,
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
    ship(o, here, to, starts, reads, readers)
    if partner >= 0:
        step -= vectors[partner]
        placement[partner] = here
        ship(partner, to, here, starts, reads, readers)
    totals[here] -= step
    totals[to] += step
    for other in range(len(placement)):
        product = 0.0
        for t in range(len(step)):
            product += vectors[other, t] * step[t]
        dots[other, here] -= product
        dots[other, to] += product


@kernel
def descend(
    steepest: bool,
    max_moved: int,
    vectors: Floats,
    price: Floats,
    home: Workers,
    movable: Bools,
    placement: Workers,
    workers: int,
    shipping: float,
    starts: Indices,
    reads: Indices,
    rates: Floats,
    readers: Indices,
) -> None:
    """Apply changes until none gains, or `max_moved` operators are away; in place.

    Steepest takes the best change of all each time; otherwise each operator in turn takes its
    best, which needs many more changes and far less time.
    """
    count = len(placement)
    totals = np.zeros((workers, vectors.shape[1]))
    squares = np.zeros(count)
    for o in range(count):
        totals[placement[o]] += vectors[o]
        squares[o] = (vectors[o] ** 2).sum()
    dots = vectors @ totals.T
    least = -ROUNDING * max((totals**2).sum(), 1e-300)
    away = 0
    for o in range(count):
        away += home[o] >= 0 and placement[o] != home[o]
    while True:
        best, which, to, partner, gained = least, -1, -1, -1, False
        for o in range(count):
            if not movable[o]:
                continue
            change, target, other = best_change(
                o, vectors, squares, dots, price, home, movable, placement,
                shipping, starts, reads, rates, readers,
            )  # fmt: skip
            if change >= best:
                continue
            after = away + _away(home, o, placement[o], target)
            if other >= 0:
                after += _away(home, other, target, placement[o])
            if after > max_moved and after > away:
                continue
            if steepest:
                best, which, to, partner = change, o, target, other
            else:
                apply_change(
                    o, target, other, vectors, totals, dots, placement, starts, reads, readers
                )
                away, gained = after, True
        if which >= 0:
            away += _away(home, which, placement[which], to)
            if partner >= 0:
                away += _away(home, partner, to, placement[which])
            apply_change(
                which, to, partner, vectors, totals, dots, placement, starts, reads, readers
            )
        elif not gained:
            return


@kernel
def _away(home: Workers, operator: int, here: int, there: int) -> int:
    """Return by how many the operators away from home change."""
    if home[operator] < 0:
        return 0
    return int(there != home[operator]) - int(here != home[operator])
