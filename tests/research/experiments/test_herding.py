"""The query-level experiments: instances, proofs, and how their claims read the numbers."""

import json

import pytest

from evenflow.planning.queries import Fleet, total_traffic
from evenflow.research.experiment import PointResult, tidy_table
from evenflow.research.experiments.herding import common
from evenflow.research.experiments.registry import EXPERIMENTS
from evenflow.research.points import Point, Rows

POINT: Point = {
    "panel": "popularity",
    "beta": 2.0,
    "sources_per_query": 2,
    "queries": 1_000,
    "workers": 10,
    "algorithm": "leastcost",
    "seed": 0,
}


def test_all_algorithms_of_a_configuration_place_the_same_queries() -> None:
    one, two, other = (
        common.draw_subscriptions({**POINT, "algorithm": name, "seed": seed})
        for name, seed in (("leastcost", 0), ("herd", 0), ("herd", 1))
    )
    assert (one.sources == two.sources).all()
    assert len(other.sources) == len(one.sources)
    assert not (other.sources == one.sources).all()


@pytest.mark.parametrize("algorithm", ["leastcost", "mms", "repair"])
def test_the_replication_factor_is_traffic_over_the_rates_read(algorithm: str) -> None:
    subscriptions = common.draw_subscriptions(POINT)
    (row,) = common.measure_algorithm(subscriptions, {**POINT, "algorithm": algorithm})
    placed = common.place_queries(subscriptions, Fleet.of(10), algorithm, common.point_seed(POINT))
    flows = total_traffic(subscriptions, placed.workers, 10)
    assert row["replication_factor"] == pytest.approx(flows / subscriptions.rates.sum())


def test_repair_starts_from_herd_and_moves_a_twentieth_at_most() -> None:
    subscriptions = common.draw_subscriptions(POINT)
    herd, repaired = (
        common.place_queries(subscriptions, Fleet.of(10), name, 100) for name in ("herd", "repair")
    )
    away = int((herd.workers != repaired.workers).sum())
    assert 0 < away <= len(subscriptions) // common.QUERIES_PER_REPAIR_MOVE


def test_random_placement_meets_its_closed_form() -> None:
    point = {**POINT, "family": "zipf", "workers": 20, "runs": 5}
    rows = EXPERIMENTS["herding-prop2"].run(point)
    assert len(rows) == 5
    for row in rows:
        assert row["share"] == pytest.approx(row["expected_share"], rel=0.03)


def test_a_week_has_days_and_all_its_planners_see_the_same_queries() -> None:
    experiment = EXPERIMENTS["herding-fig9"]
    point = dict(POINT) | {"queries": 3_000, "week": "many sources, two a query"}
    rule, replanned = (
        {
            round(float(row["hour"] or 0)): row
            for row in experiment.run({**point, "algorithm": name})
        }
        for name in ("roundrobin", "partition")
    )
    shared = sorted(set(rule) & set(replanned))
    assert len(shared) >= 20
    for hour in shared:
        assert rule[hour]["live_queries"] == replanned[hour]["live_queries"]
        assert rule[hour]["worst"] == pytest.approx(replanned[hour]["worst"])
        assert float(replanned[hour]["traffic"] or 0) < float(rule[hour]["traffic"] or 0)


def arrivals(leastqt: float) -> Rows:
    """Figure 5's grid with made-up measures."""
    factor = {"leastcost": 1.0, "leastsource": 1.1, "leastqt": leastqt, "onrand": 4.0, "mms": 1.0,
              "herd": 0.9, "repair": 0.8}  # fmt: skip
    return tidy_table(
        [
            PointResult("", json.dumps(dict(point)),
                    json.dumps([{"replication_factor": factor[str(point["algorithm"])]}]), 0.0)
            for point in EXPERIMENTS["herding-fig5"].points("small")
        ]
    )  # fmt: skip


@pytest.mark.parametrize(("leastqt", "holds"), [(4.0, True), (2.0, False)])
def test_claims_follow_the_numbers(leastqt: float, holds: bool) -> None:
    best, close, random, offline, types = EXPERIMENTS["herding-fig5"].claims(arrivals(leastqt))
    assert best.holds and close.holds and random.holds and offline.holds
    assert "LeastCost up to 4 times" in random.measured
    assert types.holds is holds
    assert bool(types.why) is not holds
