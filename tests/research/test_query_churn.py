import functools

import numpy as np
import pytest

from evenflow.errors import InputError
from evenflow.planning.queries import NOWHERE, ONLINE, Fleet, total_traffic
from evenflow.planning.queries.herd import herd
from evenflow.research.query_churn import (
    Churn,
    PlacementRule,
    draw_arrivals_and_departures,
    draw_lifetimes,
    simulate_churn,
)
from evenflow.research.subscription_workload import random_subscriptions

QUERIES = random_subscriptions(4_000, 2.0, 2, np.random.default_rng(4))
CHURN = Churn(mean_lifetime_steps=800.0, fleet_change_steps=150)


@pytest.mark.parametrize("name", ONLINE)
def test_placement_state_stays_consistent_under_churn(name: str) -> None:
    history = simulate_churn(ONLINE[name], QUERIES, Fleet.of(10), CHURN, seed=1)
    assert history.final_state is not None
    state = history.final_state.state
    assert state.traffic.sum() == pytest.approx(
        total_traffic(QUERIES, state.worker_of_query, len(state.worker_load))
    )
    live = (state.worker_of_query != NOWHERE).sum()
    assert history.samples[-1].live_queries == live == state.totals[1]
    assert 1.0 <= history.replication_factor() <= max(s.workers for s in history.samples)
    assert history.placements_over_bound == 0, str(history)


def test_one_seed_replays_a_run() -> None:
    first, again, other = (
        simulate_churn(ONLINE["onrand"], QUERIES, Fleet.of(10), CHURN, seed=seed)
        for seed in (7, 7, 8)
    )
    assert str(first) == str(again) != str(other)


def test_the_trace_names_every_event() -> None:
    history = simulate_churn(ONLINE["leastcost"], QUERIES, Fleet.of(10), CHURN, seed=1)
    assert history.lines[0].startswith("seed 1: 4000 queries")
    assert any("lost" in line and "placed again" in line for line in history.lines)
    assert any("added" in line for line in history.lines)


def test_herd_beats_leastcost_under_churn_and_moves_help() -> None:
    queries = random_subscriptions(60_000, 2.0, 2, np.random.default_rng(4))
    churn = Churn(mean_lifetime_steps=15_000.0)
    rules: dict[str, PlacementRule] = {
        "leastcost": ONLINE["leastcost"],
        "herd": herd,
        "moving": functools.partial(herd, max_moves=6_000),
    }
    runs = {
        n: simulate_churn(rule, queries, Fleet.of(50), churn, seed=2) for n, rule in rules.items()
    }
    factor = {name: run.replication_factor() for name, run in runs.items()}
    assert factor["herd"] < 0.97 * factor["leastcost"]
    assert factor["moving"] < 0.97 * factor["herd"]
    assert 0 < runs["moving"].moved_queries <= 6_000


@pytest.mark.parametrize("lives", ["exponential", "pareto"])
def test_lifetimes_have_the_configured_mean(lives: str) -> None:
    churn = Churn(1000.0, lives)  # type: ignore[arg-type]
    drawn = draw_lifetimes(400_000, churn, np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(1000.0, rel=0.05)


def test_churn_needs_a_positive_lifetime() -> None:
    with pytest.raises(InputError, match="mean_lifetime_steps"):
        Churn(0.0)


def test_arrivals_follow_the_day() -> None:
    churn = Churn(100.0, arrivals_per_step=5.0, day_steps=1000, daily_swing=0.8)
    arrived, departs = draw_arrivals_and_departures(50_000, churn, np.random.default_rng(1))
    phase = arrived % 1000
    night, noon = ((phase >= a) & (phase < a + 100) for a in (0, 450))
    # 1 - 0.8 cos over a tenth of the day: means of 0.25 and 1.79 times the usual arrivals.
    assert noon.sum() / night.sum() == pytest.approx(1.787 / 0.251, rel=0.05)
    assert (np.diff(arrived) >= 0).all()
    assert (departs > arrived).all()


@pytest.mark.parametrize(
    "rhythm", [{"daily_swing": 0.5}, {"day_steps": 10, "daily_swing": 1.5}, {"day_steps": -1}]
)
def test_an_impossible_rhythm_is_refused(rhythm: dict[str, float]) -> None:
    with pytest.raises(InputError, match="daily_swing must be between 0 and 1"):
        Churn(100.0, **rhythm)  # type: ignore[arg-type]
