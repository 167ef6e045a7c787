"""A week of arrivals: figure 9's comparison on a synthetic trace (section 6.2).

The paper's trace is not public. Here queries arrive over seven days with a daily rhythm (from a
fifth to nine fifths of the mean) and live a day in the mean, on 200 workers ("100's of servers").
How much can be saved depends on how many queries share a source, which the paper does not tell; so
there are two weeks: sources as everywhere in section 6.1 (exponent 2), where most are read by one
or two queries, and few popular sources (exponent 1, section 6.1's other end).

Beside the rules stands `partition`, every six hours from scratch on the queries that live then: a
plan that knows everything and may move everything.
"""

from typing import TYPE_CHECKING

import numpy as np

from evenflow.experiments import drawing
from evenflow.experiments.experiment import Claim, Experiment, Point, Row, Rows, Scale
from evenflow.experiments.herding import PAPER, SOURCES_PER_QUERY, drawn, seed_of
from evenflow.experiments.herding_churn import rule_of
from evenflow.experiments.measures import Spread, judged, only, short, spreads
from evenflow.planning.queries import Fleet, Problem, plan_queries, traffic
from evenflow.simulation.churn import Churn, draw_times, sample_steps, simulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAY = 24 * 60
"""A step is a minute."""
RULES = ("roundrobin", "leastcost", "herd", "herd, moving")
BETAS = {1.0: "few popular sources (exponent 1)", 2.0: "many sources (exponent 2)"}
QUERIES: dict[Scale, int] = {"small": 50_000, "paper": 1_000_000}
SEEDS: dict[Scale, range] = {"small": range(2), "paper": range(5)}


def _points(scale: Scale) -> list[Point]:
    return [
        {
            "beta": beta,
            "sources_per_query": SOURCES_PER_QUERY,
            "queries": QUERIES[scale],
            "workers": 200,
            "algorithm": algorithm,
            "seed": seed,
        }
        for beta in BETAS
        for algorithm in ("partition", *RULES)
        for seed in SEEDS[scale]
    ]


def _run(point: Point) -> list[Row]:
    count = int(point["queries"])
    churn = Churn(DAY, arrivals_per_step=count / (7 * DAY), day=DAY, swing=0.8)
    if point["algorithm"] == "partition":
        return _replanned(point, churn)
    rule = rule_of(str(point["algorithm"]), count)
    fleet = Fleet.of(int(point["workers"]))
    history = simulate(rule, drawn(point), fleet, churn, seed_of(point), samples=7 * 24)
    return [
        {
            "hour": sample.step / 60,
            "live_queries": sample.live_queries,
            "traffic": sample.traffic,
            "worst": sample.workers * sample.traffic / sample.replication_factor,
        }
        for sample in history.samples
    ]


def _replanned(point: Point, churn: Churn) -> list[Row]:
    """Plan the live queries anew every six hours; the same queries live as under the rules."""
    subscriptions, fleet = drawn(point), Fleet.of(int(point["workers"]))
    arrived, departs = draw_times(len(subscriptions), churn, np.random.default_rng(seed_of(point)))
    rows: list[Row] = []
    for step in sample_steps(int(arrived[-1]), 7 * 4):
        live = subscriptions.take(np.flatnonzero((arrived <= step) & (departs > step)))
        rng = np.random.default_rng(seed_of(point))
        placement = plan_queries(Problem.of(live, fleet), "partition", rng)
        rows.append(
            {
                "hour": int(step) / 60,
                "live_queries": len(live),
                "traffic": traffic(live, placement.workers, len(fleet)),
                "worst": len(fleet) * float(live.rates[live.degrees() > 0].sum()),
            }
        )
    return rows


def _draw(rows: Rows) -> "Figure":
    figure, axes = drawing.panels(3)
    for panel, (beta, title) in zip(axes, BETAS.items(), strict=False):
        for name, column in [("worst", "worst"), *((rule, "traffic") for rule in
                                                   (*RULES, "partition"))]:  # fmt: skip
            source = "roundrobin" if name == "worst" else name
            found = spreads(
                rows,
                column,
                ["hour"],
                only(beta=beta, algorithm=source, seed=0),
            )
            drawing.line(panel, name, sorted((key[0], value) for key, value in found.items()))
        drawing.plain_log(panel)
        panel.set(xlabel="hours", ylabel="traffic (source rates)", title=title)
        panel.set_xticks(range(0, 7 * 24 + 1, 24))
    live = spreads(rows, "live_queries", ["hour"], only(algorithm="roundrobin", seed=0, beta=1.0))
    axes[2].plot([key[0] for key in live], [value.mean for value in live.values()], color="black")
    axes[2].set(xlabel="hours", ylabel="live queries", title="the week")
    axes[2].set_xticks(range(0, 7 * 24 + 1, 24))
    axes[2].set_ylim(bottom=0)
    drawing.legend(figure, axes, columns=6)
    return figure


def _shares(rows: Rows, of: str) -> dict[tuple[str, float], Spread]:
    """Return the traffic of a whole week, after its first day, in that of round robin or worst."""
    weeks = {(row["algorithm"], row["beta"], row["seed"]): [0.0, 0.0] for row in rows.to_pylist()}
    for row in rows.to_pylist():
        if row["hour"] > 24:
            week = weeks[row["algorithm"], row["beta"], row["seed"]]
            week[0] += row["traffic"]
            week[1] += row["worst"]
    part = {key: moved / worst for key, (moved, worst) in weeks.items()}
    shares: dict[tuple[str, float], list[float]] = {}
    for (name, beta, seed), share in part.items():
        base = part["roundrobin", beta, seed] if of == "roundrobin" else 1.0
        shares.setdefault((name, beta), []).append(share / base)
    return {key: Spread(tuple(values)) for key, values in shares.items()}


def _claims(rows: Rows) -> list[Claim]:
    worst, robin = _shares(rows, "worst"), _shares(rows, "roundrobin")
    popular, many = 1.0, 2.0
    near = worst["roundrobin", popular].mean
    return [
        judged(
            "Round robin is nearly as bad as shipping every source to every worker",
            f"{worst['roundrobin', popular]} of the worst with few popular sources, "
            f"{worst['roundrobin', many]} with many",
            near > 0.8,
            "True as far as sources have more queries than there are workers; the others are "
            "shipped to as many workers as they have queries.",
        ),
        judged(
            "LeastCost needs about 11 % of round robin's traffic",
            f"{short(100 * robin['leastcost', popular].mean)} % with few popular sources, "
            f"{short(100 * robin['leastcost', many].mean)} % with many; herd "
            f"{short(100 * robin['herd', popular].mean)} % and "
            f"{short(100 * robin['herd', many].mean)} %, with moves "
            f"{short(100 * robin['herd, moving', popular].mean)} % and "
            f"{short(100 * robin['herd, moving', many].mean)} %; partition "
            f"{short(100 * robin['partition', popular].mean)} % and "
            f"{short(100 * robin['partition', many].mean)} %",
            any(robin["leastcost", beta].mean < 0.2 for beta in BETAS),
            "The share depends on the trace: the paper's queries must share sources far more "
            "evenly than Zipf popularity lets them. Even a plan of all queries at once does not "
            "get there on these weeks.",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="herding-fig9",
        paper=PAPER,
        title="A week of arrivals with a daily rhythm",
        shows="traffic over a synthetic week: worst case, round robin, LeastCost and ours",
        cost="40 s on 2 cores",
        points=_points,
        run=_run,
        draw=_draw,
        claims=_claims,
    ),
)
