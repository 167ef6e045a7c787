"""The routing table: what a small one costs, how an unbounded one grows: figures 17, 18 (appendix).

Figure 18 lets MinMig adjust 10,000 keys again and again, as the paper does.
"""

from typing import TYPE_CHECKING

from evenflow.experiments import drawing
from evenflow.experiments.experiment import Claim, Experiment, Point, Row, Rows, Scale
from evenflow.experiments.looks import look
from evenflow.experiments.measures import judged, only, short, spreads
from evenflow.experiments.mixed import MOVED, PAPER, adjustments, grid, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THETAS = (0.02, 0.08, 0.15, 0.3)
TABLES = tuple(1 << power for power in (1, 3, 5, 6, 7, 8, 9, 10, 11, 13))
KEYS: dict[Scale, int] = {"small": 10_000, "paper": 100_000}
ADJUSTMENTS: dict[Scale, int] = {"small": 1 << 9, "paper": 1 << 13}
BOUNDED = ("mixed", "cover")


def _fig17_points(scale: Scale) -> list[Point]:
    cases: list[Point] = [
        {"theta": t, "max_table": n, "window": 5, "keys": KEYS[scale]}
        for t in THETAS
        for n in TABLES
    ]
    ours = [case for case in cases if case["theta"] == 0.08]
    return grid(scale, ("mixed",), cases) + grid(scale, ("cover",), ours)


def _fig17(rows: Rows) -> "Figure":
    figure, axes = drawing.panels(2)
    for panel, y, label, bottom in (
        (axes[0], "moved_percent", MOVED, 0),
        (axes[1], "max_over_mean", "fullest worker after it (means)", 1),
    ):
        drawing.shaded(
            panel,
            rows,
            "max_table",
            y,
            "theta",
            "Mixed, tolerance {:g}".format,
            where=only(algorithm="mixed"),
        )
        drawing.lines(panel, rows, "max_table", y, ("cover",))
        drawing.plain_log(panel, "x")
        panel.set(xlabel="table bound (entries)", ylabel=label)
        drawing.floor(panel, bottom)
    axes[1].set_title("cover: tolerance 0.08")
    drawing.legend(figure, axes, columns=5)
    return figure


def _fig17_claims(rows: Rows) -> list[Claim]:
    by = ["algorithm", "theta", "max_table"]
    found, fullest = (spreads(rows, column, by) for column in ("moved_percent", "max_over_mean"))
    kept = spreads(rows, "feasible", by)

    def needed(name: str, theta: float) -> int | None:
        """Return the least table with which every adjustment keeps both bounds."""
        return next((n for n in TABLES if kept[name, theta, n].low == 1), None)

    tables = {theta: needed("mixed", theta) for theta in THETAS}
    sizes = [size or 2 * TABLES[-1] for size in tables.values()]
    tight, loose = tables[0.08] or TABLES[-1], TABLES[-1]
    drop = found["mixed", 0.08, tight].mean / found["mixed", 0.08, loose].mean
    small = TABLES[0]
    return [
        judged(
            "A tight table makes Mixed expensive; relaxing it cuts the cost greatly",
            "tolerance 0.08: "
            + ", ".join(f"{short(found['mixed', 0.08, n].mean)} % at {n:,}" for n in TABLES)
            + f"; {tight:,} entries are the least that do, and cost {short(drop)} times what "
            f"{loose:,} cost. With fewer no plan of Mixed keeps the table, owners stay as they are "
            f"and the fullest worker has {short(fullest['mixed', 0.08, small].mean)} means (cover "
            f"{short(fullest['cover', 0.08, small].mean)} at {small:,} entries)",
            drop >= 1.5,
            "On these loads the least table that does costs hardly more than a loose one.",
        ),
        judged(
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
        points = grid(scale, algorithms, [{"theta": t, "keys": 10_000} for t in thetas])
        return [{**p, "intervals": ADJUSTMENTS[scale]} for p in points if p["seed"] == 0]

    return cases(THETAS, ("minmig",)) + cases((0.08,), BOUNDED)


def _fig18_run(point: Point) -> list[Row]:
    """Report the table after 1, 2, 4, 8, ... adjustments."""
    rows: list[Row] = []
    for at, one in enumerate(adjustments(point, int(point["intervals"])), start=1):
        if at & (at - 1) == 0:
            rows.append({"adjustment": at, "table_size": one.plan.table_size(one.keys)})
    return rows


def _fig18(rows: Rows) -> "Figure":
    figure, [axes] = drawing.panels(1)
    drawing.shaded(
        axes,
        rows,
        "adjustment",
        "table_size",
        "theta",
        lambda theta: f"MinMig, tolerance {theta:g}",
        where=only(algorithm="minmig"),
    )
    drawing.lines(axes, rows, "adjustment", "table_size", BOUNDED)
    axes.axhline(10_000 * 14 / 15, color="black", linestyle=":", linewidth=1)
    drawing.plain_log(axes, "x")
    axes.set(xlabel="adjustments", ylabel="table entries (of 10,000 keys)")
    axes.legend(title="Mixed, cover: tolerance 0.08, bound 3,000", title_fontsize=8.5)
    return figure


def _fig18_claims(rows: Rows) -> list[Claim]:
    found = spreads(rows, "table_size", ["algorithm", "theta", "adjustment"])
    last = max(key[2] for key in found)
    ends = {theta: found["minmig", theta, last].mean for theta in THETAS}
    middle = {theta: found["minmig", theta, 16].mean for theta in THETAS}
    order = list(middle.values())
    limit = 10_000 * 14 / 15
    close = all(abs(end / limit - 1) < 0.05 for end in ends.values())
    return [
        judged(
            "A smaller tolerance lets MinMig's table grow faster",
            "after 16 adjustments: "
            + ", ".join(f"{size:,.0f} at {theta:g}" for theta, size in middle.items()),
            order == sorted(order, reverse=True),
        ),
        judged(
            "All tolerances converge to the same table, about 9,350 entries (14/15 of the keys)",
            f"after {last:,} adjustments: "
            + ", ".join(f"{size:,.0f} at {theta:g}" for theta, size in ends.items())
            + "; within their bound of 3,000: "
            + ", ".join(f"{look(name).label} {found[name, 0.08, last].mean:,.0f}"
                        for name in BOUNDED),
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
        cost="5 s on 2 cores",
        points=_fig17_points,
        run=run,
        draw=_fig17,
        claims=_fig17_claims,
    ),
    Experiment(
        id="mixed-fig18",
        paper=PAPER,
        title="Growth of the routing table",
        shows="table entries after ever more adjustments by MinMig, and by planners with a bound",
        cost="10 s on 2 cores",
        points=_fig18_points,
        run=_fig18_run,
        draw=_fig18,
        claims=_fig18_claims,
    ),
)
