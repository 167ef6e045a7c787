"""What the paper proves: proposition 2 (random placement) and theorem 3 (single-source queries)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.experiments import drawing
from evenflow.experiments.experiment import Claim, Experiment, Point, Row, Rows, Scale
from evenflow.experiments.herding import (
    BETA,
    PAPER,
    QUERIES,
    SOURCES_PER_QUERY,
    drawn,
    seed_of,
)
from evenflow.experiments.measures import Spread, judged, only, short, spreads
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries import Fleet, PlacementProblem, measure_placement, plan_queries
from evenflow.planning.queries.onrand import expected_traffic

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


def _pieces(queries: int, workers: int) -> Subscriptions:
    """Return section 3.2's example: as many pieces as workers, each of ten sources.

    Every query of a piece reads all of them, so that one worker could hold a piece for one copy.
    """
    piece = np.arange(queries) * workers // queries
    sources = (piece[:, None] * 10 + np.arange(10)).astype(np.int32)
    starts = np.arange(queries + 1) * 10
    return Subscriptions(starts, sources.ravel(), np.ones(workers * 10), np.ones(queries))


def _runs(point: Point, one: Callable[[Point], Row]) -> list[Row]:
    """Measure several instances of a point: each alone is too short for a task of its own."""
    return [
        {"run": run, **one({**point, "seed": int(point["seed"]) + run})}
        for run in range(int(point["runs"]))
    ]


def _random(point: Point) -> list[Row]:
    return _runs(point, _random_once)


def _random_once(point: Point) -> Row:
    queries, workers = int(point["queries"]), int(point["workers"])
    subscriptions = drawn(point) if point["family"] == "zipf" else _pieces(queries, workers)
    boundless = Fleet.of(workers, absolute_slack=float(queries))  # nothing is turned away
    problem = PlacementProblem.of(subscriptions, boundless)
    placement = plan_queries(problem, "onrand", np.random.default_rng(seed_of(point)))
    worst = workers * float(subscriptions.rates.sum())
    return {
        "share": measure_placement(problem, placement, online=True).traffic / worst,
        "expected_share": expected_traffic(subscriptions, workers) / worst,
    }


def _random_figure(rows: Rows) -> "Figure":
    figure, axes = drawing.panels(2)
    for panel, (family, title) in zip(axes, FAMILIES.items(), strict=True):
        expected = spreads(rows, "expected_share", ["workers"], only(family=family))
        found = spreads(rows, "share", ["workers"], only(family=family))
        drawing.line(panel, "onrand", sorted((key[0], value) for key, value in found.items()))
        series = [(key[0], Spread((value.mean,))) for key, value in sorted(expected.items())]
        drawing.line(panel, "proposition 2", series)
        drawing.plain_log(panel, "x")
        panel.set(xlabel="workers", ylabel="traffic, in that of the worst plan", title=title)
        panel.set_ylim(bottom=0)
    drawing.legend(figure, axes)
    return figure


def _random_claims(rows: Rows) -> list[Claim]:
    off = [row["share"] / row["expected_share"] - 1 for row in rows.to_pylist()]
    pieces = spreads(rows, "share", ["workers"], only(family="pieces"))
    few, many = min(pieces), max(pieces)
    return [
        judged(
            "Random placement costs (1 - 1/m sum over s of (1 - 1/k)^d_s) k m in the mean "
            "(proposition 2)",
            f"measured over expected traffic {Spread(tuple(1 + value for value in off))}, "
            f"at most {short(100 * max(map(abs, off)))} % off in a single run",
            abs(float(np.mean(off))) < 0.005,
        ),
        judged(
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


def _single_source(point: Point, rng: np.random.Generator) -> Subscriptions:
    """Draw queries of one source each: sources of even popularity, or Zipf of exponent 1."""
    sources = round(float(point["sources_per_worker"]) * int(point["workers"]))
    weights = np.arange(1, sources + 1) ** (-1.0 if point["sizes"] == "zipf" else 0.0)
    queries = int(point["queries"])
    read = rng.choice(sources, queries - sources, p=weights / weights.sum())
    flat = np.concatenate((np.arange(sources), read)).astype(np.int32)  # every source is read
    equal = point["rates"] == "equal"
    rates = np.ones(sources) if equal else 1.0 + rng.pareto(1.0, sources)
    return Subscriptions(np.arange(queries + 1), flat, rates, np.ones(queries))


def _single(point: Point) -> list[Row]:
    return _runs(point, _single_once)


def _single_once(point: Point) -> Row:
    rng = np.random.default_rng(seed_of(point))
    workers = int(point["workers"])
    subscriptions = _single_source(point, rng)
    problem = PlacementProblem.of(subscriptions, Fleet.of(workers, slack=float(point["slack"])))
    figures = measure_placement(problem, plan_queries(problem, "single-source", rng), online=False)
    equal = point["rates"] == "equal"
    return {
        "ratio": figures.traffic / figures.lower_bound,
        "proved": 1 + workers / len(subscriptions.rates) if equal else 2.0,
        "replication_factor": figures.replication_factor,
        "feasible": figures.feasible,
    }


def _single_figure(rows: Rows) -> "Figure":
    figure, axes = drawing.panels(2)
    for panel, (kind, title) in zip(axes, RATES.items(), strict=True):

        def here(row: dict[str, Any], kind: str = kind) -> bool:
            return bool(row["rates"] == kind)

        found = spreads(rows, "ratio", ["sources_per_worker"], here)
        proved = spreads(rows, "proved", ["sources_per_worker"], here)
        drawing.line(panel, "single-source", sorted((k[0], v) for k, v in found.items()))
        drawing.line(panel, "proved", sorted((k[0], v) for k, v in proved.items()))
        drawing.plain_log(panel, "x")
        panel.set(xlabel="sources per worker", ylabel="traffic over the optimum's lower bound",
                  title=title)  # fmt: skip
        panel.set_ylim(0.95, 2.1)
    drawing.legend(figure, axes)
    return figure


def _single_claims(rows: Rows) -> list[Claim]:
    found = rows.to_pylist()
    kinds = {kind: [row for row in found if row["rates"] == kind] for kind in RATES}
    worst = {
        kind: max(mine, key=lambda row: row["ratio"] / row["proved"])
        for kind, mine in kinds.items()
    }
    factor = max(row["replication_factor"] for row in found if row["sizes"] == "even")

    def kept(kind: str) -> bool:
        return all(row["ratio"] <= row["proved"] * (1 + 1e-9) for row in kinds[kind])

    def told(kind: str) -> str:
        row = worst[kind]
        return (
            f"in {len(kinds[kind])} instances at most {row['ratio']:.4g} times a lower bound "
            f"of the optimum where {row['proved']:.4g} is proved"
        )

    return [
        judged("Equal rates: at most 1 + k/m times the optimum (theorem 3)", told("equal"),
              kept("equal")),
        judged("Any rates: at most twice the optimum (theorem 3)", told("pareto"), kept("pareto")),
        judged(
            "Single-source replication is at most 2",
            f"at most {short(factor)} where all sources are equally popular; one that fills "
            "several workers is shipped to several by any plan",
            factor <= 2,
        ),
    ]  # fmt: skip


EXPERIMENTS = (
    Experiment(
        id="herding-prop2",
        paper=PAPER,
        title="Traffic of random placement (proposition 2)",
        shows="random placement beside its closed form",
        cost="10 s on 2 cores",
        points=_random_points,
        run=_random,
        draw=_random_figure,
        claims=_random_claims,
    ),
    Experiment(
        id="herding-theorem3",
        paper=PAPER,
        title="The 2-approximation for single-source queries (theorem 3)",
        shows="its traffic over a lower bound of the optimum, beside what is proved",
        cost="5 s on 2 cores",
        points=_single_points,
        run=_single,
        draw=_single_figure,
        claims=_single_claims,
    ),
)
