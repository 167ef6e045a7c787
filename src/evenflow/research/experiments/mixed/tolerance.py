"""Mixed against MinTable with a varying tolerance: figure 9 (section V)."""

from typing import TYPE_CHECKING

from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.mixed.closed_loop import PAPER, WINDOWS, measure_loop, point_grid
from evenflow.research.experiments.mixed.comparison import (
    PLANNERS,
    claim_cheaper_with_window,
    draw_loop,
    format_values,
    moved_state_ratios,
    moved_state_spreads,
)
from evenflow.research.points import Point, Rows, Scale
from evenflow.research.seed_statistics import (
    columns_equal,
    group_spreads,
    make_claim,
    paired_ratios,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THETAS = (0.02, 0.05, 0.08, 0.15, 0.2, 0.3)


def _points(scale: Scale) -> list[Point]:
    cases: list[Point] = [{"theta": theta, "window": w} for theta in THETAS for w in WINDOWS]
    return point_grid(scale, PLANNERS, cases)


def _draw(rows: Rows) -> "Figure":
    return draw_loop(rows, "theta", "tolerated imbalance", PLANNERS)


def _claims(rows: Rows) -> list[Claim]:
    times = group_spreads(rows, "milliseconds", ["algorithm", "theta"])
    spreads = moved_state_spreads(rows, "theta")
    strict = group_spreads(rows, "milliseconds", ["theta"], columns_equal(algorithm="mixed"))
    catches = {at: times["mixed", at].mean / times["mintable", at].mean for at in THETAS}
    strict_half, loose_half = THETAS[: len(THETAS) // 2], THETAS[len(THETAS) // 2 :]
    falls = all(
        sum(spreads["mixed", w, at].mean for at in strict_half)
        > sum(spreads["mixed", w, at].mean for at in loose_half)
        for w in WINDOWS
    )
    ratio = paired_ratios(rows, "moved_percent", "mintable", "mixed", ["theta", "window", "seed"])
    by_window = {w: moved_state_ratios(spreads, "mintable", "mixed", w) for w in WINDOWS}
    caught = all(catches[at] < 1.3 for at in THETAS if at >= 0.2)
    return [
        make_claim(
            "Planning runs faster with a larger tolerance",
            ", ".join(f"{times['mixed', at]} ms at {at:g}" for at in THETAS),
            times["mixed", THETAS[0]].mean > times["mixed", THETAS[-1]].mean,
            "The times differ less than they spread: most of a plan is putting all keys in order, "
            "which no tolerance spares.",
        ),
        make_claim(
            "From 0.2 on Mixed plans as fast as MinTable",
            f"Mixed over MinTable: {format_values(catches)}",
            caught,
            "Both take milliseconds here, and Mixed always pays for the powers "
            "in its order of keys, which MinTable does without.",
        ),
        make_claim(
            "Stronger balance costs more migration",
            "; ".join(
                f"window {w}: "
                + format_values({at: spreads["mixed", w, at].mean for at in THETAS})
                + " %"
                for w in WINDOWS
            ),
            falls,
        ),
        make_claim(
            "MinTable moves three times as much as Mixed under the same bound",
            f"{ratio} times; window 1: {format_values(by_window[1])}; "
            f"window 5: {format_values(by_window[5])}",
            ratio.mean >= 3,
        ),
        make_claim(
            "Even at 0.02 a plan takes less than a second",
            f"{strict[THETAS[0],]} ms",
            strict[THETAS[0],].high < 1000,
        ),
        claim_cheaper_with_window(rows, "theta", THETAS),
    ]


EXPERIMENTS = (
    Experiment(
        id="mixed-fig9",
        paper=PAPER,
        title="Planning with a varying tolerance",
        shows="planning time and state moved, by tolerated imbalance",
        cost_note="10 s on 2 cores",
        points=_points,
        run=measure_loop,
        draw=_draw,
        claims=_claims,
    ),
)
