"""Noise, changes, and batches that are no measure of anything."""

import numpy as np
import pytest

from evenflow.planning.controller.change_points import (
    last_change_point,
    relative_noise,
    usable_rows,
)


def series(noise: float, rows: int = 16, columns: int = 8, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 1 + noise * rng.standard_normal((rows, columns))


@pytest.mark.parametrize("level", [0.02, 0.1])
def test_noise_is_measured_through_a_shift(level: float) -> None:
    values = series(level)
    values[9:, :2] += 0.6
    assert relative_noise(values) == pytest.approx(level, rel=0.4)


def test_noise_alone_is_seldom_a_change() -> None:
    changes = [last_change_point(series(0.1, seed=seed)) for seed in range(50)]
    assert np.mean([change > 0 for change in changes]) <= 0.2


def test_a_shift_is_seen_in_its_first_batch() -> None:
    values = series(0.05)
    values[-1, 3] += 0.5
    assert last_change_point(values) == len(values) - 1


def test_batches_without_load_and_single_stalls_are_left_out() -> None:
    loads = np.ones((7, 2))
    loads[1] = 0.0  # nothing came
    loads[4, 0] = 0.0  # worker 0 was held up, and catches up in the batch after
    assert usable_rows(loads).tolist() == [0, 2, 3, 6]


def test_a_worker_that_is_idle_for_long_counts() -> None:
    loads = np.ones((4, 2))
    loads[2:, 0] = 0.0
    assert usable_rows(loads).tolist() == [0, 1, 2, 3]
