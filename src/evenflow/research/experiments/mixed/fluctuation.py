"""Mixed against Readj and brute force as the load changes faster: figure 12 (section V).

Readj tries fourteen thresholds each time and uses the best; its time includes all tries, as in the
paper. It finds swaps by binary search instead of trying all pairs, which is faster. MixedBF tries
every number of table entries to remove: `small` has 10,000 keys, as it would take hours otherwise.
"""

from typing import TYPE_CHECKING

from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.mixed.closed_loop import PAPER, measure_loop, point_grid
from evenflow.research.experiments.mixed.comparison import draw_loop
from evenflow.research.points import Point, Rows, Scale
from evenflow.research.seed_statistics import (
    format_number,
    group_spreads,
    make_claim,
    paired_ratios,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANNERS = ("mixed", "mixedbf", "readj", "cover", "compact")
FLUCTUATIONS = (0.2, 0.5, 1.0, 1.5, 2.0)
KEYS: dict[Scale, int] = {"small": 10_000, "paper": 100_000}


def _points(scale: Scale) -> list[Point]:
    return point_grid(
        scale, PLANNERS, [{"fluctuation": f, "keys": KEYS[scale]} for f in FLUCTUATIONS]
    )


def _draw(rows: Rows) -> "Figure":
    return draw_loop(rows, "fluctuation", "fluctuation f", PLANNERS)


def _claims(rows: Rows) -> list[Claim]:
    by = ["fluctuation", "seed"]
    slower = {name: paired_ratios(rows, "milliseconds", name, "mixed", by) for name in PLANNERS[1:]}
    spreads = group_spreads(rows, "moved_percent", ["algorithm", "fluctuation"])
    first, last = FLUCTUATIONS[0], FLUCTUATIONS[-1]
    growth = {name: spreads[name, last].mean - spreads[name, first].mean for name in PLANNERS}
    alike = paired_ratios(rows, "moved_percent", "mixedbf", "mixed", by)
    ours = paired_ratios(rows, "moved_percent", "cover", "mixed", by)
    times = group_spreads(rows, "milliseconds", ["algorithm", "fluctuation"])
    readj = times["readj", last].mean / times["readj", first].mean
    return [
        make_claim(
            "Mixed plans faster than Readj by a large margin",
            f"Readj takes {slower['readj']} times as long; cover {slower['cover']} times, "
            f"compact {slower['compact']} times",
            slower["readj"].low > 3,
        ),
        make_claim(
            "Readj gets slower as f grows",
            f"{times['readj', first]} ms at f {first:g}, {times['readj', last]} ms at {last:g}",
            readj > 1.2,
            "All thresholds are tried at any f, and sorting for them takes "
            "most of the time; the paper's pairs every task with every key.",
        ),
        make_claim(
            "The migration cost of Mixed grows more slowly with f than Readj's",
            f"from f {first:g} to {last:g}: Mixed {spreads['mixed', first]} to "
            f"{spreads['mixed', last]} %, Readj {spreads['readj', first]} to "
            f"{spreads['readj', last]} %; "
            f"cover {spreads['cover', first]} to {spreads['cover', last]} % ({ours} times Mixed)",
            growth["mixed"] < growth["readj"],
        ),
        make_claim(
            "Brute force is a poor option: MixedBF is slow and moves about what Mixed moves",
            f"{slower['mixedbf']} times Mixed's time; {alike} times its moved state",
            slower["mixedbf"].mean > 5 and 0.8 < alike.mean < 1.1,
            ""
            if slower["mixedbf"].mean > 5 and 0.8 < alike.mean < 1.1
            else f"It moves {format_number(100 * (1 - alike.mean))} % less, for its time.",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="mixed-fig12",
        paper=PAPER,
        title="Planning with a varying fluctuation",
        shows="planning time and state moved as the load changes faster, against Readj",
        cost_note="10 s on 2 cores",
        points=_points,
        run=measure_loop,
        draw=_draw,
        claims=_claims,
    ),
)
