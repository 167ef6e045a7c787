"""The routing table: the cost of a small one, the growth of an unbounded one: figures 17, 18.

Figure 18 repeats adjustments of 10,000 keys by MinMig, as in the paper's appendix.
"""

from typing import TYPE_CHECKING

from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.mixed.closed_loop import (
    MOVED_LABEL,
    PAPER,
    measure_loop,
    point_grid,
    run_adjustments,
)
from evenflow.research.plot_styles import plot_style
from evenflow.research.points import Point, Row, Rows, Scale
from evenflow.research.seed_statistics import (
    columns_equal,
    format_number,
    group_spreads,
    make_claim,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THETAS = (0.02, 0.08, 0.15, 0.3)
TABLE_BOUNDS = tuple(1 << power for power in (1, 3, 5, 6, 7, 8, 9, 10, 11, 13))
KEYS: dict[Scale, int] = {"small": 10_000, "paper": 100_000}
ADJUSTMENTS: dict[Scale, int] = {"small": 1 << 9, "paper": 1 << 13}
BOUNDED_PLANNERS = ("mixed", "cover")


def _fig17_points(scale: Scale) -> list[Point]:
    cases: list[Point] = [
        {"theta": t, "max_table": n, "window": 5, "keys": KEYS[scale]}
        for t in THETAS
        for n in TABLE_BOUNDS
    ]
    ours = [case for case in cases if case["theta"] == 0.08]
    return point_grid(scale, ("mixed",), cases) + point_grid(scale, ("cover",), ours)


def _draw_fig17(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(2)
    for panel, y, label, bottom in (
        (axes[0], "moved_percent", MOVED_LABEL, 0),
        (axes[1], "max_over_mean", "fullest worker after it (means)", 1),
    ):
        figures.draw_shaded_lines(
            panel,
            rows,
            "max_table",
            y,
            "theta",
            "Mixed, tolerance {:g}".format,
            where=columns_equal(algorithm="mixed"),
        )
        figures.draw_lines(panel, rows, "max_table", y, ("cover",))
        figures.use_log_axis(panel, "x")
        panel.set(xlabel="table bound (entries)", ylabel=label)
        figures.set_axis_minimum(panel, bottom)
    axes[1].set_title("cover: tolerance 0.08")
    figures.draw_legend(figure, axes, columns=5)
    return figure


def _fig17_claims(rows: Rows) -> list[Claim]:
    by = ["algorithm", "theta", "max_table"]
    spreads, fullest = (
        group_spreads(rows, column, by) for column in ("moved_percent", "max_over_mean")
    )
    feasible = group_spreads(rows, "feasible", by)

    def needed(name: str, theta: float) -> int | None:
        """Return the smallest table with which every adjustment meets both bounds."""
        return next((n for n in TABLE_BOUNDS if feasible[name, theta, n].low == 1), None)

    tables = {theta: needed("mixed", theta) for theta in THETAS}
    sizes = [size or 2 * TABLE_BOUNDS[-1] for size in tables.values()]
    tight, loose = tables[0.08] or TABLE_BOUNDS[-1], TABLE_BOUNDS[-1]
    small = TABLE_BOUNDS[0]
    drop = spreads["mixed", 0.08, small].mean / spreads["mixed", 0.08, loose].mean
    return [
        make_claim(
            "A tight table makes Mixed expensive; relaxing it cuts the cost greatly",
            "tolerance 0.08: "
            + ", ".join(
                f"{format_number(spreads['mixed', 0.08, n].mean)} % at {n:,}" for n in TABLE_BOUNDS
            )
            + f"; a bound of {small:,} costs {format_number(drop)} times what {loose:,} costs. "
            f"Below {tight:,} no plan keeps the table, and Mixed becomes MinTable: its fullest "
            f"worker has {format_number(fullest['mixed', 0.08, small].mean)} means at {small:,} "
            f"(cover, which keeps it, {format_number(fullest['cover', 0.08, small].mean)})",
            drop >= 1.5,
            "On these loads MinTable costs hardly more than Mixed.",
        ),
        make_claim(
            "The stricter the balance, the larger the table that is needed",
            "least table of those tried: "
            + ", ".join(
                f"{f'{size:,}' if size else 'none'} for {theta:g}" for theta, size in tables.items()
            )
            + f"; cover {needed('cover', 0.08)} for 0.08",
            sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1],
        ),
    ]


def _fig18_points(scale: Scale) -> list[Point]:
    def cases(thetas: tuple[float, ...], algorithms: tuple[str, ...]) -> list[Point]:
        points = point_grid(scale, algorithms, [{"theta": t, "keys": 10_000} for t in thetas])
        return [{**p, "intervals": ADJUSTMENTS[scale]} for p in points if p["seed"] == 0]

    return cases(THETAS, ("minmig",)) + cases((0.08,), BOUNDED_PLANNERS)


def _measure_fig18(point: Point) -> list[Row]:
    """Report the table after 1, 2, 4, 8, ... adjustments."""
    rows: list[Row] = []
    adjustments = run_adjustments(point, int(point["intervals"]))
    for number, adjustment in enumerate(adjustments, start=1):
        if number & (number - 1) == 0:
            table_size = adjustment.plan.table_size(adjustment.keys)
            rows.append({"adjustment": number, "table_size": table_size})
    return rows


def _draw_fig18(rows: Rows) -> "Figure":
    figure, [axes] = figures.make_panels(1)
    figures.draw_shaded_lines(
        axes,
        rows,
        "adjustment",
        "table_size",
        "theta",
        lambda theta: f"MinMig, tolerance {theta:g}",
        where=columns_equal(algorithm="minmig"),
    )
    figures.draw_lines(axes, rows, "adjustment", "table_size", BOUNDED_PLANNERS)
    axes.axhline(10_000 * 14 / 15, color="black", linestyle=":", linewidth=1)
    figures.use_log_axis(axes, "x")
    axes.set(xlabel="adjustments", ylabel="table entries (of 10,000 keys)")
    axes.legend(title="Mixed, cover: tolerance 0.08, bound 3,000", title_fontsize=8.5)
    return figure


def _fig18_claims(rows: Rows) -> list[Claim]:
    spreads = group_spreads(rows, "table_size", ["algorithm", "theta", "adjustment"])
    last = max(key[2] for key in spreads)
    ends = {theta: spreads["minmig", theta, last].mean for theta in THETAS}
    middle = {theta: spreads["minmig", theta, 16].mean for theta in THETAS}
    order = list(middle.values())
    limit = 10_000 * 14 / 15
    close = all(abs(end / limit - 1) < 0.05 for end in ends.values())
    return [
        make_claim(
            "A smaller tolerance lets MinMig's table grow faster",
            "after 16 adjustments: "
            + ", ".join(f"{size:,.0f} at {theta:g}" for theta, size in middle.items()),
            order == sorted(order, reverse=True),
        ),
        make_claim(
            "All tolerances converge to the same table, about 9,350 entries (14/15 of the keys)",
            f"after {last:,} adjustments: "
            + ", ".join(f"{size:,.0f} at {theta:g}" for theta, size in ends.items())
            + "; within their bound of 3,000: "
            + ", ".join(f"{plot_style(name).label} {spreads[name, 0.08, last].mean:,.0f}"
                        for name in BOUNDED_PLANNERS),
            close,
            "They are still on their way, the strict ones ahead: the looser the "
            "tolerance, the fewer keys each adjustment moves.",
        ),
    ]  # fmt: skip


EXPERIMENTS = (
    Experiment(
        id="mixed-fig17",
        paper=PAPER,
        title="Migration cost by table bound",
        shows="what a small routing table costs Mixed in state moved",
        cost_note="5 s on 2 cores",
        points=_fig17_points,
        run=measure_loop,
        draw=_draw_fig17,
        claims=_fig17_claims,
    ),
    Experiment(
        id="mixed-fig18",
        paper=PAPER,
        title="Growth of the routing table",
        shows="table entries after ever more adjustments by MinMig, and by planners with a bound",
        cost_note="10 s on 2 cores",
        points=_fig18_points,
        run=_measure_fig18,
        draw=_draw_fig18,
        claims=_fig18_claims,
    ),
)
