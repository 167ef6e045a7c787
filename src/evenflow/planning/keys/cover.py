"""Cover: move the least state that relieves every overloaded worker (ours).

Mixed chooses what to move by one fixed order and then evicts to make things fit; both move more
than is needed. Moving a key costs its state whatever its destination, so the question splits: each
overloaded worker needs the cheapest set of keys that covers its excess load, a knapsack cover that
`knapsack` solves almost exactly; where they go matters only in that they must fit.

The table bound is a price. A key that leaves its home pays its state plus the price of an entry,
one that can go home earns it back, and entries whose state is below the price go home if they fit.
A trifle is the first price; if the table gets too large, the lowest that keeps it is searched. At
last everything that fits where it came from goes back there.

No key is evicted, so a key that misses the room elsewhere by a little stays, though it may be by
far the cheapest. Mixed does evict: it competes, with its own beta and with beta = 1 (load per
state, as here), both followed by that same last step.

If no plan keeps both bounds, the table bound is kept and the limit raised as little as that needs.
Keys too heavy for any worker stay where they are, also if their entries alone break it.
"""

from dataclasses import replace

import numpy as np

from evenflow.model import KeyLoads
from evenflow.planning.keys.balance_goal import (
    BalanceGoal,
    balance_goal,
    current_owners_suffice,
    finish_plan,
)
from evenflow.planning.keys.key_moves import KeyMoveFinder, KeyMoves
from evenflow.planning.keys.mixed import mixed_owners
from evenflow.planning.keys.problem import KeyConfig, KeyPlan

INITIAL_PRICE = 0.01  # of an entry, in mean states: of equals the fewer and heavier keys move
PRICE_TOLERANCE = 1.05  # prices this near each other need no further search


def cover(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Relieve overloaded workers at the least state moved, within the table bound."""
    aim = balance_goal(keys, config)
    if current_owners_suffice(keys, config, aim):
        return finish_plan(keys, config, keys.owner, aim)
    market = KeyMoveFinder.of(keys, aim, config.max_table)
    rivals = (mixed_owners(keys, replace(config, beta=beta), aim) for beta in (config.beta, 1.0))
    offers = [
        _search_price(market, aim.max_load),
        *(market.moves_to(rival, aim.max_load) for rival in rivals),
    ]
    if not any(market.is_feasible(offer, aim.max_load) for offer in offers):
        stay = np.where(aim.fixed_keys, keys.owner, keys.home)
        offers += [_search_limit(market, aim), market.moves_to(stay, np.inf)]
    best = min(offers, key=lambda offer: market.rank(offer, aim.max_load))
    return finish_plan(keys, config, market.owners(best), aim)


def _search_price(market: KeyMoveFinder, limit: float) -> KeyMoves:
    """Return the best offer at the lowest price that keeps the table bound."""
    low = INITIAL_PRICE * market.mean_state
    best = market.find_moves(low, limit)
    if market.fits_table(best):
        return best

    def fits(price: float) -> bool:
        nonlocal best
        found = market.find_moves(price, limit)
        best = min(best, found, key=lambda offer: market.rank(offer, limit))
        return market.fits_table(found)

    high = 8 * low
    while not fits(high) and high < 8 * market.total_state:
        low, high = high, 8 * high
    while high > PRICE_TOLERANCE * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if fits(middle) else (middle, high)
    return best


def _search_limit(market: KeyMoveFinder, aim: BalanceGoal) -> KeyMoves:
    """Return an offer within the table bound at the lowest limit that allows one."""
    keys = market.keys
    low, high = (
        aim.max_load,
        float(max(market.worker_loads.max(), keys.worker_loads(keys.home).max())),
    )
    dearest = market.total_state + 1.0
    best = market.find_moves(dearest, high)
    for _ in range(12):
        middle = (low + high) / 2
        found = market.find_moves(dearest, middle)
        if market.is_feasible(found, middle):
            best, high = found, middle
        else:
            low = middle
    return min(best, _search_price(market, high), key=lambda offer: market.rank(offer, high))
