"""Measures two points of every experiment; draws its figure and checks its claims."""

import json
import re
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pytest

from evenflow.errors import InputError
from evenflow.research.decide_claims import decide_claims
from evenflow.research.experiment import (
    VERDICTS,
    Claim,
    Experiment,
    PointResult,
    measure_point,
    point_name,
    tidy_table,
)
from evenflow.research.experiments.registry import EXPERIMENTS, find_experiments
from evenflow.research.points import SCALES, Rows
from evenflow.research.seed_statistics import group_spreads, make_claim
from evenflow.research.sweep_report import report_html, report_markdown, write_section

PURE = [experiment for experiment in EXPERIMENTS.values() if not experiment.live]
EACH = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda e: e.id)
COST_COLUMNS = ("seconds", "queries", "keys", "workers")
SHORT = {"seconds": 5.0, "intervals": 16, "keys": 5_000, "queries": 5_000}


def short_points(experiment: Experiment) -> list[str]:
    """Return the two cheapest points of the small grid, shortened, of different algorithms."""
    points = sorted(
        experiment.points("small"),
        key=lambda point: [float(point[name]) for name in COST_COLUMNS if name in point],
    )
    by_algorithm = {point.get("algorithm"): point for point in reversed(points)}
    short = {name: value for name, value in SHORT.items() if name in points[0]}
    return [point_name({**point, **short}) for point in list(by_algorithm.values())[:2]]


@pytest.mark.parametrize("experiment", PURE, ids=lambda e: e.id)
def test_points_are_measured_and_drawn(experiment: Experiment) -> None:
    measured = [measure_point(experiment, point) for point in short_points(experiment)]
    for result in measured:
        assert not result.error
        rows = json.loads(result.rows)
        assert rows
        for row in rows:
            assert not set(row) & set(json.loads(result.point)), "a measure hides a point's column"
    # The whole grid with the rows of these points: only the shape is realistic.
    grid = [point_name(point) for point in experiment.points("small")]
    filled = [
        PointResult(experiment.id, point, like.rows, 0.1)
        for point, like in zip(grid, cycle(measured), strict=False)
    ]
    rows = tidy_table(filled)
    claims = decide_claims(experiment, rows)
    assert claims
    assert all(claim.text and claim.measured and claim.verdict in VERDICTS for claim in claims)
    assert experiment.draw or experiment.markdown
    if experiment.markdown:
        assert experiment.markdown(rows).count("\n|") >= 2
    if experiment.draw:
        drawn = experiment.draw(rows)
        assert drawn.axes
        assert all(panel.has_data() and panel.get_ylabel() for panel in drawn.axes)


def test_the_page_needs_no_other_file(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["borealis-fig1"]
    rows = measure_point(experiment, short_points(experiment)[0]).rows
    points = [point_name(point) for point in experiment.points("small")]
    results = [PointResult(experiment.id, point, rows, 0.1) for point in points]
    section = write_section(experiment, results, tmp_path)
    for name in section.figure_files:
        assert (tmp_path / name).stat().st_size > 2_000
    text, page = report_markdown([section], "small"), report_html([section], "small", tmp_path)
    assert all(claim.text in text and claim.text in page for claim in section.claims)
    assert f"]({section.figure_files[0]})" in text
    sources = re.findall(r'(?:src|href)="([^"]{1,12})', page)
    assert sources
    assert all(source.startswith(("data:image/", "#")) for source in sources)


@EACH
def test_grids_name_each_point_once(experiment: Experiment) -> None:
    for scale in SCALES:
        names = [point_name(point) for point in experiment.points(scale)]
        assert names
        assert len(names) == len(set(names))
    assert len(experiment.points("paper")) >= len(experiment.points("small"))


def test_a_point_repeats_exactly() -> None:
    for id_ in ("borealis-fig5", "borealis-fig10"):
        point = short_points(EXPERIMENTS[id_])[0]
        first, second = (measure_point(EXPERIMENTS[id_], point).rows for _ in range(2))
        assert first == second


def test_a_failing_point_returns_its_error() -> None:
    result = measure_point(EXPERIMENTS["borealis-fig4"], '{"algorithm": "none", "seed": 0}')
    assert "KeyError: 'none'" in result.error
    assert result.rows == "[]"


def correlations(cor_glb: float) -> Rows:
    values = {"cor-glb": cor_glb, "rand-glb": 0.01, "llf-glb": -0.01, "variance": 0.8}
    return tidy_table(
        [
            PointResult("", json.dumps({"algorithm": name, "seed": seed}),
                    json.dumps([{"mean_correlation": value + seed / 100}]), 0.0)
            for name, value in values.items()
            for seed in (-1, 1)
        ]
    )  # fmt: skip


@pytest.mark.parametrize(("cor_glb", "holds"), [(0.66, True), (0.4, False)])
def test_claims_follow_the_numbers(cor_glb: float, holds: bool) -> None:
    near, zero = EXPERIMENTS["borealis-table3"].claims(correlations(cor_glb))
    assert near.holds is holds
    assert bool(near.why) is not holds
    assert near.measured.startswith(f"{cor_glb} ± 0.0141")
    assert zero.holds


def test_rows_that_lack_a_column_are_null_there() -> None:
    rows = tidy_table([PointResult("", '{"a": 1}', '[{"x": 1}, {"y": 2.5}]', 0.0)])
    assert rows.to_pylist() == [{"a": 1, "x": 1, "y": None}, {"a": 1, "x": None, "y": 2.5}]


def test_experiments_are_found_by_id_paper_and_all() -> None:
    assert find_experiments(["all"]) == list(EXPERIMENTS.values())
    assert {e.id for e in find_experiments(["borealis"])} == {
        i for i in EXPERIMENTS if "borealis" in i
    }
    with pytest.raises(InputError, match="unknown experiment 'fig3'; known: borealis-fig1"):
        find_experiments(["fig3"])


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([2.0, 2.1], "holds"),
        ([2.0, 0.9], "not decided"),
        ([0.5, 0.4, 0.6], "does not hold"),
        ([2.0], "not decided"),
        ([2.0, 2.1, 1.9, 2.2, 2.0, 0.99], "holds"),
        ([1.5, 0.2, 1.9, 0.3, 1.6, 0.8], "not decided"),
    ],
)
def test_a_claim_that_other_seeds_could_turn_is_not_decided(
    values: list[float], verdict: str
) -> None:
    def claims(rows: Rows) -> list[Claim]:
        spread = group_spreads(rows, "cost", ["case"])["a",]
        return [make_claim("costs more than 1", str(spread), spread.mean > 1, "It does not.")]

    experiment = replace(EXPERIMENTS["borealis-table3"], claims=claims)
    rows = pa.table({"case": ["a"] * len(values), "seed": range(len(values)), "cost": values})
    [claim] = decide_claims(experiment, rows)
    assert (claim.verdict, claim.seeds) == (verdict, len(values))
    assert bool(claim.why) is (verdict != "holds")
    [every] = decide_claims(replace(experiment, exact=True), rows)
    assert every.verdict != "not decided"
