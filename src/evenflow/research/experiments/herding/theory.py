"""Proved results: proposition 2 (random placement) and theorem 3 (single-source queries)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries import Fleet, PlacementProblem, measure_placement, plan_queries
from evenflow.planning.queries.baselines import expected_traffic
from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.herding.common import (
    BETA,
    PAPER,
    QUERIES,
    SOURCES_PER_QUERY,
    draw_subscriptions,
    point_seed,
)
from evenflow.research.points import Point, Row, Rows, Scale
from evenflow.research.seed_statistics import (
    Spread,
    columns_equal,
    format_number,
    group_spreads,
    make_claim,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILIES = {"zipf": "Zipf popularity", "pieces": "pieces that share nothing"}
RATES = {"equal": "equal rates", "pareto": "power-law rates"}
SIZES = ("even", "zipf")


def _random_points(scale: Scale) -> list[Point]:
    return [
        {
            "family": family,
            "beta": BETA,
            "sources_per_query": SOURCES_PER_QUERY,
            "queries": QUERIES[scale],
            "workers": workers,
            "runs": 10,
            "seed": 0,
        }
        for family in FAMILIES
        for workers in (10, 20, 50, 100, 200, 500, 1000)
    ]


def _disjoint_pieces(queries: int, workers: int) -> Subscriptions:
    """Return section 3.2's example: as many pieces as workers, each of ten sources.

    Every query of a piece reads all its sources: one worker could serve the piece with one copy.
    """
    piece = np.arange(queries) * workers // queries
    sources = (piece[:, None] * 10 + np.arange(10)).astype(np.int32)
    starts = np.arange(queries + 1) * 10
    return Subscriptions(starts, sources.ravel(), np.ones(workers * 10), np.ones(queries))


def _run_instances(point: Point, measure: Callable[[Point], Row]) -> list[Row]:
    """Measure several instances of a point: one is too short for a Spark task."""
    return [
        {"run": run, **measure({**point, "seed": int(point["seed"]) + run})}
        for run in range(int(point["runs"]))
    ]


def _run_random(point: Point) -> list[Row]:
    return _run_instances(point, _measure_random)


def _measure_random(point: Point) -> Row:
    queries, workers = int(point["queries"]), int(point["workers"])
    subscriptions = (
        draw_subscriptions(point)
        if point["family"] == "zipf"
        else _disjoint_pieces(queries, workers)
    )
    boundless = Fleet.of(workers, absolute_slack=float(queries))  # accepts every query
    problem = PlacementProblem.of(subscriptions, boundless)
    placement = plan_queries(problem, "onrand", np.random.default_rng(point_seed(point)))
    worst = workers * float(subscriptions.rates.sum())
    return {
        "share": measure_placement(problem, placement, online=True).traffic / worst,
        "expected_share": expected_traffic(subscriptions, workers) / worst,
    }


def _draw_random(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(2)
    for panel, (family, title) in zip(axes, FAMILIES.items(), strict=True):
        expected = group_spreads(rows, "expected_share", ["workers"], columns_equal(family=family))
        spreads = group_spreads(rows, "share", ["workers"], columns_equal(family=family))
        figures.draw_line(
            panel, "onrand", sorted((key[0], value) for key, value in spreads.items())
        )
        series = [(key[0], Spread((value.mean,))) for key, value in sorted(expected.items())]
        figures.draw_line(panel, "proposition 2", series)
        figures.use_log_axis(panel, "x")
        panel.set(xlabel="workers", ylabel="traffic, in that of the worst plan", title=title)
        panel.set_ylim(bottom=0)
    figures.draw_legend(figure, axes)
    return figure


def _random_claims(rows: Rows) -> list[Claim]:
    off = [row["share"] / row["expected_share"] - 1 for row in rows.to_pylist()]
    pieces = group_spreads(rows, "share", ["workers"], columns_equal(family="pieces"))
    few, many = min(pieces), max(pieces)
    return [
        make_claim(
            "Random placement costs (1 - 1/m sum over s of (1 - 1/k)^d_s) k m in the mean "
            "(proposition 2)",
            f"measured over expected traffic {Spread(tuple(1 + value for value in off))}, "
            f"at most {format_number(100 * max(map(abs, off)))} % off in a single run",
            abs(float(np.mean(off))) < 0.005,
        ),
        make_claim(
            "Random placement can reach the worst traffic of all, k times the best",
            f"queries in k pieces that share nothing: {pieces[few]} of the worst at {few[0]} "
            f"workers, {pieces[many]} at {many[0]}, where each piece has few queries",
            pieces[few].mean > 0.99,
        ),
    ]


def _single_points(scale: Scale) -> list[Point]:
    return [
        {
            "rates": rates,
            "sizes": sizes,
            "slack": slack,
            "sources_per_worker": ratio,
            "workers": 50,
            "queries": QUERIES[scale],
            "runs": 5 if scale == "small" else 50,
            "seed": 0,
        }
        for rates in RATES
        for sizes in SIZES
        for slack in (0.0, 0.05)
        for ratio in (1.02, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
    ]


def _draw_single_source_queries(point: Point, rng: np.random.Generator) -> Subscriptions:
    """Draw queries of one source each: sources of even popularity, or Zipf of exponent 1."""
    sources = round(float(point["sources_per_worker"]) * int(point["workers"]))
    weights = np.arange(1, sources + 1) ** (-1.0 if point["sizes"] == "zipf" else 0.0)
    queries = int(point["queries"])
    read = rng.choice(sources, queries - sources, p=weights / weights.sum())
    flat = np.concatenate((np.arange(sources), read)).astype(np.int32)  # every source is read
    equal = point["rates"] == "equal"
    rates = np.ones(sources) if equal else 1.0 + rng.pareto(1.0, sources)
    return Subscriptions(np.arange(queries + 1), flat, rates, np.ones(queries))


def _run_single_source(point: Point) -> list[Row]:
    return _run_instances(point, _measure_single_source)


def _measure_single_source(point: Point) -> Row:
    rng = np.random.default_rng(point_seed(point))
    workers = int(point["workers"])
    subscriptions = _draw_single_source_queries(point, rng)
    problem = PlacementProblem.of(subscriptions, Fleet.of(workers, slack=float(point["slack"])))
    figures = measure_placement(problem, plan_queries(problem, "single-source", rng), online=False)
    equal = point["rates"] == "equal"
    return {
        "ratio": figures.traffic / figures.lower_bound,
        "proved": 1 + workers / len(subscriptions.rates) if equal else 2.0,
        "replication_factor": figures.replication_factor,
        "feasible": figures.feasible,
    }


def _draw_single_source(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(2)
    for panel, (kind, title) in zip(axes, RATES.items(), strict=True):
        with_rates = columns_equal(rates=kind)
        spreads = group_spreads(rows, "ratio", ["sources_per_worker"], with_rates)
        proved = group_spreads(rows, "proved", ["sources_per_worker"], with_rates)
        figures.draw_line(panel, "single-source", sorted((k[0], v) for k, v in spreads.items()))
        figures.draw_line(panel, "proved", sorted((k[0], v) for k, v in proved.items()))
        figures.use_log_axis(panel, "x")
        panel.set(xlabel="sources per worker", ylabel="traffic over the optimum's lower bound",
                  title=title)  # fmt: skip
        panel.set_ylim(0.95, 2.1)
    figures.draw_legend(figure, axes)
    return figure


def _single_claims(rows: Rows) -> list[Claim]:
    instances = rows.to_pylist()
    kinds = {kind: [row for row in instances if row["rates"] == kind] for kind in RATES}
    worst = {
        kind: max(instances, key=lambda row: row["ratio"] / row["proved"])
        for kind, instances in kinds.items()
    }
    factor = max(row["replication_factor"] for row in instances if row["sizes"] == "even")

    def within_bound(kind: str) -> bool:
        return all(row["ratio"] <= row["proved"] * (1 + 1e-9) for row in kinds[kind])

    def describe(kind: str) -> str:
        row = worst[kind]
        return (
            f"in {len(kinds[kind])} instances at most {row['ratio']:.4g} times a lower bound "
            f"of the optimum where {row['proved']:.4g} is proved"
        )

    return [
        make_claim(
            "Equal rates: at most 1 + k/m times the optimum (theorem 3)",
            describe("equal"),
            within_bound("equal"),
        ),
        make_claim(
            "Any rates: at most twice the optimum (theorem 3)",
            describe("pareto"),
            within_bound("pareto"),
        ),
        make_claim(
            "Single-source replication is at most 2",
            f"at most {format_number(factor)} where all sources are equally popular; one that "
            "fills several workers is shipped to several by any plan",
            factor <= 2,
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="herding-prop2",
        paper=PAPER,
        title="Traffic of random placement (proposition 2)",
        shows="random placement against its closed form",
        cost_note="10 s on 2 cores",
        points=_random_points,
        run=_run_random,
        draw=_draw_random,
        claims=_random_claims,
        exact=True,
    ),
    Experiment(
        id="herding-theorem3",
        paper=PAPER,
        title="The 2-approximation for single-source queries (theorem 3)",
        shows="its traffic over a lower bound of the optimum, and the proved factor",
        cost_note="5 s on 2 cores",
        points=_single_points,
        run=_run_single_source,
        draw=_draw_single_source,
        claims=_single_claims,
        exact=True,
    ),
)
