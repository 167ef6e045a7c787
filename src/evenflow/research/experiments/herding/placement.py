"""Placement without departures: figure 4 (all queries known) and figure 5 (placed on arrival).

Figure 5 also draws MMS, the best offline algorithm of the paper, and herd improved by `repair`
with moves of 5 % of the queries (first panel only).
"""

from itertools import pairwise
from typing import TYPE_CHECKING

from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.herding.common import (
    PAPER,
    POPULARITY_LABEL,
    REPLICATION_LABEL,
    measure_point_placement,
    popularity_and_width_grid,
)
from evenflow.research.plot_styles import plot_style
from evenflow.research.points import Rows
from evenflow.research.seed_statistics import (
    Spread,
    columns_equal,
    format_number,
    group_spreads,
    make_claim,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OFFLINE_ALGORITHMS = ("partition", "ic", "mms", "mqp", "offrand")
ONLINE_ALGORITHMS = ("repair", "herd", "mms", "leastsource", "leastqt", "onrand", "leastcost")
PANELS = {
    "popularity": ("beta", POPULARITY_LABEL),
    "sources": ("sources_per_query", "sources per query"),
}
SpreadByPanel = dict[tuple[str, float, str], Spread]


def _draw_panels(rows: Rows, algorithms: tuple[str, ...]) -> "Figure":
    figure, axes = figures.make_panels(2)
    for panel, (name, (x, label)) in zip(axes, PANELS.items(), strict=True):
        figures.draw_lines(
            panel,
            rows,
            x,
            "replication_factor",
            algorithms,
            where=columns_equal(panel=name),
        )
        panel.set(xlabel=label, ylabel=REPLICATION_LABEL)
    figures.use_log_axis(axes[0])
    axes[1].set_ylim(bottom=1)
    axes[0].set_title("two sources a query")
    axes[1].set_title("popularity exponent 2")
    figures.draw_legend(figure, axes, columns=len(algorithms))
    return figure


def _draw_fig4(rows: Rows) -> "Figure":
    return _draw_panels(rows, OFFLINE_ALGORITHMS)


def _draw_fig5(rows: Rows) -> "Figure":
    return _draw_panels(rows, ONLINE_ALGORITHMS)


def _spread_by_panel(rows: Rows) -> SpreadByPanel:
    """Return the replication factor by panel, place on its axis, and algorithm."""
    result: SpreadByPanel = {}
    for panel, (x, _) in PANELS.items():
        spreads = group_spreads(
            rows, "replication_factor", [x, "algorithm"], columns_equal(panel=panel)
        )
        result |= {(panel, float(key[0]), key[1]): value for key, value in spreads.items()}
    return result


def _axis_values(spreads: SpreadByPanel, panel: str, algorithm: str) -> list[tuple[float, float]]:
    return sorted((at, v.mean) for (p, at, a), v in spreads.items() if (p, a) == (panel, algorithm))


def _ratios(spreads: SpreadByPanel, worse: str, better: str) -> dict[str, float]:
    """Return the ratio worse / better, by place on the axes."""
    return {
        f"{PANELS[panel][1]} {at:g}": value.mean / spreads[panel, at, better].mean
        for (panel, at, algorithm), value in spreads.items()
        if algorithm == worse and (panel, at, better) in spreads
    }


def _describe_largest(gains: dict[str, float]) -> str:
    """Describe the largest gain."""
    at = max(gains, key=lambda place: gains[place])
    return f"{format_number(gains[at])} times at {at}"


def _where_beaten(spreads: SpreadByPanel, best: str, others: tuple[str, ...]) -> list[str]:
    """Describe where `best` is more than 1 % above one of the others."""
    return [
        f"{plot_style(other).label} {format_number(100 * (1 - 1 / gain))} % below at {at}"
        for other in others
        for at, gain in _ratios(spreads, best, other).items()
        if gain > 1.01
    ]


def _claim_falls(spreads: SpreadByPanel, algorithms: tuple[str, ...]) -> Claim:
    lines = {name: _axis_values(spreads, "popularity", name) for name in algorithms}
    falling = all(
        line[at][1] >= line[at + 1][1] * 0.99
        for line in lines.values()
        for at in range(len(line) - 1)
    )
    ends = ", ".join(
        f"{plot_style(name).label} {format_number(line[0][1])} to {format_number(line[-1][1])}"
        for name, line in lines.items()
    )
    return make_claim("The larger the popularity exponent, the less replication", ends, falling)


def _claim_rises(spreads: SpreadByPanel, algorithms: tuple[str, ...]) -> Claim:
    lines = {name: _axis_values(spreads, "sources", name) for name in algorithms}
    steps = {
        name: [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(line)]
        for name, line in lines.items()
    }
    holds = all(min(s) > -0.01 and s[-1] < s[0] for s in steps.values())
    text = "; ".join(
        f"{plot_style(name).label} " + ", ".join(format_number(value) for _, value in line)
        for name, line in lines.items()
    )
    return make_claim(
        "Replication grows with the sources per query, with diminishing returns",
        f"for {', '.join(f'{at:g}' for at, _ in lines[algorithms[0]])} sources: {text}",
        holds,
    )


def _fig4_claims(rows: Rows) -> list[Claim]:
    spreads = _spread_by_panel(rows)
    paper = OFFLINE_ALGORITHMS[1:]
    gains = {name: _ratios(spreads, "offrand", name) for name in ("ic", "mms", "partition")}
    most = max(max(gains[name].values()) for name in ("ic", "mms"))
    single = {name: spreads["sources", 1.0, name] for name in paper}
    beaten = _where_beaten(spreads, "mms", ("ic", "mqp", "offrand"))
    return [
        _claim_falls(spreads, paper),
        make_claim(
            "IC and MMS are up to four times better than OffRand",
            f"IC up to {_describe_largest(gains['ic'])}, "
            f"MMS up to {_describe_largest(gains['mms'])}; "
            f"partition up to {_describe_largest(gains['partition'])}",
            most >= 3.5,
            "The largest gain is smaller here: how queries share sources is "
            "given by the popularity exponent alone, their number by our reading of it.",
        ),
        make_claim(
            "MMS consistently outperforms the other offline algorithms",
            "; ".join(beaten) if beaten else "never more than 1 % above another",
            not beaten,
            "MMS evens the traffic of workers, not its sum: with few, very "
            "popular sources that costs copies.",
        ),
        _claim_rises(spreads, paper),
        make_claim(
            "Single-source queries are replicated at most twice (theorem 3)",
            ", ".join(f"{plot_style(name).label} {value}" for name, value in single.items()),
            all(value.high <= 2 for value in single.values()),
        ),
    ]


def _fig5_claims(rows: Rows) -> list[Claim]:
    spreads = _spread_by_panel(rows)
    beaten = _where_beaten(spreads, "leastcost", ("leastsource", "leastqt", "onrand"))
    source = _ratios(spreads, "leastsource", "leastcost")
    random = {name: _ratios(spreads, "onrand", name) for name in ("leastcost", "herd", "repair")}
    offline = _ratios(spreads, "mms", "leastcost")
    no_better = {
        at: gain for at, gain in _ratios(spreads, "onrand", "leastqt").items() if gain > 1.05
    }
    most = max(random["leastcost"].values())
    better = [at for at, gain in offline.items() if gain >= 0.995]
    return [
        make_claim(
            "LeastCost is the best of the online rules",
            "; ".join(beaten) if beaten else "nowhere more than 1 % above another",
            not beaten,
            "With a handful of sources that nearly all queries read, LeastCost fills workers "
            "with whatever shares one until they are full, and LeastSource limits what a worker "
            "gathers. At all other places LeastCost leads.",
        ),
        make_claim(
            "LeastSource is close to LeastCost",
            f"{format_number(min(source.values()))} to {_describe_largest(source)}",
            max(source.values()) < 1.5,
            "Close where sources are many; with few popular "
            "ones it keeps workers even in sources at the price of copies.",
        ),
        make_claim(
            "LeastCost is up to four times better than OnRand",
            f"LeastCost up to {_describe_largest(random['leastcost'])}; "
            f"herd up to {_describe_largest(random['herd'])}, "
            f"repaired up to {_describe_largest(random['repair'])}",
            most >= 3.5,
            "The largest gain is smaller on these instances.",
        ),
        make_claim(
            "LeastCost is as good as the best offline algorithm, MMS, and sometimes better",
            f"MMS over LeastCost {format_number(min(offline.values()))} to "
            f"{_describe_largest(offline)}; as good or better at {', '.join(better) or 'none'}",
            min(offline.values()) >= 0.95,
            "Sometimes: with few popular sources an order "
            "of arrival costs copies that a plan of all queries avoids.",
        ),
        make_claim(
            "LeastQT is virtually identical to OnRand",
            f"OnRand over LeastQT up to {_describe_largest(_ratios(spreads, 'onrand', 'leastqt'))}",
            not no_better,
            "Where many queries are of few types (one source a query, or "
            "heavy popularity) counting types does keep equal queries together; with types that "
            "hardly repeat it is random placement.",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="herding-fig4",
        paper=PAPER,
        title="Offline query assignment",
        shows="how often sources are shipped when all queries are known beforehand",
        cost_note="65 s on 2 cores",
        points=lambda scale: popularity_and_width_grid(scale, OFFLINE_ALGORITHMS),
        run=measure_point_placement,
        draw=_draw_fig4,
        claims=_fig4_claims,
    ),
    Experiment(
        id="herding-fig5",
        paper=PAPER,
        title="Online query assignment without departures",
        shows="the same when queries are placed one by one as they arrive",
        cost_note="25 s on 2 cores",
        points=lambda scale: popularity_and_width_grid(
            scale,
            ONLINE_ALGORITHMS,
            lambda p: p["algorithm"] != "repair" or p["panel"] == "popularity",
        ),
        run=measure_point_placement,
        draw=_draw_fig5,
        claims=_fig5_claims,
    ),
)
