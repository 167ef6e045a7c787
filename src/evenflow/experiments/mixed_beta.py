"""How state counts: the window, and beta in MinMig: figures 19, 20 and 21 (appendix).

Figures 20 and 21 are means over ten adjustments, as in the paper, for windows of 1 and 5: with a
window of 1 state is cost, and beta = 1 leaves all keys equal.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

from evenflow.experiments import drawing
from evenflow.experiments.experiment import Claim, Experiment, Point, Rows, Scale
from evenflow.experiments.measures import judged, only, short, spreads
from evenflow.experiments.mixed import MOVED, PAPER, WINDOWS, grid, run
from evenflow.experiments.mixed_loops import PLANNERS, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THETAS = (0.02, 0.08, 0.3)
SPANS = (1, 5, 10, 15, 20)
BETAS = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0)
KEYS: dict[Scale, int] = {"small": 10_000, "paper": 100_000}


def _fig19_points(scale: Scale) -> list[Point]:
    return grid(scale, PLANNERS, [{"window": span} for span in SPANS])


def _fig19(rows: Rows) -> "Figure":
    figure, [axes] = drawing.panels(1)
    drawing.lines(axes, rows, "window", "moved_percent", PLANNERS)
    axes.set(xlabel="window (intervals)", ylabel=MOVED)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def _fig19_claims(rows: Rows) -> list[Claim]:
    found = spreads(rows, "moved_percent", ["algorithm", "window"])
    ratios = {at: found["mintable", at].mean / found["mixed", at].mean for at in SPANS}
    ours = {at: found["cover", at].mean / found["mixed", at].mean for at in SPANS}
    return [
        judged(
            "Mixed moves less state than MinTable at every window",
            f"MinTable over Mixed: {told(ratios)}; cover over Mixed: {told(ours)}",
            min(ratios.values()) > 1,
        ),
        judged(
            "The larger the window, the cheaper Mixed",
            told({at: found["mixed", at].mean for at in SPANS}) + " %",
            all(found["mixed", a].mean >= 0.97 * found["mixed", b].mean
                for a, b in pairwise(SPANS)),
        ),
    ]  # fmt: skip


def _beta_points(scale: Scale) -> list[Point]:
    cases: list[Point] = [
        {"theta": t, "beta": b, "window": w, "max_table": KEYS[scale], "keys": KEYS[scale]}
        for t in THETAS
        for b in BETAS
        for w in WINDOWS
    ]
    return [{**point, "intervals": 10} for point in grid(scale, ("minmig",), cases)]


def _beta(rows: Rows, y: str, label: str) -> "Figure":
    figure, axes = drawing.panels(2)
    for panel, window in zip(axes, WINDOWS, strict=True):
        drawing.shaded(
            panel, rows, "beta", y, "theta", "tolerance {:g}".format, where=only(window=window)
        )
        panel.set(xlabel="β", ylabel=label, title=f"window {window}")
    drawing.legend(figure, axes)
    return figure


def _fig20(rows: Rows) -> "Figure":
    figure = _beta(rows, "table_size", "table entries")
    for panel in figure.axes:
        drawing.plain_log(panel)
    return figure


def _fig21(rows: Rows) -> "Figure":
    figure = _beta(rows, "moved_percent", MOVED)
    for panel in figure.axes:
        drawing.floor(panel, 0)
    return figure


def _fig20_claims(rows: Rows) -> list[Claim]:
    found = spreads(rows, "table_size", ["window", "theta", "beta"])
    ratios = {w: found[w, 0.08, 1.0].mean / found[w, 0.08, 1.5].mean for w in WINDOWS}
    late = {w: found[w, 0.08, 1.5].mean / found[w, 0.08, 2.0].mean for w in WINDOWS}
    stable = all(abs(ratio - 1) < 0.25 for ratio in late.values())
    return [
        judged(
            "beta = 1 makes a large table: small keys are moved",
            "; ".join(
                f"window {w}: {found[w, 0.08, 1.0]} entries at 1, {found[w, 0.08, 1.5]} at 1.5"
                for w in WINDOWS
            ),
            all(ratio > 1.2 for ratio in ratios.values()),
        ),
        judged(
            "The table hardly changes for beta from 1.5 to 2",
            "; ".join(
                f"window {w}: {found[w, 0.08, 1.5]} at 1.5, {found[w, 0.08, 2.0]} at 2"
                for w in WINDOWS
            ),
            stable,
            "With states of several intervals cost does not decide alone even then, and the table "
            "of a window of five differs more from seed to seed than from beta to beta.",
        ),
    ]


def _fig21_claims(rows: Rows) -> list[Claim]:
    found = spreads(rows, "moved_percent", ["window", "theta", "beta"])
    return [
        judged(
            "A larger beta costs more migration: load counts for more than state",
            "; ".join(
                f"window {w}: "
                + ", ".join(f"{short(found[w, 0.08, b].mean)} % at {b:g}" for b in (1.0, 1.5, 2.0))
                for w in WINDOWS
            ),
            found[5, 0.08, 2.0].mean > found[5, 0.08, 1.0].mean,
        )
    ]


EXPERIMENTS = (
    Experiment(
        id="mixed-fig19",
        paper=PAPER,
        title="Migration cost by window",
        shows="state moved, by how many intervals of state a key carries",
        cost="10 s on 2 cores",
        points=_fig19_points,
        run=run,
        draw=_fig19,
        claims=_fig19_claims,
    ),
    Experiment(
        id="mixed-fig20",
        paper=PAPER,
        title="Table size by beta",
        shows="table entries of MinMig as load counts for more than state",
        cost="5 s on 2 cores",
        points=_beta_points,
        run=run,
        draw=_fig20,
        claims=_fig20_claims,
    ),
    Experiment(
        id="mixed-fig21",
        paper=PAPER,
        title="Migration cost by beta",
        shows="state moved by MinMig as load counts for more than state",
        cost="5 s on 2 cores",
        points=_beta_points,
        run=run,
        draw=_fig21,
        claims=_fig21_claims,
    ),
)
