"""Cover: move the least state that relieves every overloaded worker (ours).

Mixed chooses what to move by one fixed order and then evicts to make things fit; both move more
than is needed. Moving a key costs its state whatever its destination, so the question splits: each
overloaded worker needs the cheapest set of keys that covers its excess load, a knapsack cover that
`knapsack` solves almost exactly; where they go matters only in that they must fit.

The table bound becomes a price. A key that leaves its home pays its state plus the price of an
entry, one that can go home earns it back, and entries whose state is below the price go home if
they fit. The first price is very small; if the table gets too large, the lowest price that keeps it
is searched. Finally, every key that fits where it came from goes back there.

No key is evicted, so a key that misses the room elsewhere by a little stays, though it may be by
far the cheapest. Mixed does evict: its plans compete, with the given beta and with beta = 1 (load
per state, as here), both followed by that same last step.

If no plan keeps both bounds, the table bound is kept and the limit raised as little as that needs.
Keys too heavy for any worker stay where they are, also if their entries alone break it.
"""

from dataclasses import replace

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Rng, Workers
from evenflow.planning.keys.balance_goal import BalanceGoal, plan_owners
from evenflow.planning.keys.key_moves import KeyMoveFinder, KeyMoves
from evenflow.planning.keys.mixed import mixed_owners
from evenflow.planning.keys.problem import KeyConfig, KeyPlan
from evenflow.planning.keys.split import plan_with_splits

INITIAL_PRICE = 0.01  # of an entry, in mean states: of equals the fewer and heavier keys move
PRICE_TOLERANCE = 1.05  # prices this near each other need no further search


def cover(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Relieve overloaded workers at the least state moved, within the table bound.

    Keys that can be split are, if no plan of whole keys keeps the balance bound.
    """
    return plan_with_splits(_cover_whole_keys, keys, config, rng)


def _cover_whole_keys(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    return plan_owners(
        keys, config, lambda goal: _cover_owners(keys, config, goal), only_if_needed=True
    )


def _cover_owners(keys: KeyLoads, config: KeyConfig, goal: BalanceGoal) -> Workers:
    finder = KeyMoveFinder.of(keys, goal, config.max_table)
    rivals = (mixed_owners(keys, replace(config, beta=beta), goal) for beta in (config.beta, 1.0))
    offers = [
        _search_price(finder, goal.max_load),
        *(finder.moves_to(rival, goal.max_load) for rival in rivals),
    ]
    if not any(finder.is_feasible(offer, goal.max_load) for offer in offers):
        stay = np.where(goal.fixed_keys, keys.owner, keys.home)
        offers += [
            finder.moves_to(keys.owner, goal.max_load),
            _search_limit(finder, goal),
            finder.moves_to(stay, np.inf),
        ]
    best = min(offers, key=lambda offer: finder.rank(offer, goal.max_load))
    return finder.owners(best)


def _search_price(finder: KeyMoveFinder, limit: float) -> KeyMoves:
    """Return the best offer at the lowest price that keeps the table bound."""
    low = INITIAL_PRICE * finder.mean_state
    best = finder.find_moves(low, limit)
    if finder.fits_table(best):
        return best

    def fits(price: float) -> bool:
        nonlocal best
        moves = finder.find_moves(price, limit)
        best = min(best, moves, key=lambda offer: finder.rank(offer, limit))
        return finder.fits_table(moves)

    high = 8 * low
    while not fits(high) and high < 8 * finder.total_state:
        low, high = high, 8 * high
    while high > PRICE_TOLERANCE * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if fits(middle) else (middle, high)
    return best


def _search_limit(finder: KeyMoveFinder, goal: BalanceGoal) -> KeyMoves:
    """Return an offer within the table bound at the lowest limit that allows one."""
    keys = finder.keys
    low = goal.max_load
    high = float(max(keys.worker_loads().max(), keys.worker_loads(keys.home).max()))
    dearest = finder.total_state + 1.0
    best = finder.find_moves(dearest, high)
    for _ in range(12):
        middle = (low + high) / 2
        moves = finder.find_moves(dearest, middle)
        if finder.is_feasible(moves, middle):
            best, high = moves, middle
        else:
            low = middle
    return min(best, _search_price(finder, high), key=lambda offer: finder.rank(offer, high))
