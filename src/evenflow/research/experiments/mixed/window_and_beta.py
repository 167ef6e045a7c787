"""The weight of state: window size, and beta in MinMig: figures 19, 20 and 21 (appendix).

Figures 20 and 21 are means over ten adjustments, as in the paper, for windows of 1 and 5: with a
window of 1 state is cost, and beta = 1 leaves all keys equal.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.mixed.closed_loop import (
    MOVED_LABEL,
    PAPER,
    WINDOWS,
    measure_loop,
    point_grid,
)
from evenflow.research.experiments.mixed.comparison import PLANNERS, format_values
from evenflow.research.points import Point, Rows, Scale
from evenflow.research.seed_statistics import (
    columns_equal,
    format_number,
    group_spreads,
    make_claim,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THETAS = (0.02, 0.08, 0.3)
WINDOW_SPANS = (1, 5, 10, 15, 20)
BETAS = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0)
KEYS: dict[Scale, int] = {"small": 10_000, "paper": 100_000}


def _fig19_points(scale: Scale) -> list[Point]:
    return point_grid(scale, PLANNERS, [{"window": span} for span in WINDOW_SPANS])


def _draw_fig19(rows: Rows) -> "Figure":
    figure, [axes] = figures.make_panels(1)
    figures.draw_lines(axes, rows, "window", "moved_percent", PLANNERS)
    axes.set(xlabel="window (intervals)", ylabel=MOVED_LABEL)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def _fig19_claims(rows: Rows) -> list[Claim]:
    spreads = group_spreads(rows, "moved_percent", ["algorithm", "window"])
    ratios = {at: spreads["mintable", at].mean / spreads["mixed", at].mean for at in WINDOW_SPANS}
    ours = {at: spreads["cover", at].mean / spreads["mixed", at].mean for at in WINDOW_SPANS}
    return [
        make_claim(
            "Mixed moves less state than MinTable at every window",
            f"MinTable over Mixed: {format_values(ratios)}; "
            f"cover over Mixed: {format_values(ours)}",
            min(ratios.values()) > 1,
        ),
        make_claim(
            "The larger the window, the cheaper Mixed",
            format_values({at: spreads["mixed", at].mean for at in WINDOW_SPANS}) + " %",
            all(spreads["mixed", a].mean >= 0.97 * spreads["mixed", b].mean
                for a, b in pairwise(WINDOW_SPANS)),
        ),
    ]  # fmt: skip


def _beta_points(scale: Scale) -> list[Point]:
    cases: list[Point] = [
        {"theta": t, "beta": b, "window": w, "max_table": KEYS[scale], "keys": KEYS[scale]}
        for t in THETAS
        for b in BETAS
        for w in WINDOWS
    ]
    return [{**point, "intervals": 10} for point in point_grid(scale, ("minmig",), cases)]


def _draw_beta(rows: Rows, y: str, label: str) -> "Figure":
    figure, axes = figures.make_panels(2)
    for panel, window in zip(axes, WINDOWS, strict=True):
        figures.draw_shaded_lines(
            panel,
            rows,
            "beta",
            y,
            "theta",
            "tolerance {:g}".format,
            where=columns_equal(window=window),
        )
        panel.set(xlabel="β", ylabel=label, title=f"window {window}")
    figures.draw_legend(figure, axes)
    return figure


def _draw_fig20(rows: Rows) -> "Figure":
    figure = _draw_beta(rows, "table_size", "table entries")
    for panel in figure.axes:
        figures.use_log_axis(panel)
    return figure


def _draw_fig21(rows: Rows) -> "Figure":
    figure = _draw_beta(rows, "moved_percent", MOVED_LABEL)
    for panel in figure.axes:
        figures.set_axis_minimum(panel, 0)
    return figure


def _fig20_claims(rows: Rows) -> list[Claim]:
    spreads = group_spreads(rows, "table_size", ["window", "theta", "beta"])
    ratios = {w: spreads[w, 0.08, 1.0].mean / spreads[w, 0.08, 1.5].mean for w in WINDOWS}
    late = {w: spreads[w, 0.08, 1.5].mean / spreads[w, 0.08, 2.0].mean for w in WINDOWS}
    stable = all(abs(ratio - 1) < 0.25 for ratio in late.values())
    return [
        make_claim(
            "beta = 1 makes a large table: small keys are moved",
            "; ".join(
                f"window {w}: {spreads[w, 0.08, 1.0]} entries at 1, {spreads[w, 0.08, 1.5]} at 1.5"
                for w in WINDOWS
            ),
            all(ratio > 1.2 for ratio in ratios.values()),
        ),
        make_claim(
            "The table hardly changes for beta from 1.5 to 2",
            "; ".join(
                f"window {w}: {spreads[w, 0.08, 1.5]} at 1.5, {spreads[w, 0.08, 2.0]} at 2"
                for w in WINDOWS
            ),
            stable,
            "With states of several intervals cost does not decide alone even then, and the table "
            "of a window of five differs more from seed to seed than from beta to beta.",
        ),
    ]


def _fig21_claims(rows: Rows) -> list[Claim]:
    spreads = group_spreads(rows, "moved_percent", ["window", "theta", "beta"])
    return [
        make_claim(
            "A larger beta costs more migration: load counts for more than state",
            "; ".join(
                f"window {w}: "
                + ", ".join(
                    f"{format_number(spreads[w, 0.08, b].mean)} % at {b:g}" for b in (1.0, 1.5, 2.0)
                )
                for w in WINDOWS
            ),
            spreads[5, 0.08, 2.0].mean > spreads[5, 0.08, 1.0].mean,
        )
    ]


EXPERIMENTS = (
    Experiment(
        id="mixed-fig19",
        paper=PAPER,
        title="Migration cost by window",
        shows="state moved, by how many intervals of state a key carries",
        cost_note="10 s on 2 cores",
        points=_fig19_points,
        run=measure_loop,
        draw=_draw_fig19,
        claims=_fig19_claims,
    ),
    Experiment(
        id="mixed-fig20",
        paper=PAPER,
        title="Table size by beta",
        shows="table entries of MinMig as load counts for more than state",
        cost_note="5 s on 2 cores",
        points=_beta_points,
        run=measure_loop,
        draw=_draw_fig20,
        claims=_fig20_claims,
    ),
    Experiment(
        id="mixed-fig21",
        paper=PAPER,
        title="Migration cost by beta",
        shows="state moved by MinMig as load counts for more than state",
        cost_note="5 s on 2 cores",
        points=_beta_points,
        run=measure_loop,
        draw=_draw_fig21,
        claims=_fig21_claims,
    ),
)
