"""Least-price cover: the cheapest set of keys whose load covers the excess of a worker.

Keys come in the order of load per price. Taking them in that order until the need is covered is
optimal but for the keys around the break; those few are decided exactly by branch and bound, with
the fractional cover as lower bound.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats

CORE_KEYS = 24  # keys decided exactly on each side of the break
MAX_NODES = 20_000  # steps of the search; the best cover until then is used


def least_cover_plain(cost: Floats, price: Floats, need: float) -> float:
    """Return the least price of any covering set, by trying all: the oracle."""
    best = float("inf")
    for chosen in range(1 << len(cost)):
        members = [key for key in range(len(cost)) if chosen >> key & 1]
        if sum(cost[members]) >= need:
            best = min(best, float(sum(price[members])))
    return best


@kernel
def least_cover(cost: Floats, price: Floats, need: float) -> Bools:
    """Return the chosen keys, given in the order of cost per price (largest first).

    All keys are chosen if even they do not cover the need.
    """
    count = len(cost)
    taken = np.zeros(count, dtype=np.bool_)
    end, covered = 0, 0.0
    while end < count and covered < need:
        covered += cost[end]
        taken[end] = True
        end += 1
    if covered < need:
        return taken
    first = max(0, end - CORE_KEYS)
    last = min(count, end + CORE_KEYS)
    rest = need
    for key in range(first):
        rest -= cost[key]
    taken[first:last] = _branch_and_bound(cost[first:last], price[first:last], rest, end - first)
    return taken


@kernel
def _branch_and_bound(cost: Floats, price: Floats, need: float, greedy: int) -> Bools:
    """Find the cheapest cover by depth-first branch and bound, from the greedy one."""
    count = len(cost)
    costs, prices = np.zeros(count + 1), np.zeros(count + 1)
    for key in range(count):
        costs[key + 1] = costs[key] + cost[key]
        prices[key + 1] = prices[key] + price[key]
    best = np.zeros(count, dtype=np.bool_)
    best[:greedy] = True
    best_price = prices[greedy]
    now = np.zeros(count, dtype=np.bool_)
    at, rest, paid = 0, need, 0.0
    for _ in range(MAX_NODES):
        descend = False
        if rest <= 0:
            if paid < best_price:
                best_price = paid
                best[:] = now
        elif costs[count] - costs[at] >= rest:
            end = np.searchsorted(costs, costs[at] + rest)  # fractional cover: keys at..end-1
            missing = rest - (costs[end - 1] - costs[at])
            least = paid + prices[end - 1] - prices[at]
            if cost[end - 1] > 0:
                least += price[end - 1] * missing / cost[end - 1]
            descend = least < best_price * (1 - 1e-12)
        if descend:
            now[at] = True
            rest -= cost[at]
            paid += price[at]
            at += 1
            continue
        at -= 1
        while at >= 0 and not now[at]:
            at -= 1
        if at < 0:
            break
        now[at] = False
        rest += cost[at]
        paid -= price[at]
        at += 1
    return best
