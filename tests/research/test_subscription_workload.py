import numpy as np
import pytest

from evenflow.errors import InputError
from evenflow.research.subscription_workload import random_subscriptions, with_source_rates


@pytest.mark.parametrize(("queries", "beta", "width"), [(1, 2.0, 1), (50, 1.0, 5), (3000, 2.0, 2)])
def test_every_query_reads_d_distinct_sources(queries: int, beta: float, width: int) -> None:
    drawn = random_subscriptions(queries, beta, width, np.random.default_rng(1))
    assert (np.diff(drawn.starts) == width).all()  # Subscriptions refuses duplicates itself.
    assert drawn.reader_counts().min() >= 1


def test_tiny_instances_end() -> None:
    for seed in range(200):
        random_subscriptions(3, 0.5, 3, np.random.default_rng(seed))


def test_degrees_follow_the_zipf_law() -> None:
    """P(D = 1) / P(D = 2) = 2^beta."""
    degrees = random_subscriptions(200_000, 2.0, 2, np.random.default_rng(1)).reader_counts()
    ratio = (degrees == 1).sum() / (degrees == 2).sum()
    assert ratio == pytest.approx(4.0, rel=0.05)


def test_rates_follow_popularity_as_asked() -> None:
    rng = np.random.default_rng(1)
    drawn = random_subscriptions(20_000, 2.0, 2, rng)
    degrees = drawn.reader_counts()
    assert np.allclose(with_source_rates(drawn, 2.0, "positive", rng).rates, degrees)
    assert np.allclose(with_source_rates(drawn, 2.0, "negative", rng).rates, 1 / degrees)
    free = with_source_rates(drawn, 2.0, "random", rng).rates
    assert abs(np.corrcoef(np.log(free), np.log(degrees))[0, 1]) < 0.05
    assert (free > 2).mean() == pytest.approx(1 / 4, abs=0.03)


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match="must be 1 or more, beta above 0"):
        random_subscriptions(0, 2.0, 2, np.random.default_rng(1))
