"""The closed loop of the key-level experiments, and how their claims read the numbers."""

import json
from itertools import pairwise

import numpy as np
import pytest

from evenflow.planning.keys import ALGORITHMS
from evenflow.planning.keys.metrics import moved_state
from evenflow.research.experiment import PointResult, tidy_table
from evenflow.research.experiments.mixed import closed_loop
from evenflow.research.experiments.registry import EXPERIMENTS
from evenflow.research.points import Point, Rows

POINT: Point = {
    **closed_loop.DEFAULTS,
    "keys": 2_000,
    "workers": 5,
    "window": 3,
    "algorithm": "mixed",
    "intervals": 4,
    "seed": 0,
}


def test_each_plan_is_the_next_ones_start_and_state_is_that_of_the_window() -> None:
    done = list(closed_loop.run_adjustments(POINT, 4))
    assert len(done) == 4
    costs = [one.keys.cost for one in done]
    for before, after in pairwise(done):
        assert (after.keys.owner == before.plan.owner).all()
        shift = np.abs(after.keys.worker_loads() - before.plan.loads).max()
        assert shift >= float(POINT["fluctuation"]) * before.plan.loads.mean()
    assert done[2].keys.state == pytest.approx(costs[0] + costs[1] + costs[2])


def test_a_run_reports_the_means_of_its_adjustments() -> None:
    (row,) = closed_loop.measure_loop(POINT)
    done = list(closed_loop.run_adjustments(POINT, 4))
    moved = [100 * moved_state(one.keys, one.plan.owner) / one.keys.state.sum() for one in done]
    assert row["moved_percent"] == pytest.approx(np.mean(moved))
    assert row["feasible"] == 1.0
    assert float(row["max_over_mean"] or 0) <= 1.08 + 1e-9


@pytest.mark.parametrize("algorithm", ["mixed", "cover"])
def test_the_loop_replans_as_the_planner_alone_would(algorithm: str) -> None:
    *_, last = closed_loop.run_adjustments({**POINT, "algorithm": algorithm}, 2)
    plan = ALGORITHMS[algorithm](
        last.keys, closed_loop.point_config(POINT), np.random.default_rng(0)
    )
    assert (plan.owner == last.plan.owner).all()


def loop_rows(mintable: float) -> Rows:
    """Figure 8's grid with made-up measures."""
    moved = {"mixed": 2.0, "mintable": mintable, "cover": 1.0}
    outcomes = []
    for point in EXPERIMENTS["mixed-fig8"].points("small"):
        name = str(point["algorithm"])
        row = {"moved_percent": moved[name] / int(point["window"]), "milliseconds": moved[name],
               "table_size": 3_000, "max_over_mean": 1.08}  # fmt: skip
        outcomes.append(PointResult("mixed-fig8", json.dumps(dict(point)), json.dumps([row]), 0.0))
    return tidy_table(outcomes)


@pytest.mark.parametrize(("mintable", "holds"), [(6.0, True), (1.0, False)])
def test_claims_follow_the_numbers(mintable: float, holds: bool) -> None:
    cheaper, _, _, window = EXPERIMENTS["mixed-fig8"].claims(loop_rows(mintable))
    assert cheaper.holds is holds
    assert f"{mintable / 2:g} at 40" in cheaper.measured
    assert "cover moves 0.5 ± 0 times" in cheaper.measured
    assert window.holds
