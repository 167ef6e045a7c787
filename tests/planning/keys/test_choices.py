"""PKG, D-Choices and W-Choices against the rules of their papers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import predicates
from tests.support.strategies import key_configs, key_loads

from evenflow.model import KeyLoads, hash_keys, imbalance
from evenflow.model.hashing import jump_hash
from evenflow.planning.keys import ALGORITHMS, CHOICE_PLANNERS, KeyConfig, KeyPlan
from evenflow.planning.keys.choices import (
    EPSILON,
    candidate_workers,
    expected_candidates,
    head_choices,
    head_keys,
)
from evenflow.research.key_workload import zipf_costs


def zipf_keys(workers: int, skew: float, count: int = 10_000) -> KeyLoads:
    hashes = hash_keys(np.arange(count))
    home, cost = jump_hash(hashes, workers), zipf_costs(count, skew, np.random.default_rng(1), 1.0)
    keys = KeyLoads.from_arrays(cost, cost, home, home, workers)
    return replace(keys, hashes=hashes, shared=np.zeros(count))


def made(name: str, keys: KeyLoads, max_table: int = 3000) -> KeyPlan:
    return ALGORITHMS[name](keys, KeyConfig(max_table=max_table), np.random.default_rng(0))


@pytest.mark.parametrize("name", CHOICE_PLANNERS)
@given(keys=key_loads(max_keys=30), config=key_configs, data=st.data())
def test_rows_are_divided_over_candidates_and_joins_stay(
    name: str, keys: KeyLoads, config: KeyConfig, data: st.DataObject
) -> None:
    marks = data.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))
    keys = replace(keys, shared=np.where(marks, keys.cost / 2, 0.0))
    plan = ALGORITHMS[name](keys, config, np.random.default_rng(0))
    predicates.owners_are_distinct_and_home_is_first(keys, plan)
    assert plan.loads == pytest.approx(keys.worker_loads(plan.owner, plan.splits))
    assert plan.loads.sum() == pytest.approx(keys.cost.sum())
    copied = np.flatnonzero(keys.shared_cost > 0)
    assert (plan.owner[copied] == keys.owner[copied]).all()
    assert not set(plan.splits) & set(copied.tolist())
    for key, owners in plan.splits.items():
        assert set(owners) <= set(candidate_workers(keys, key, keys.workers))
        assert name != "pkg" or owners == candidate_workers(keys, key, 2)


def test_the_candidates_of_a_key_depend_on_the_key_alone_and_are_nested() -> None:
    keys = zipf_keys(8, 1.0, 500)
    again = replace(keys, cost=keys.cost[::-1].copy())
    seconds = np.zeros(8)
    for key in range(500):
        two, five = candidate_workers(keys, key, 2), candidate_workers(keys, key, 5)
        assert two == five[:2] == candidate_workers(again, key, 2)
        assert len(set(five)) == 5
        assert two[0] == keys.home[key]
        seconds[two[1]] += 1
    assert seconds.min() > 0.7 * seconds.mean()


@pytest.mark.parametrize("workers", [5, 10, 50])
@pytest.mark.parametrize("skew", [1.0, 1.2, 1.6, 2.0])
def test_d_is_the_smallest_that_keeps_the_condition_of_the_paper(workers: int, skew: float) -> None:
    keys = zipf_keys(workers, skew)
    head = head_keys(keys)
    assert (keys.cost[head] >= 1 / (5 * workers)).all()
    assert (np.delete(keys.cost, head) < 1 / (5 * workers)).all()

    def holds(d: int) -> bool:
        """The condition for every prefix of the head, written out."""
        p, tail = keys.cost[head].tolist(), 1 - float(keys.cost[head].sum())
        for h in range(1, len(p) + 1):
            b = workers - workers * ((workers - 1) / workers) ** (h * d)
            load = sum(p[:h]) + (b / workers) ** d * sum(p[h:]) + (b / workers) ** 2 * tail
            if load > b / workers + EPSILON:
                return False
        return True

    d = head_choices(keys.cost[head], workers)
    least = max(2, int(np.ceil(keys.cost[head][0] * workers)))
    assert d == next((d for d in range(least, workers) if holds(d)), workers)
    assert expected_candidates(np.array([1]), workers) == pytest.approx([1.0])
    plan = made("d-choices", keys)
    for key in head.tolist():
        owners = plan.splits.get(key, (int(plan.owner[key]),))
        assert set(owners) <= set(candidate_workers(keys, key, d))
    assert len(plan.splits[int(head[0])]) == d, "the heaviest key finds all its workers empty"


def test_two_choices_are_enough_for_mild_skew_and_not_for_strong() -> None:
    mild, strong = zipf_keys(20, 0.8), zipf_keys(20, 1.6)
    assert max(imbalance(made(name, mild).loads) for name in CHOICE_PLANNERS) < 1.02
    heaviest = float(strong.cost.max())
    assert imbalance(made("pkg", strong).loads) >= heaviest / 2 * 20 - 1e-9, "two workers share it"
    assert imbalance(made("d-choices", strong).loads) < 1.06
    assert imbalance(made("w-choices", strong).loads) < 1.02
    assert len(made("w-choices", strong).splits[int(strong.cost.argmax())]) == 20
    assert {len(owners) for owners in made("pkg", strong).splits.values()} == {2}


def test_the_table_bound_is_kept_and_the_merge_is_named() -> None:
    keys = zipf_keys(8, 1.2)
    plan = made("pkg", keys, max_table=5)
    assert plan.table_size(keys) == 5
    assert "split_keys" in [verdict.code for verdict in plan.verdicts]
