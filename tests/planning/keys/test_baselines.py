import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.strategies import key_loads

from evenflow.model import KeyLoads, imbalance
from evenflow.planning.keys import ALGORITHMS, KeyConfig, shuffled_loads
from evenflow.planning.keys.baselines import _readj, _readj_pairs, readj_plain
from evenflow.planning.keys.metrics import max_relative_deviation, windowed_state
from evenflow.planning.least_load import place_on_least_loaded_plain


@given(st.integers(1, 12), st.integers(2, 5), st.integers(0, 2**32))
@settings(max_examples=200)
def test_readj_kernel_equals_trying_all_pairs(count: int, workers: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cost = np.sort(rng.permutation(np.arange(1, 400))[:count]).astype(float)
    state = rng.permutation(1000)[:count].astype(float)
    owner = rng.integers(0, workers, count).astype(np.int32)
    load = np.bincount(owner, weights=cost, minlength=workers).astype(float)
    load += rng.integers(0, 100, workers)
    limit = 1.05 * float(load.mean())
    expected = readj_plain(cost, state, owner, load, limit)
    assert _readj(cost, state, owner, load, limit).tolist() == expected.tolist()
    assert _readj_pairs(cost, state, owner, load, limit).tolist() == expected.tolist()


@given(keys=key_loads())
def test_simple_kernel_equals_plain_version(keys: KeyLoads) -> None:
    plan = ALGORITHMS["simple"](keys, KeyConfig(), np.random.default_rng(0))
    order = sorted(range(len(keys)), key=lambda key: (-keys.cost[key], key))
    expected = place_on_least_loaded_plain(keys.cost[order], np.zeros(keys.workers))
    assert plan.owner[order].tolist() == expected.tolist()


def test_ideal_is_perfectly_even() -> None:
    keys = KeyLoads.from_arrays([9.0, 1], [1.0, 1], [0, 0], [0, 0], 2)
    assert shuffled_loads(keys).tolist() == [5.0, 5.0]


def test_hash_drops_the_table() -> None:
    keys = KeyLoads.from_arrays([1.0, 1], [1.0, 1], [0, 1], [1, 1], 2)
    plan = ALGORITHMS["hash"](keys, KeyConfig(), np.random.default_rng(0))
    assert plan.owner.tolist() == [0, 1]


def test_statistics_of_nothing_and_of_windows() -> None:
    assert max_relative_deviation(np.zeros(3)) == 0
    assert imbalance(np.zeros(3)) == 1
    sizes = [np.array([float(i)]) for i in range(5)]
    assert windowed_state(sizes, 1).tolist() == [4]
    assert windowed_state(sizes, 9).tolist() == [10]


@pytest.mark.parametrize(
    ("field", "value"), [("max_imbalance", -0.1), ("max_table", -1), ("beta", float("nan"))]
)
def test_a_config_is_checked_when_made(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field.replace("_", "-")):
        KeyConfig(**{field: value})  # type: ignore[arg-type]
