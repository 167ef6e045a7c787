"""Mixed against MinTable with a varying tolerance: figure 9 (section V)."""

from typing import TYPE_CHECKING

from evenflow.experiments.experiment import Claim, Experiment, Point, Rows, Scale
from evenflow.experiments.measures import judged, only, paired, spreads
from evenflow.experiments.mixed import PAPER, WINDOWS, grid, run
from evenflow.experiments.mixed_loops import (
    PLANNERS,
    compared,
    draw_loop,
    less_with_window,
    moved,
    told,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THETAS = (0.02, 0.05, 0.08, 0.15, 0.2, 0.3)


def _points(scale: Scale) -> list[Point]:
    cases: list[Point] = [{"theta": theta, "window": w} for theta in THETAS for w in WINDOWS]
    return grid(scale, PLANNERS, cases)


def _draw(rows: Rows) -> "Figure":
    return draw_loop(rows, "theta", "tolerated imbalance", PLANNERS)


def _claims(rows: Rows) -> list[Claim]:
    times = spreads(rows, "milliseconds", ["algorithm", "theta"])
    found = moved(rows, "theta")
    strict = spreads(rows, "milliseconds", ["theta"], only(algorithm="mixed"))
    catches = {at: times["mixed", at].mean / times["mintable", at].mean for at in THETAS}
    strict_half, loose_half = THETAS[: len(THETAS) // 2], THETAS[len(THETAS) // 2 :]
    falls = all(
        sum(found["mixed", w, at].mean for at in strict_half)
        > sum(found["mixed", w, at].mean for at in loose_half)
        for w in WINDOWS
    )
    ratio = paired(rows, "moved_percent", "mintable", "mixed", ["theta", "window", "seed"])
    threefold = compared(found, "mintable", "mixed", 5)
    caught = all(catches[at] < 1.3 for at in THETAS if at >= 0.2)
    return [
        judged(
            "Planning runs faster with a larger tolerance",
            ", ".join(f"{times['mixed', at]} ms at {at:g}" for at in THETAS),
            times["mixed", THETAS[0]].mean > times["mixed", THETAS[-1]].mean,
            "The times differ less than they spread: most of a plan is putting all keys in order, "
            "which no tolerance spares.",
        ),
        judged(
            "From 0.2 on Mixed plans as fast as MinTable",
            f"Mixed over MinTable: {told(catches)}",
            caught,
            "Both take milliseconds here, and Mixed always pays for the powers "
            "in its order of keys, which MinTable does without.",
        ),
        judged(
            "Stronger balance costs more migration",
            "; ".join(
                f"window {w}: " + told({at: found["mixed", w, at].mean for at in THETAS}) + " %"
                for w in WINDOWS
            ),
            falls,
        ),
        judged(
            "MinTable moves three times as much as Mixed under the same bound",
            f"{ratio} times; window 1: {told(compared(found, 'mintable', 'mixed', 1))}; "
            f"window 5: {told(threefold)}",
            ratio.mean >= 3,
        ),
        judged(
            "Even at 0.02 a plan takes less than a second",
            f"{strict[THETAS[0],]} ms",
            strict[THETAS[0],].high < 1000,
        ),
        less_with_window(rows, "theta", THETAS),
    ]


EXPERIMENTS = (
    Experiment(
        id="mixed-fig9",
        paper=PAPER,
        title="Planning with a varying tolerance",
        shows="planning time and state moved, by tolerated imbalance",
        cost="10 s on 2 cores",
        points=_points,
        run=run,
        draw=_draw,
        claims=_claims,
    ),
)
