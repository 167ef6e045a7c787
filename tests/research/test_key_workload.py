import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import hash_keys, jump_hash
from evenflow.research.key_workload import fluctuate_costs, swap_random_pairs, zipf_costs


def test_costs_follow_zipf() -> None:
    cost = np.sort(zipf_costs(1000, 0.85, np.random.default_rng(0), total=1.0))[::-1]
    assert cost.sum() == pytest.approx(1)
    assert cost[0] / cost[99] == pytest.approx(100**0.85)


@given(st.sampled_from([0.0, 0.2, 1.0]), st.sampled_from([1000, 20_000]), st.integers(0, 99))
@settings(max_examples=30)
def test_some_worker_changes_by_f_means_and_costs_are_permuted(
    fluctuation: float, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    owner = jump_hash(hash_keys(np.arange(count)), 10)
    cost = zipf_costs(count, 0.85, rng)
    new = fluctuate_costs(cost, owner, 10, fluctuation, rng)
    assert np.array_equal(np.sort(new), np.sort(cost))
    change = np.abs(np.bincount(owner, weights=new - cost)) / (cost.sum() / 10)
    assert change.max() >= fluctuation - 1e-9
    heaviest = cost.max() / (cost.sum() / 10)
    assert change.max() <= fluctuation + heaviest + 1e-9, "no further than the last swap"


def test_what_cannot_be_reached_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="cannot be reached"):
        fluctuate_costs(np.ones(10), np.arange(10, dtype=np.int32) % 2, 2, 5.0, rng)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wanted", [0.0, 0.3, 50.0])
def test_drawing_compiled_is_drawing_as_written(seed: int, wanted: float) -> None:
    cost = zipf_costs(300, 0.85, np.random.default_rng(seed), total=10.0)
    inside, outside = np.arange(100), np.arange(100, 300)
    found = []
    for draw in (swap_random_pairs, swap_random_pairs.py_func):  # type: ignore[attr-defined]
        swapped = cost.copy()
        rng = np.random.default_rng(seed)
        gained = draw(swapped, inside, outside, 1.0, wanted, rng)
        assert gained == pytest.approx(swapped[inside].sum() - cost[inside].sum())
        found.append((swapped.tolist(), gained, rng.random()))
    assert found[0] == found[1]
