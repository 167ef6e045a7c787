"""Every key planner against the shared predicates."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support import predicates
from tests.support.strategies import key_configs, key_loads

from evenflow.cli.plan_keys import KeyAlgorithm
from evenflow.model import KeyLoads
from evenflow.planning.keys import ALGORITHMS, CHOICE_PLANNERS, KeyConfig, KeyPlan
from evenflow.planning.keys.balance_goal import balance_goal
from evenflow.planning.keys.choices import all_divisible
from evenflow.planning.keys.metrics import moved_state

REBALANCING = ("llfd", "minmig", "mixed", "compact", "cover")
FAST = [name for name in ALGORITHMS if name != "exact"]


def plan(name: str, keys: KeyLoads, config: KeyConfig, seed: int = 0) -> KeyPlan:
    if name in CHOICE_PLANNERS:
        keys = all_divisible(keys)
    return ALGORITHMS[name](keys, config, np.random.default_rng(seed))


# The only key with any load is away from home, and the table has no room for it.
AWAY = KeyLoads.from_arrays(
    np.array([0.0, 1.0]), np.zeros(2), np.array([0, 0]), np.array([0, 1]), 2
)


@pytest.mark.parametrize("name", FAST)
@given(keys=key_loads(), config=key_configs)
@example(keys=AWAY, config=KeyConfig(max_imbalance=0.0, max_table=0))
def test_shared_predicates(name: str, keys: KeyLoads, config: KeyConfig) -> None:
    made = plan(name, keys, config)
    predicates.each_key_placed_once(keys, made)
    predicates.load_conserved(all_divisible(keys) if name in CHOICE_PLANNERS else keys, made)
    predicates.bounds_kept_or_refused_by_name(keys, config, made)
    if name not in CHOICE_PLANNERS:  # split keys may beat the bound of whole keys
        predicates.loads_follow_from_owners(keys, made)
        predicates.verdict_bound_is_a_lower_bound(keys, made)
    if name in REBALANCING:
        predicates.balanced_plan_left_alone(keys, config, made)
        predicates.fixed_keys_stay(keys, config, made)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in CHOICE_PLANNERS])
@given(keys=key_loads(max_keys=12), config=key_configs, data=st.data())
@settings(deadline=None)
def test_what_stays_is_not_moved(
    name: str, keys: KeyLoads, config: KeyConfig, data: st.DataObject
) -> None:
    marks = data.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))
    held = replace(keys, immovable=np.array(marks))
    made = plan(name, held, config)
    assert (made.owner[held.immovable_mask] == keys.owner[held.immovable_mask]).all()
    predicates.load_conserved(held, made)
    predicates.loads_follow_from_owners(held, made)
    predicates.verdict_bound_is_a_lower_bound(held, made)
    predicates.bounds_kept_or_refused_by_name(held, config, made)


@pytest.mark.parametrize("name", FAST)
@given(keys=key_loads(), config=key_configs, seed=st.integers(0, 9))
@settings(max_examples=25)
def test_planning_twice_gives_the_same(
    name: str, keys: KeyLoads, config: KeyConfig, seed: int
) -> None:
    one, other = plan(name, keys, config, seed), plan(name, keys, config, seed)
    assert (one.owner == other.owner).all()
    assert (one.loads == other.loads).all()


@pytest.mark.parametrize("name", ["mixed", "cover", "minmig", "llfd", "compact"])
@given(keys=key_loads(), config=key_configs)
@settings(max_examples=50)
def test_a_plan_that_keeps_the_bounds_is_not_planned_again(
    name: str, keys: KeyLoads, config: KeyConfig
) -> None:
    made = plan(name, keys, config)
    if made.verdicts:
        return
    settled = KeyLoads.from_arrays(keys.cost, keys.state, keys.home, made.owner, keys.workers)
    assert (plan(name, settled, config).owner == made.owner).all()


@given(keys=key_loads(max_keys=8, max_workers=3), config=key_configs)
@settings(max_examples=30, deadline=None)
def test_exact_is_the_optimum(keys: KeyLoads, config: KeyConfig) -> None:
    """By trying every assignment."""
    made = plan("exact", keys, config)
    predicates.each_key_placed_once(keys, made)
    predicates.load_conserved(keys, made)
    predicates.loads_follow_from_owners(keys, made)
    predicates.verdict_bound_is_a_lower_bound(keys, made)
    predicates.balanced_plan_left_alone(keys, config, made)
    predicates.bounds_kept_or_refused_by_name(keys, config, made)
    best = least_moved(keys, config)
    if best is None:
        assert "no_plan" in {verdict.code for verdict in made.verdicts}
    else:
        assert moved_state(keys, made.owner) == pytest.approx(best, rel=1e-5, abs=1e-4)
        for name in FAST:
            other = plan(name, keys, config)
            broken = {v.code for v in other.verdicts} & {"unbalanced", "table_exceeded"}
            if name not in CHOICE_PLANNERS and not broken:
                assert moved_state(keys, other.owner) >= best - 1e-6


def least_moved(keys: KeyLoads, config: KeyConfig) -> float | None:
    """Return the least state any plan within the bounds moves, by trying every assignment."""
    aim = balance_goal(keys, config)
    best = None
    for choice in np.ndindex(*[keys.workers] * len(keys)):
        owner = np.array(choice, dtype=np.int32)
        entries = int((owner != keys.home).sum())
        if entries <= config.max_table and keys.worker_loads(owner).max() <= aim.max_load:
            moved = moved_state(keys, owner)
            best = moved if best is None else min(best, moved)
    return best


def test_the_command_line_offers_every_planner() -> None:
    assert {algorithm.value for algorithm in KeyAlgorithm} == set(ALGORITHMS)
