"""Sources of unequal rates: figure 8 (section 6.1.2).

Random rates follow a power law of the exponent on the axis, independent of popularity (exponent 2).
Rates proportional to popularity, or inversely so, follow its law: there the axis is the exponent
of popularity.
"""

from typing import TYPE_CHECKING, get_args

import numpy as np

from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.herding.common import (
    BETA,
    BETAS,
    PAPER,
    QUERIES,
    REPLICATION_LABEL,
    SEEDS,
    SOURCES_PER_QUERY,
    WORKERS,
    draw_subscriptions,
    measure_algorithm,
    point_seed,
)
from evenflow.research.plot_styles import plot_style
from evenflow.research.points import Point, Row, Rows, Scale
from evenflow.research.seed_statistics import (
    columns_equal,
    format_number,
    group_spreads,
    make_claim,
    paired_ratios,
)
from evenflow.research.subscription_workload import RateCorrelation, with_source_rates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_ALGORITHMS = ("leastcost", "leastsource", "leastqt", "onrand", "mms")
ALGORITHMS = (*PAPER_ALGORITHMS, "herd", "partition")
TITLES: dict[RateCorrelation, str] = {
    "random": "rates independent of popularity",
    "positive": "proportional to popularity",
    "negative": "inversely proportional to popularity",
}


def _points(scale: Scale) -> list[Point]:
    return [
        {
            "correlation": kind,
            "exponent": exponent,
            "beta": BETA if kind == "random" else exponent,
            "sources_per_query": SOURCES_PER_QUERY,
            "queries": QUERIES[scale],
            "workers": WORKERS,
            "algorithm": algorithm,
            "seed": seed,
        }
        for kind in TITLES
        for exponent in BETAS[scale]
        for algorithm in ALGORITHMS
        for seed in SEEDS[scale]
    ]


def _measure(point: Point) -> list[Row]:
    (kind,) = (known for known in get_args(RateCorrelation) if known == point["correlation"])
    rng = np.random.default_rng([point_seed(point), 1])
    return measure_algorithm(
        with_source_rates(draw_subscriptions(point), float(point["exponent"]), kind, rng), point
    )


def _draw(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(3)
    for axis, (kind, title) in zip(axes, TITLES.items(), strict=True):
        figures.draw_lines(
            axis,
            rows,
            "exponent",
            "replication_factor",
            ALGORITHMS,
            where=columns_equal(correlation=kind),
        )
        axis.set_ylim(bottom=1)
        if kind == "positive":
            figures.use_log_axis(axis)
        axis.set(
            title=title,
            ylabel=REPLICATION_LABEL,
            xlabel="exponent of rates" if kind == "random" else "exponent of popularity and rates",
        )
    figures.draw_legend(figure, axes, columns=len(ALGORITHMS))
    return figure


def _claims(rows: Rows) -> list[Claim]:
    spreads = group_spreads(rows, "replication_factor", ["correlation", "exponent", "algorithm"])
    # Independent rates at every exponent, against related ones at the same popularity.
    at_two = {
        name: [
            spreads["negative", BETA, name].mean,
            float(
                np.mean([v.mean for k, v in spreads.items() if k[0] == "random" and k[2] == name])
            ),
            spreads["positive", BETA, name].mean,
        ]
        for name in ALGORITHMS
    }
    ordered = all(values == sorted(values) for values in at_two.values())
    lost = {
        key: value
        for key, value in spreads.items()
        if key[2] in PAPER_ALGORITHMS[1:]
        and value.mean < 0.99 * spreads[*key[:2], "leastcost"].mean
    }
    text = "; ".join(
        f"{plot_style(name).label} {value} against {spreads[kind, exponent, 'leastcost']} "
        f"({kind}, exponent {exponent:g})"
        for (kind, exponent, name), value in lost.items()
    )
    cells, beaten = ({key[:2] for key in group} for group in (spreads, lost))
    negative = [
        value.mean / spreads["negative", exponent, "leastcost"].mean
        for (kind, exponent, name), value in spreads.items()
        if kind == "negative" and name == "mms"
    ]
    by = ["correlation", "exponent", "seed"]
    herd, partition = (
        paired_ratios(rows, "replication_factor", name, "leastcost", by)
        for name in ("herd", "partition")
    )
    return [
        make_claim(
            "The more positive the correlation of rates and popularity, the more replication",
            "; ".join(
                f"{plot_style(name).label} {', '.join(format_number(value) for value in values)}"
                for name, values in at_two.items()
            )
            + " (negative, none, positive; popularity exponent 2)",
            ordered,
            "It does for the rules that share sources; ties within noise else.",
        ),
        make_claim(
            "Typically LeastCost is the best, MMS included",
            f"best in {len(cells - beaten)} of {len(cells)} cases; {text}; herd {herd} times "
            f"LeastCost, partition {format_number(partition.low)} to "
            f"{format_number(partition.high)} times",
            len(beaten) <= len(cells) / 2,
            "MMS knows all queries beforehand, and with few popular sources "
            "LeastSource limits what a worker gathers.",
        ),
        make_claim(
            "With negatively correlated rates LeastCost is substantially better than MMS",
            f"MMS over LeastCost {format_number(min(negative))} to {format_number(max(negative))}",
            max(negative) > 1.1,
            "Equal or worse here: the heavy sources have one query "
            "each and are shipped once by either, so that little traffic is left to differ in.",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="herding-fig8",
        paper=PAPER,
        title="Query assignment with heterogeneous source rates",
        shows="replication when some sources send much more than others",
        cost_note="20 s on 2 cores",
        points=_points,
        run=_measure,
        draw=_draw,
        claims=_claims,
    ),
)
