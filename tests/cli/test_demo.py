"""The comparison and the summary of `evenflow demo`; `make run` runs the demo itself."""

import numpy as np
import pytest
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.cli.comparison import MeasuredBatch, Side, compare_sides
from evenflow.cli.demo import demo_json, demo_lines
from evenflow.cli.demo_run import DATA, WARM_UP_BATCHES, DemoResult
from evenflow.model import BalanceMetrics, Decision, Reason, Trigger


def side(seconds: list[float], imbalance: float) -> Side:
    return Side([MeasuredBatch(1000, each, each * 0.8, imbalance) for each in seconds])


def test_the_gain_pairs_batches_of_equal_rows() -> None:
    found = compare_sides(
        side([2.0, 3.0, 4.0], 1.9), side([1.0, 2.0, 2.0], 1.0), np.random.default_rng(0)
    )
    assert found["gain"] == pytest.approx(9 / 5)
    assert found["gain_low"] <= found["gain"] <= found["gain_high"]
    assert found["hash"]["rows_per_second"] == round(3000 / 9)
    assert found["hash"]["batch_seconds"] == 3.0
    assert found["balanced"]["imbalance"] == 1.0
    assert found["balanced"]["other_share"] == pytest.approx(0.2)


def test_an_interval_tells_noise_from_gain() -> None:
    rng = np.random.default_rng(1)
    before, after = rng.normal(1.0, 0.2, 20), rng.normal(1.0, 0.2, 20)
    found = compare_sides(side(list(before), 1), side(list(after), 1), rng)
    assert found["gain_low"] < 1 < found["gain_high"]


def test_the_summary_is_short_and_says_what_was_split() -> None:
    even = BalanceMetrics(1.0, 1.0, 1.0)
    decision = Decision(
        batch=4,
        at=0.0,
        trigger=Trigger.IMBALANCE,
        reason=Reason.KEYS,
        message="seller-0 is 97 % of jumps; split over 2 workers",
        before=even,
    )
    comparison = compare_sides(side([2.0], 1.9), side([1.0], 1.0), np.random.default_rng(0))
    result = DemoResult(2, comparison, [decision], {"hash": 7, "balanced": 7})
    lines = demo_lines(result)
    assert len(lines) <= 12
    assert any("2.00 times as fast" in line for line in lines)
    assert any("split over 2 workers" in line for line in lines)
    shown = demo_json(result)
    assert shown["comparison"]["gain"] == 2.0
    assert set(shown["comparison"]["hash"]) >= {"rows_per_second", "batch_seconds", "imbalance"}


def test_another_seller_dominates_after_half_of_the_measured_batches() -> None:
    batches = list(DATA.stream_batches("orders"))
    hot = [max(set(s := rows["seller"].to_pylist()), key=s.count) for rows in batches]
    change = hot.index("seller-1")
    assert hot == ["seller-0"] * change + ["seller-1"] * (len(batches) - change)
    assert change == WARM_UP_BATCHES + (len(batches) - WARM_UP_BATCHES) // 2


def test_help_names_the_exit_codes() -> None:
    assert "differ" in CliRunner().invoke(app, ["demo", "--help"]).output
