"""Joins whose keys get dearer while their rows stay the same."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from evenflow.model import KeyStats, Plan, RoutingTable, hash_keys
from evenflow.model.arrays import Floats
from evenflow.planning.controller import Balancing, decide
from evenflow.planning.controller.price_growth import grown_keys, price_slope
from evenflow.research.synthetic_flow import QueryDemand, SyntheticFlow

ROWS = np.array([400.0, 200.0, 100.0, 50.0, 20.0])
HASHES = np.sort(hash_keys(np.arange(len(ROWS))))


def batch(stored: float, rows: Floats = ROWS) -> KeyStats:
    """Return keys that each compare their rows with those of `stored` batches."""
    cost = rows + rows * stored * rows / 100
    none = np.zeros(2)
    return KeyStats(
        HASHES, np.zeros(len(rows), np.int32), cost, cost, ("",) * len(rows),
        none.astype(np.int64), none, none, none, rows.astype(np.int64),
    )  # fmt: skip


def test_a_slope_is_what_a_stored_row_costs() -> None:
    assert price_slope(batch(0.0)) == pytest.approx(0.0, abs=1e-12)
    assert price_slope(batch(7.0)) == pytest.approx(0.07)
    assert price_slope(batch(7.0, np.full(5, 10.0))) == 0.0, "equal keys show no slope"
    assert price_slope(batch(7.0, np.zeros(5))) == 0.0


def test_growing_keys_get_the_prices_of_three_batches_later() -> None:
    grown = grown_keys([batch(20.0), batch(0.5), batch(1.5), batch(2.5)])
    assert_allclose(grown[0].cost, batch(20.0).cost, err_msg="before the shift")
    for keys in grown[1:]:
        assert_allclose(keys.cost, batch(5.5).cost)


def test_keys_that_no_longer_grow_keep_their_prices() -> None:
    stats = [batch(20.0) for _ in range(4)]
    assert all(after is before for after, before in zip(grown_keys(stats), stats, strict=True))
    grown = grown_keys([batch(10.0), batch(20.0), batch(20.0)])
    assert_allclose([keys.cost for keys in grown], [batch(20.0).cost] * 3)


def test_rows_that_get_cheaper_the_more_there_are_show_no_growth() -> None:
    falling = [replace(batch(0.0), cost=ROWS + part) for part in (40.0, 20.0)]
    assert price_slope(falling[0]) < price_slope(falling[1]) < 0
    assert grown_keys(falling)[0] is falling[0]


@pytest.mark.parametrize("seed", range(20))
def test_prices_that_differ_by_chance_do_not_grow(seed: int) -> None:
    rng, rows = np.random.default_rng(seed), np.linspace(1, 200, 200)
    hashes, none = np.sort(hash_keys(np.arange(200))), np.zeros(2)
    stats = [
        KeyStats(
            hashes, np.zeros(200, np.int32), rows * rng.normal(1, 0.05, 200), rows, ("",) * 200,
            none.astype(np.int64), none, none, none, rows.astype(np.int64),
        )
        for _ in range(16)
    ]  # fmt: skip
    assert all(after is before for after, before in zip(grown_keys(stats), stats, strict=True))


def test_few_rows_keep_their_price() -> None:
    grown = grown_keys([batch(0.5, ROWS / 20), batch(2.5, ROWS / 20)])
    assert_allclose(grown[0].cost[2:], batch(0.5, ROWS / 20).cost[2:])
    assert (grown[0].cost[:2] > batch(0.5, ROWS / 20).cost[:2]).all()


def test_a_growing_self_join_is_even_three_batches_after_a_shift() -> None:
    keys, span = 200, 20
    shares = 1 / np.arange(1, keys + 1)
    orders = [np.random.default_rng(seed).permutation(keys) for seed in range(2)]
    rows = [4_000 * (shares / shares.sum())[order] for order in orders]

    def seconds(number: int) -> Floats:
        new = rows[number >= 24]
        since = min(max(number - 24, 0), span) if number >= 24 else span
        stored = rows[0] * (span - since) * (number >= 24) + new * since
        cost: Floats = 2e-6 * new + 2e-7 * new * (stored + new / 2)
        return cost

    demand = QueryDemand(
        seconds, hash_keys(np.arange(keys)), split_by="events",
        key_rows=lambda number: rows[number >= 24],
        shared_seconds=lambda number: 2e-6 * rows[number >= 24],
    )  # fmt: skip
    flow = SyntheticFlow({"q": demand}, Plan(8, {}, {"q": RoutingTable()}))
    uneven = []
    for _ in range(44):
        uneven.append(flow.imbalance())
        flow.step(lambda seen, before: decide(seen, before, Balancing()))
    answer = next(d.batch for d in flow.decisions if d.batch >= 24 and d.plan is not None)
    assert uneven[24] > 2 and answer == 24
    assert max(uneven[answer + 3 :]) <= 1.08
    assert sum(d.plan is not None for d in flow.decisions if d.batch >= 24) <= 4
