import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import hash_keys, jump_hash
from evenflow.planning.keys.discretise import descending_order, discretise, discretise_plain
from evenflow.research.key_workload import zipf_costs

EXAMPLE = np.array([8.0, 6, 3, 2, 2, 1, 1, 1, 1, 1])


def test_the_papers_example_has_total_deviation_zero() -> None:
    chosen = discretise(EXAMPLE, 4)
    assert chosen.tolist() == [8, 4, 4, 2, 2, 2, 1, 1, 1, 1]
    assert (EXAMPLE - chosen).sum() == 0


@given(st.lists(st.integers(1, 5000).map(float), min_size=1), st.integers(0, 8))
def test_kernel_equals_plain_version(values: list[float], power: int) -> None:
    array = np.array([1.0, *values])
    order = descending_order(array)
    assert discretise(array, 2**power)[order].tolist() == discretise_plain(
        array[order].tolist(), 2**power
    )


@given(st.lists(st.floats(-0.0, 1e12, allow_subnormal=False), min_size=1))
def test_descending_is_right_to_8_leading_bits(values: list[float]) -> None:
    array = np.array(values)
    ordered = array[descending_order(array)]
    assert sorted(ordered) == sorted(values)
    assert (ordered[1:] <= ordered[:-1] * (1 + 2**-8)).all()


@given(st.lists(st.integers(1, 5000).map(float), min_size=1), st.integers(0, 8))
def test_representatives_are_multiples_or_powers(values: list[float], power: int) -> None:
    degree = 2**power
    for chosen in discretise(np.array([1.0, *values]), degree):
        assert chosen % degree == 0 or float(chosen).hex().startswith("0x1.0000000000000p")


def test_idle_keys_stay_idle() -> None:
    assert discretise(np.array([0.0, 0.0]), 8).tolist() == [0, 0]
    assert discretise(np.array([0.0, 5.0]), 8).tolist() == [0, 5]


def test_the_degree_is_a_power_of_two() -> None:
    with pytest.raises(InputError, match="power of two, got 3"):
        discretise(EXAMPLE, 3)


@pytest.mark.parametrize("keys", [10_000, 100_000])
def test_error_of_estimated_loads(keys: int) -> None:
    """The paper: at most 1 % for R = 1..256. With one sum over all workers that is not so for
    10,000 keys, whose heaviest weigh much; with a sum for each worker it is far below.
    """
    cost = zipf_costs(keys, 0.85, np.random.default_rng(0))
    owner = jump_hash(hash_keys(np.arange(keys)), 15)
    loads = np.bincount(owner, weights=cost)

    def error(chosen: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        return float(np.abs(np.bincount(owner, weights=chosen) / loads - 1).max())

    degrees = [2**power for power in range(9)]
    together = max(error(discretise(cost, degree)) for degree in degrees)
    each = max(error(discretise(cost, degree, owner)) for degree in degrees)
    assert each < 0.0005
    assert together < (0.1 if keys == 10_000 else 0.03)
    assert each < together / 20
