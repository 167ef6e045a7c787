"""Mixed against MinTable with a varying number of keys: figure 10 (section V)."""

from typing import TYPE_CHECKING

from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.mixed.closed_loop import PAPER, WINDOWS, measure_loop, point_grid
from evenflow.research.experiments.mixed.comparison import (
    PLANNERS,
    claim_cheaper,
    claim_cheaper_with_window,
    draw_loop,
    format_values,
    moved_state_spreads,
)
from evenflow.research.points import Point, Rows, Scale
from evenflow.research.seed_statistics import group_spreads, make_claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS = (5_000, 10_000, 100_000, 1_000_000)


def _points(scale: Scale) -> list[Point]:
    taken = KEYS if scale == "paper" else KEYS[:-1]  # a run over a million takes 15 s of CPU
    return point_grid(
        scale, PLANNERS, [{"keys": keys, "window": w} for keys in taken for w in WINDOWS]
    )


def _draw(rows: Rows) -> "Figure":
    return draw_loop(rows, "keys", "keys", PLANNERS, log=True)


def _claims(rows: Rows) -> list[Claim]:
    times = group_spreads(rows, "milliseconds", ["algorithm", "keys"])
    ratio = group_spreads(rows, "times_argsort", ["algorithm", "keys"])
    spreads = moved_state_spreads(rows, "keys")
    taken = sorted(set(rows["keys"].to_pylist()))
    ranges = {w: [spreads["mixed", w, at].mean for at in taken] for w in WINDOWS}
    stable = all(max(moved) < 2.5 * min(moved) for moved in ranges.values())
    return [
        claim_cheaper(rows, "keys", "Mixed moves less state than MinTable at any number of keys",
                 taken),
        make_claim(
            "Mixed needs more planning time as the keys grow",
            ", ".join(f"{times['mixed', at]} ms ({ratio['mixed', at]} times one argsort) at "
                      f"{at:,}" for at in taken),
            times["mixed", taken[-1]].mean > times["mixed", taken[0]].mean,
        ),
        make_claim(
            "Mixed's cost is stable whatever the number of keys",
            "; ".join(
                f"window {w}: " + format_values(dict(zip(taken, moved, strict=True))) + " %"
                for w, moved in ranges.items()
            ),
            stable,
        ),
        claim_cheaper_with_window(rows, "keys", taken),
    ]  # fmt: skip


EXPERIMENTS = (
    Experiment(
        id="mixed-fig10",
        paper=PAPER,
        title="Planning with a varying number of keys",
        shows="planning time and state moved, by keys",
        cost_note="10 s on 2 cores",
        points=_points,
        run=measure_loop,
        draw=_draw,
        claims=_claims,
    ),
)
