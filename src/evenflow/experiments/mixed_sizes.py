"""Mixed against MinTable by keys and by window: figures 10 (section V) and 19 (appendix)."""

from itertools import pairwise
from typing import TYPE_CHECKING

from evenflow.experiments import drawing
from evenflow.experiments.experiment import Claim, Experiment, Point, Rows, Scale
from evenflow.experiments.measures import spreads
from evenflow.experiments.mixed import MOVED, PAPER, WINDOWS, grid, run
from evenflow.experiments.mixed_loops import (
    PLANNERS,
    cheaper,
    draw_loop,
    less_with_window,
    moved,
    told,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS = (5_000, 10_000, 100_000, 1_000_000)
SPANS = (1, 5, 10, 15, 20)


def _fig10_points(scale: Scale) -> list[Point]:
    cases: list[Point] = [{"keys": keys, "window": w} for keys in KEYS for w in WINDOWS]
    slow = KEYS[-1] if scale == "small" else None  # one run of a million keys is enough at a desk
    return [
        point
        for point in grid(scale, PLANNERS, cases)
        if point["keys"] != slow or point["seed"] == 0
    ]


def _fig19_points(scale: Scale) -> list[Point]:
    return grid(scale, PLANNERS, [{"window": span} for span in SPANS])


def _fig10(rows: Rows) -> "Figure":
    return draw_loop(rows, "keys", "keys", PLANNERS, log=True)


def _fig19(rows: Rows) -> "Figure":
    figure, [axes] = drawing.panels(1)
    drawing.lines(axes, rows, "window", "moved_percent", PLANNERS)
    axes.set(xlabel="window (intervals)", ylabel=MOVED)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def _fig10_claims(rows: Rows) -> list[Claim]:
    times = spreads(rows, "milliseconds", ["algorithm", "keys"])
    ratio = spreads(rows, "times_argsort", ["algorithm", "keys"])
    found = moved(rows, "keys")
    ranges = {w: [found["mixed", w, at].mean for at in KEYS] for w in WINDOWS}
    stable = all(max(mine) < 2.5 * min(mine) for mine in ranges.values())
    return [
        cheaper(rows, "keys", "Mixed moves less state than MinTable at any number of keys",
                 list(KEYS)),
        Claim(
            "Mixed needs more planning time as the keys grow",
            ", ".join(f"{times['mixed', at]} ms ({ratio['mixed', at]} times one argsort) at "
                      f"{at:,}" for at in KEYS),
            times["mixed", KEYS[-1]].mean > times["mixed", KEYS[0]].mean,
        ),
        Claim(
            "Mixed's cost is stable whatever the number of keys",
            "; ".join(
                f"window {w}: " + told(dict(zip(KEYS, mine, strict=True))) + " %"
                for w, mine in ranges.items()
            ),
            stable,
        ),
        less_with_window(rows, "keys"),
    ]  # fmt: skip


def _fig19_claims(rows: Rows) -> list[Claim]:
    found = spreads(rows, "moved_percent", ["algorithm", "window"])
    ratios = {at: found["mintable", at].mean / found["mixed", at].mean for at in SPANS}
    ours = {at: found["cover", at].mean / found["mixed", at].mean for at in SPANS}
    return [
        Claim(
            "Mixed moves less state than MinTable at every window",
            f"MinTable over Mixed: {told(ratios)}; cover over Mixed: {told(ours)}",
            min(ratios.values()) > 1,
        ),
        Claim(
            "The larger the window, the cheaper Mixed",
            told({at: found["mixed", at].mean for at in SPANS}) + " %",
            all(found["mixed", a].mean >= 0.97 * found["mixed", b].mean
                for a, b in pairwise(SPANS)),
        ),
    ]  # fmt: skip


EXPERIMENTS = (
    Experiment(
        id="mixed-fig10",
        paper=PAPER,
        title="Planning with a varying number of keys",
        shows="planning time and state moved, by keys",
        cost="60 s on 2 cores",
        points=_fig10_points,
        run=run,
        draw=_fig10,
        claims=_fig10_claims,
    ),
    Experiment(
        id="mixed-fig19",
        paper=PAPER,
        title="Migration cost by window",
        shows="state moved, by how many intervals of state a key carries",
        cost="30 s on 2 cores",
        points=_fig19_points,
        run=run,
        draw=_fig19,
        claims=_fig19_claims,
    ),
)
