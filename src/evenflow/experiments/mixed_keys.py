"""Mixed against MinTable with a varying number of keys: figure 10 (section V)."""

from typing import TYPE_CHECKING

from evenflow.experiments.experiment import Claim, Experiment, Point, Rows, Scale
from evenflow.experiments.measures import judged, spreads
from evenflow.experiments.mixed import PAPER, WINDOWS, grid, run
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


def _points(scale: Scale) -> list[Point]:
    taken = KEYS if scale == "paper" else KEYS[:-1]  # a run over a million takes 15 s of CPU
    return grid(scale, PLANNERS, [{"keys": keys, "window": w} for keys in taken for w in WINDOWS])


def _draw(rows: Rows) -> "Figure":
    return draw_loop(rows, "keys", "keys", PLANNERS, log=True)


def _claims(rows: Rows) -> list[Claim]:
    times = spreads(rows, "milliseconds", ["algorithm", "keys"])
    ratio = spreads(rows, "times_argsort", ["algorithm", "keys"])
    found = moved(rows, "keys")
    taken = sorted(set(rows["keys"].to_pylist()))
    ranges = {w: [found["mixed", w, at].mean for at in taken] for w in WINDOWS}
    stable = all(max(mine) < 2.5 * min(mine) for mine in ranges.values())
    return [
        cheaper(rows, "keys", "Mixed moves less state than MinTable at any number of keys",
                 taken),
        judged(
            "Mixed needs more planning time as the keys grow",
            ", ".join(f"{times['mixed', at]} ms ({ratio['mixed', at]} times one argsort) at "
                      f"{at:,}" for at in taken),
            times["mixed", taken[-1]].mean > times["mixed", taken[0]].mean,
        ),
        judged(
            "Mixed's cost is stable whatever the number of keys",
            "; ".join(
                f"window {w}: " + told(dict(zip(taken, mine, strict=True))) + " %"
                for w, mine in ranges.items()
            ),
            stable,
        ),
        less_with_window(rows, "keys", taken),
    ]  # fmt: skip


EXPERIMENTS = (
    Experiment(
        id="mixed-fig10",
        paper=PAPER,
        title="Planning with a varying number of keys",
        shows="planning time and state moved, by keys",
        cost="10 s on 2 cores",
        points=_points,
        run=run,
        draw=_draw,
        claims=_claims,
    ),
)
