"""Arriving and leaving queries and workers: figures 6 and 7 (section 6.1.2).

One arrival per step on average. `paper` has the paper's 1,000,000 steps, mean lifetimes of 10 steps
and more, 100,000 by default, and a fleet change every 10,000; `small` has a tenth of all that. For
the other axes of figure 6 we vary popularity and sources per query at the default lifetime.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.planning.queries import ONLINE, Fleet
from evenflow.planning.queries.herd import herd
from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.herding.common import (
    BETA,
    BETAS,
    PAPER,
    POPULARITY_LABEL,
    REPLICATION_LABEL,
    SEEDS,
    SOURCES_PER_QUERY,
    SOURCES_PER_QUERY_GRID,
    WORKERS,
    draw_subscriptions,
    point_seed,
)
from evenflow.research.plot_styles import plot_style
from evenflow.research.points import Point, Row, Rows, Scale
from evenflow.research.query_churn import Churn, PlacementRule, simulate_churn
from evenflow.research.seed_statistics import (
    Spread,
    columns_equal,
    format_number,
    group_spreads,
    make_claim,
    paired_ratios,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RULES = ("leastcost", "leastsource", "leastqt", "onrand", "herd", "herd, moving")
STEPS: dict[Scale, int] = {"small": 100_000, "paper": 1_000_000}
PANELS = {
    "life": ("mean_life", "mean life of a query (steps)"),
    "popularity": ("beta", POPULARITY_LABEL),
    "sources": ("sources_per_query", "sources per query"),
}


def online_rule(algorithm: str, most_moves: int) -> PlacementRule:
    """Return an online rule; `herd, moving` may also move `most_moves` running queries."""
    if algorithm == "herd, moving":
        return functools.partial(herd, max_moves=most_moves)
    return ONLINE[algorithm]


def _rule_grid(scale: Scale, cases: list[Point], rules: tuple[str, ...]) -> list[Point]:
    default: Point = {
        "beta": BETA,
        "sources_per_query": SOURCES_PER_QUERY,
        "mean_life": float(STEPS[scale] // 10),
        "lives": "exponential",
        "fleet_every": 0,
        "queries": STEPS[scale],
        "workers": WORKERS,
    }
    return [
        {**default, **case, "algorithm": rule, "seed": seed}
        for case in cases
        for rule in rules
        for seed in SEEDS[scale]
    ]


def _fig6_points(scale: Scale) -> list[Point]:
    lives = [10.0**power for power in range(1, len(str(STEPS[scale])))]
    cases: list[Point] = [
        {"panel": "life", "mean_life": life, "lives": kind}
        for life in lives
        for kind in ("exponential", "pareto")
    ]
    cases += [{"panel": "popularity", "beta": beta} for beta in BETAS[scale]]
    widths = [width for width in SOURCES_PER_QUERY_GRID[scale] if scale == "paper" or width <= 5]
    cases += [{"panel": "sources", "sources_per_query": width} for width in widths]
    heavy = ("leastcost", "onrand", "herd")  # under Pareto lives, which the paper does not show
    return [
        point
        for point in _rule_grid(scale, cases, RULES)
        if point["lives"] == "exponential" or point["algorithm"] in heavy
    ]


def _fig7_points(scale: Scale) -> list[Point]:
    steps = STEPS[scale]
    cases: list[Point] = [{"panel": "fleet", "fleet_every": 0}]
    cases += [{"panel": "fleet", "fleet_every": steps // part} for part in (1000, 300, 100, 30, 10)]
    return _rule_grid(scale, cases, RULES)


def _measure(point: Point) -> list[Row]:
    count, every = int(point["queries"]), int(point["fleet_every"])
    churn = Churn(
        float(point["mean_life"]),
        "pareto" if point["lives"] == "pareto" else "exponential",
        fleet_change_steps=every or None,
    )
    rule = online_rule(str(point["algorithm"]), count)
    fleet = Fleet.of(int(point["workers"]))
    trace = simulate_churn(rule, draw_subscriptions(point), fleet, churn, point_seed(point))
    second_half = trace.samples[len(trace.samples) // 2 :]
    return [
        {
            "replication_factor": trace.replication_factor(),
            "live_queries": float(np.mean([sample.live_queries for sample in second_half])),
            "workers_at_the_end": second_half[-1].workers,
            "max_over_mean_load": max(sample.max_over_mean_load for sample in second_half),
            "moves_per_arrival": trace.moved_queries / count,
        }
    ]


def _draw_fig6(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(3)
    for axis, (name, (x, label)) in zip(axes, PANELS.items(), strict=True):
        figures.draw_lines(
            axis,
            rows,
            x,
            "replication_factor",
            RULES,
            where=columns_equal(panel=name, lives="exponential"),
        )
        axis.set(xlabel=label, ylabel=REPLICATION_LABEL)
        axis.set_ylim(bottom=1)
    figures.use_log_axis(axes[0], "x")
    figures.use_log_axis(axes[1])
    figures.draw_legend(figure, axes, columns=6)
    return figure


def _draw_fig7(rows: Rows) -> "Figure":
    figure, [axes] = figures.make_panels(1)
    figures.draw_lines(
        axes,
        rows,
        "fleet_every",
        "replication_factor",
        RULES,
        where=lambda r: r["fleet_every"] > 0,
    )
    figures.use_log_axis(axes, "x")
    axes.set_ylim(bottom=1)
    axes.set(xlabel="steps between two changes of the fleet", ylabel=REPLICATION_LABEL)
    figures.draw_legend(figure, [axes], columns=3)
    return figure


def _where_leastcost_beaten(spreads: dict[tuple[Any, ...], Spread]) -> list[str]:
    """Describe where another rule of the paper is more than 1 % below LeastCost."""
    return [
        f"{plot_style(key[-1]).label} {value} against {spreads[*key[:-1], 'leastcost']} at "
        + " ".join(str(part) for part in key[:-1])
        for key, value in spreads.items()
        if key[-1] in RULES[1:4] and value.mean < 0.99 * spreads[*key[:-1], "leastcost"].mean
    ]


def _fig6_claims(rows: Rows) -> list[Claim]:
    where = {
        panel: group_spreads(
            rows,
            "replication_factor",
            [x, "algorithm"],
            columns_equal(panel=panel, lives="exponential"),
        )
        for panel, (x, _) in PANELS.items()
    }
    beaten = [f"{panel}: {text}" for panel, spreads in where.items()
              for text in _where_leastcost_beaten(spreads)]  # fmt: skip
    life = where["life"]
    lives = sorted({key[0] for key in life})
    growth = {
        name: life[lives[-1], name].mean / life[lives[0], name].mean
        for name in ("leastcost", "onrand", "herd")
    }
    kinds = group_spreads(
        rows,
        "replication_factor",
        ["mean_life", "algorithm", "lives"],
        columns_equal(panel="life"),
    )
    apart = max(
        abs(value.mean / kinds[key[0], key[1], "exponential"].mean - 1)
        for key, value in kinds.items()
        if key[2] == "pareto"
    )
    by = ["panel", "mean_life", "beta", "sources_per_query", "lives", "seed"]
    gain = paired_ratios(rows, "replication_factor", "herd", "leastcost", by)
    return [
        make_claim(
            "LeastCost consistently yields the least replication",
            ("; ".join(beaten) or "nowhere more than 1 % above another rule")
            + f"; herd {gain} times LeastCost",
            not beaten,
            "Where a handful of sources is read by nearly all queries "
            "LeastSource keeps workers from gathering them all.",
        ),
        make_claim(
            "Replication grows with the load of the workers, for LeastCost far less than linearly",
            f"from a mean life of {lives[0]:g} to {lives[-1]:g} ({lives[-1] / lives[0]:,g} times "
            f"the queries): LeastCost {format_number(growth['leastcost'])} times, OnRand "
            f"{format_number(growth['onrand'])} times, herd {format_number(growth['herd'])} times",
            growth["leastcost"] < (lives[-1] / lives[0]) ** 0.5,
        ),
        make_claim(
            "Heavy-tailed (Pareto) lives give similar results",
            f"the means differ by at most {format_number(100 * apart)} %",
            apart < 0.15,
            "Half of Pareto's live queries at any time are long-lived: "
            "the state reached depends on the length of the run.",
        ),
    ]


def _fig7_claims(rows: Rows) -> list[Claim]:
    spreads = group_spreads(rows, "replication_factor", ["fleet_every", "algorithm"])
    beaten = _where_leastcost_beaten(spreads)
    fixed = spreads[0, "leastcost"]
    change = {
        every: value.mean / fixed.mean - 1
        for (every, algorithm), value in spreads.items()
        if algorithm == "leastcost" and every
    }
    worst = max(change, key=lambda every: abs(change[every]))
    by = ["fleet_every", "seed"]
    gain = {
        name: paired_ratios(rows, "replication_factor", name, "leastcost", by)
        for name in ("herd", "herd, moving")
    }
    return [
        make_claim(
            "LeastCost exhibits the best performance of the paper's rules",
            ("; ".join(beaten) or "nowhere more than 1 % above another rule")
            + f"; herd {gain['herd']} times LeastCost, with moves {gain['herd, moving']} times",
            not beaten,
        ),
        make_claim(
            "LeastCost is robust when workers come and go",
            f"{fixed} with a fixed fleet; at most {format_number(100 * abs(change[worst]))} % "
            f"{'more' if change[worst] > 0 else 'less'}, at a change every {worst:,} steps",
            abs(change[worst]) < 0.1,
            "The number of workers itself wanders by then.",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="herding-fig6",
        paper=PAPER,
        title="Online assignment with arrivals and departures of queries",
        shows="replication when queries live for a while, by mean life and figure 5's axes",
        cost_note="45 s on 2 cores",
        points=_fig6_points,
        run=_measure,
        draw=_draw_fig6,
        claims=_fig6_claims,
    ),
    Experiment(
        id="herding-fig7",
        paper=PAPER,
        title="Online assignment when workers come and go as well",
        shows="replication while workers are added and lost",
        cost_note="25 s on 2 cores",
        points=_fig7_points,
        run=_measure,
        draw=_draw_fig7,
        claims=_fig7_claims,
    ),
)
