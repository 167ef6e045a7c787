"""Mixed against Readj and brute force as the load changes faster: figure 12 (section V).

Two forms of Readj: `readj-pairs` is the paper's, which considers all possible swaps and finds its
threshold by binary search; `readj` finds swaps by binary search and tries fourteen thresholds. The
times of both include all tries. The paper's claims on time are about the first. MixedBF tries
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

PLANNERS = ("mixed", "mixedbf", "readj-pairs", "readj", "cover", "compact")
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
    pairs = times["readj-pairs", last].mean / times["readj-pairs", first].mean
    return [
        make_claim(
            "Mixed plans faster than Readj by a large margin",
            f"Readj takes {slower['readj-pairs']} times as long, with swaps by binary search "
            f"{slower['readj']} times; cover {slower['cover']} times, compact "
            f"{slower['compact']} times",
            slower["readj-pairs"].low > 3,
        ),
        make_claim(
            "Readj gets slower as f grows",
            f"{times['readj-pairs', first]} ms at f {first:g}, "
            f"{times['readj-pairs', last]} ms at {last:g}; with swaps by binary search "
            f"{times['readj', first]} and {times['readj', last]} ms",
            pairs > 1.2,
            "The keys above the threshold are tried in pairs at any f.",
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
