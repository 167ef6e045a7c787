"""How soon the controller is sure, with few rows per batch: they arrive by chance."""

import numpy as np
import pytest
from benchmarks.planning.certainty import (
    changing,
    constant,
    even_stream,
    first_plan,
    true_imbalance,
)

from evenflow.model import hash_keys
from evenflow.planning.controller.change_points import excess_noise, last_key_change
from evenflow.planning.controller.shrinkage import expected_counts
from evenflow.research.key_workload import zipf_costs


@pytest.mark.parametrize("rows", [50, 200])
@pytest.mark.parametrize(("keys", "skew"), [(1_000, 0.85), (10_000, 1.0), (10_000, 1.2)])
def test_a_stationary_skewed_stream_gets_a_plan_within_four_batches(
    keys: int, skew: float, rows: int
) -> None:
    for seed in range(4):
        shares = zipf_costs(keys, skew, np.random.default_rng(seed), 1.0)
        hashes = hash_keys(np.arange(keys))
        if true_imbalance(shares, hashes) >= 1.3:
            made, flow = first_plan(constant(shares), hashes, rows * 8, seed, 4)
            assert made, [decision.message for decision in flow.decisions]


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_an_even_stream_gets_no_plan(kind: int) -> None:
    for seed in range(6):
        shares, hashes = even_stream(kind, np.random.default_rng((kind, seed)))
        made, flow = first_plan(constant(shares), hashes, 50 * 8, seed, 12)
        assert made == [], [decision.message for decision in flow.decisions]


@pytest.mark.parametrize("rows", [100, 400])
def test_a_shift_is_seen_in_its_first_or_second_batch(rows: int) -> None:
    hashes = hash_keys(np.arange(2_000))
    for seed in range(3):
        one, other = (zipf_costs(2_000, 1.0, np.random.default_rng((seed, e)), 1.0) for e in (0, 1))
        made, flow = first_plan(changing(one, other, 9), hashes, rows * 8, seed, 12)
        assert any(batch in (10, 11) for batch in made), [d.message for d in flow.decisions]


def test_stationary_keys_do_not_look_changed() -> None:
    """The heaviest keys of the newest batch are there by luck; that is no change."""
    shares, resets = zipf_costs(5_000, 0.85, np.random.default_rng(0), 1.0), 0
    for seed in range(50):
        rows = np.random.default_rng(seed).poisson(400 * shares, (16, 5_000))
        top = np.argsort(-rows[-1], kind="stable")[:64]
        seen = rows[:, top] / rows.sum(axis=1, keepdims=True)
        behind = np.repeat(rows.sum(axis=1, keepdims=True), 64, axis=1).astype(float)
        resets += last_key_change(seen, behind, 0.0, 0.02 / 8) > 0
    assert resets <= 1


def test_noise_of_few_rows_is_known_and_other_noise_is_measured() -> None:
    rng = np.random.default_rng(0)
    rows = rng.poisson(50, (16, 8)).astype(float)
    shares = rows / rows.mean(axis=1, keepdims=True)
    variances = np.full_like(shares, 1 / 50)
    assert excess_noise(shares, variances) < 0.05
    noisy = shares * (1 + 0.3 * rng.standard_normal(shares.shape))
    assert excess_noise(noisy, variances) == pytest.approx(0.3, rel=0.25)


def test_equal_keys_get_equal_rates_and_hot_keys_keep_theirs() -> None:
    rng = np.random.default_rng(0)
    equal = expected_counts(rng.poisson(20, 200).astype(float))
    assert equal.std() < 1.0, "by chance it is 4.5"
    rates = 2_000 / np.arange(1, 301)
    counts = rng.poisson(rates).astype(float)
    usual = expected_counts(counts)
    assert usual.sum() == pytest.approx(counts.sum())
    assert (np.abs(usual - counts) <= 2 * np.sqrt(counts) + 1).all()
    assert usual[:50] == pytest.approx(rates[:50], rel=0.3)
