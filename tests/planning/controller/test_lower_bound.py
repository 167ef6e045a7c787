"""What no placement gets below, against all placements there are."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model.arrays import Floats
from evenflow.planning.controller import Balancing
from evenflow.planning.controller.lower_bound import (
    LOWER_BOUND_TOLERANCE,
    LowerBound,
    max_load_lower_bound,
)

ITEMS = st.lists(
    st.sampled_from([1e-18, 1e-12, 1e-6, 0.05, 0.1, 0.3, 0.5, 0.7, 1.0]), min_size=1, max_size=6
)
STAYS = st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.3]), min_size=1, max_size=3)


def normalised(items: list[float], stays: list[float]) -> tuple[Floats, Floats]:
    mean = (sum(items) + sum(stays)) / len(stays)
    return np.array(items) / mean, np.array(stays) / mean


@given(ITEMS.filter(lambda items: sum(items) > 0.01), STAYS)
def test_no_placement_is_below_and_the_item_explains_it(
    items: list[float], stays: list[float]
) -> None:
    cost, rest = normalised(items, stays)
    places = itertools.product(range(len(rest)), repeat=len(cost))
    best = min(float((rest + np.bincount(p, cost, len(rest))).max()) for p in places)
    floor = max_load_lower_bound(cost, rest, 0.0)
    assert rest.max() - 1e-9 <= floor.load <= best + 1e-9
    if floor.limiting_item is not None:
        assert cost[floor.limiting_item] > LOWER_BOUND_TOLERANCE
        same = np.full(
            floor.limiting_count, cost[floor.limiting_item]
        )  # that many as light as the lightest
        assert int((cost >= cost[floor.limiting_item]).sum()) >= floor.limiting_count
        places = itertools.product(range(len(rest)), repeat=floor.limiting_count)
        alone = min(float((rest + np.bincount(p, same, len(rest))).max()) for p in places)
        assert np.isclose(alone, floor.load)


@given(ITEMS.filter(lambda items: sum(items) > 0.01), STAYS, st.sampled_from([0.04, 0.08, 0.3]))
def test_small_items_do_not_matter_above_the_slack(
    items: list[float], stays: list[float], slack: float
) -> None:
    cost, rest = normalised(items, stays)
    exact, rough = (
        max_load_lower_bound(cost, rest, 0.0).load,
        max_load_lower_bound(cost, rest, slack).load,
    )
    assert rough <= exact + 1e-9
    if exact > 1 + slack + 1e-9:
        assert np.isclose(rough, exact)


def test_hundreds_of_items_on_many_workers() -> None:
    assert max_load_lower_bound(np.full(641, 0.1), np.zeros(64), 0.05) == LowerBound(1.1, 640, 641)


def test_plans_aim_at_the_floor_where_it_is_above_the_aim() -> None:
    config = Balancing()
    assert LowerBound(0.9).target_load(config) == 1 + config.target_imbalance
    assert LowerBound(1.5).target_load(config) == 1.5 * (1 + LOWER_BOUND_TOLERANCE)
    assert LowerBound(1.5).reachable_load(config) == LowerBound(1.5).target_load(config) * (
        1 + config.min_gain
    )
