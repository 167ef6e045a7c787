"""The compact representation: records, their expansion, and the bound after it."""

import numpy as np
import pytest
from hypothesis import given
from tests.support.strategies import key_loads

from evenflow.model import KeyLoads, hash_keys, jump_hash
from evenflow.planning.keys import KeyConfig
from evenflow.planning.keys.balance_goal import balance_goal
from evenflow.planning.keys.compact import compact_with_degree, group_keys
from evenflow.planning.keys.discretise import discretise
from evenflow.research.key_workload import zipf_costs


@given(keys=key_loads())
def test_records_are_the_distinct_rows(keys: KeyLoads) -> None:
    aim = balance_goal(keys, KeyConfig())
    records, record_of = group_keys(keys, aim, 8)
    cost, state = (discretise(values, 8, keys.owner) for values in (keys.cost, keys.state))
    rows = list(zip(keys.owner, keys.home, cost, state, aim.fixed_keys, strict=True))
    assert len(set(rows)) == len(records.count)
    assert records.count.tolist() == np.bincount(record_of).tolist()
    for row, record in zip(rows, record_of, strict=True):
        fields = (records.owner, records.home, records.cost, records.state, records.fixed)
        assert row == tuple(field[record] for field in fields)


@pytest.mark.parametrize("degree", [1, 8, 64, 256])
@pytest.mark.parametrize("max_table", [3000, 120])
def test_the_bound_is_kept_after_expansion(degree: int, max_table: int) -> None:
    rng = np.random.default_rng(degree)
    count, workers = 10_000, 10
    cost = zipf_costs(count, 0.85, rng)
    home = jump_hash(hash_keys(np.arange(count)), workers)
    owner = home.copy()
    owner[rng.choice(count, 300, replace=False)] = 3
    keys = KeyLoads.from_arrays(cost, cost * rng.uniform(0.5, 2, count), home, owner, workers)
    plan = compact_with_degree(keys, KeyConfig(max_table=max_table), degree)
    assert plan.verdicts == ()
    assert plan.loads.max() <= 1.08 * cost.sum() / workers * (1 + 1e-8)
    assert plan.table_size(keys) <= max_table
