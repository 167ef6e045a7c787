"""A week of arrivals: figure 9's comparison on a synthetic trace (section 6.2).

The paper's trace is not public. Here queries arrive over seven days with a daily rhythm (0.2 to 1.8
times the mean) and live a day on average, on 200 workers ("100's of servers"). The savings depend
on how queries share sources, which the paper does not say; so there are four weeks. The first has
the paper's outcome in reach: 60 query types, two of 30 sources each, so that every source has
readers enough for all workers and a worker needs few sources. The others are queries as in section
6.1 (two sources, exponent 2), where most sources have one or two readers, and few popular sources
(exponent 1) with two or one per query.

For comparison, `partition` plans the live queries from scratch every six hours, with the slack that
arrivals have: it knows all queries and may move all of them.
"""

from typing import TYPE_CHECKING

import numpy as np

from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries import Fleet, PlacementProblem, plan_queries, total_traffic
from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.herding.churn import online_rule
from evenflow.research.experiments.herding.common import PAPER, draw_subscriptions, point_seed
from evenflow.research.points import Point, Row, Rows, Scale
from evenflow.research.query_churn import (
    Churn,
    draw_arrivals_and_departures,
    sample_steps,
    simulate_churn,
)
from evenflow.research.seed_statistics import (
    Spread,
    columns_equal,
    format_number,
    group_spreads,
    make_claim,
)
from evenflow.research.subscription_workload import typed_subscriptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAY_MINUTES = 24 * 60
"""A step is a minute."""
RULES = ("roundrobin", "leastcost", "herd", "herd, moving")
TYPES, TYPED_SOURCES = 60, 30
TYPED_WEEK = "query types, two sources each"
WEEK_TRACES: dict[str, tuple[float, int]] = {
    TYPED_WEEK: (0.0, 2),
    "many sources, two a query": (2.0, 2),
    "few popular sources, two a query": (1.0, 2),
    "few popular sources, one a query": (1.0, 1),
}
"""The exponent of popularity (0: by query types), and sources per query."""
QUERIES: dict[Scale, int] = {"small": 50_000, "paper": 1_000_000}
SEEDS: dict[Scale, range] = {"small": range(2), "paper": range(6)}


def _points(scale: Scale) -> list[Point]:
    return [
        {
            "week": week,
            "beta": beta,
            "sources_per_query": sources_per_query,
            "queries": QUERIES[scale],
            "workers": 200,
            "algorithm": algorithm,
            "seed": seed,
        }
        for week, (beta, sources_per_query) in WEEK_TRACES.items()
        for algorithm in ("partition", *RULES)
        for seed in SEEDS[scale]
    ]


def _draw_queries(point: Point) -> Subscriptions:
    """Draw the queries of a week: the same for all algorithms of one seed."""
    if point["week"] != TYPED_WEEK:
        return draw_subscriptions(point)
    return typed_subscriptions(
        int(point["queries"]),
        TYPES,
        TYPED_SOURCES,
        int(point["sources_per_query"]),
        np.random.default_rng(point_seed(point)),
    )


def _measure(point: Point) -> list[Row]:
    count = int(point["queries"])
    churn = Churn(
        DAY_MINUTES,
        arrivals_per_step=count / (7 * DAY_MINUTES),
        day_steps=DAY_MINUTES,
        daily_swing=0.8,
    )
    if point["algorithm"] == "partition":
        return _measure_replanning(point, churn)
    rule = online_rule(str(point["algorithm"]), count)
    fleet = Fleet.of(int(point["workers"]))
    trace = simulate_churn(
        rule, _draw_queries(point), fleet, churn, point_seed(point), samples=7 * 24
    )
    return [
        {
            "hour": sample.step / 60,
            "live_queries": sample.live_queries,
            "traffic": sample.traffic,
            "worst": sample.workers * sample.traffic / sample.replication_factor,
        }
        for sample in trace.samples
    ]


def _measure_replanning(point: Point, churn: Churn) -> list[Row]:
    """Plan the live queries from scratch every six hours; the trace is that of the rules."""
    subscriptions, fleet = _draw_queries(point), Fleet.of(int(point["workers"]))
    arrived, departs = draw_arrivals_and_departures(
        len(subscriptions), churn, np.random.default_rng(point_seed(point))
    )
    rows: list[Row] = []
    for step in sample_steps(int(arrived[-1]), 7 * 4):
        live = subscriptions.select_queries(np.flatnonzero((arrived <= step) & (departs > step)))
        rng = np.random.default_rng(point_seed(point))
        slack = max(fleet.slack, fleet.absolute_slack * len(fleet) / len(live))  # equation 4
        same_room = Fleet.of(len(fleet), slack)
        placement = plan_queries(PlacementProblem.of(live, same_room), "partition", rng)
        rows.append(
            {
                "hour": int(step) / 60,
                "live_queries": len(live),
                "traffic": total_traffic(live, placement.workers, len(fleet)),
                "worst": len(fleet) * float(live.rates[live.reader_counts() > 0].sum()),
            }
        )
    return rows


def _draw(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(5, columns=2)
    lines = [("worst", "roundrobin", "worst")]
    lines += [(name, name, "traffic") for name in (*RULES, "partition")]
    for panel, week in zip(axes, WEEK_TRACES, strict=False):
        for name, algorithm, column in lines:
            spreads = group_spreads(
                rows, column, ["hour"], columns_equal(week=week, algorithm=algorithm, seed=0)
            )
            figures.draw_line(
                panel, name, sorted((key[0], value) for key, value in spreads.items())
            )
        figures.use_log_axis(panel)
        panel.set(ylabel="traffic (source rates)", title=week)
    live = group_spreads(
        rows,
        "live_queries",
        ["hour"],
        columns_equal(algorithm="roundrobin", seed=0, week=next(iter(WEEK_TRACES))),
    )
    axes[4].plot([key[0] for key in live], [value.mean for value in live.values()], color="black")
    axes[4].set(ylabel="live queries", title="the rhythm")
    axes[4].set_ylim(bottom=0)
    for panel in axes:
        panel.set_xlabel("hours")
        panel.set_xticks(range(0, 7 * 24 + 1, 24))
    figures.draw_legend(figure, axes, columns=3)
    return figure


def _traffic_shares(rows: Rows) -> dict[tuple[str, str], Spread]:
    """Return the traffic after the first day, as share of the worst plan's."""
    sums: dict[tuple[str, str, int], list[float]] = {}
    for row in rows.to_pylist():
        if row["hour"] > 24:
            total = sums.setdefault((row["algorithm"], row["week"], row["seed"]), [0.0, 0.0])
            total[0] += row["traffic"]
            total[1] += row["worst"]
    shares: dict[tuple[str, str], list[float]] = {}
    for (name, week, _), (moved, worst) in sums.items():
        shares.setdefault((name, week), []).append(moved / worst)
    return {key: Spread(tuple(values)) for key, values in shares.items()}


def _claims(rows: Rows) -> list[Claim]:
    share = _traffic_shares(rows)
    robin = {week: share["roundrobin", week].mean for week in WEEK_TRACES}

    def percent_of_robin(name: str, week: str) -> float:
        return 100 * share[name, week].mean / robin[week]

    leastcost = [percent_of_robin("leastcost", week) for week in WEEK_TRACES]
    return [
        make_claim(
            "Round robin is nearly as bad as shipping every source to every worker (above 80 %)",
            "of the worst traffic: "
            + "; ".join(f"{week} {format_number(100 * part)} %" for week, part in robin.items()),
            max(robin.values()) > 0.8,
            "A source is shipped to no more workers than it has live queries. Zipf popularity "
            "leaves many sources with few, even where some have thousands.",
        ),
        make_claim(
            "LeastCost needs about 11 % of round robin's traffic",
            "; ".join(
                f"{week}: LeastCost {format_number(percent_of_robin('leastcost', week))} %, herd "
                f"{format_number(percent_of_robin('herd', week))} %, with moves "
                f"{format_number(percent_of_robin('herd, moving', week))} %, partition "
                f"{format_number(percent_of_robin('partition', week))} %"
                for week in WEEK_TRACES
            ),
            min(leastcost) <= 11 <= max(leastcost),
            "It depends on how queries share sources, which the paper does not tell; even a plan "
            "of all queries at once does not get there on these weeks.",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="herding-fig9",
        paper=PAPER,
        title="A week of arrivals with a daily rhythm",
        shows="traffic over a synthetic week: worst case, round robin, LeastCost and ours",
        cost_note="25 s on 2 cores",
        points=_points,
        run=_measure,
        draw=_draw,
        claims=_claims,
    ),
)
