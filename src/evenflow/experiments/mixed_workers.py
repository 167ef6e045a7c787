"""Mixed against MinTable with a varying number of workers: figure 8 (section V)."""

from typing import TYPE_CHECKING

from evenflow.experiments.experiment import Claim, Experiment, Point, Rows, Scale
from evenflow.experiments.measures import judged, paired, short, spreads
from evenflow.experiments.mixed import PAPER, WINDOWS, grid, run
from evenflow.experiments.mixed_loops import PLANNERS, cheaper, draw_loop, less_with_window, moved

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKERS = (5, 10, 15, 20, 25, 30, 35, 40)


def _points(scale: Scale) -> list[Point]:
    cases: list[Point] = [{"workers": n, "window": w} for n in WORKERS for w in WINDOWS]
    return grid(scale, PLANNERS, cases)


def _draw(rows: Rows) -> "Figure":
    return draw_loop(rows, "workers", "workers", PLANNERS)


def _claims(rows: Rows) -> list[Claim]:
    found = moved(rows, "workers")
    at_most_35 = [at for at in WORKERS if at <= 35]
    jump = {w: found["mixed", w, 40].mean / found["mixed", w, 35].mean for w in WINDOWS}
    reach = {w: found["mixed", w, 40].mean / found["mintable", w, 40].mean for w in WINDOWS}
    tables = spreads(rows, "table_size", ["algorithm", "window", "workers"])
    reached = min(reach.values()) > 0.8
    time = paired(rows, "milliseconds", "mixed", "mintable", ["workers", "window", "seed"])
    return [
        cheaper(
            rows,
            "workers",
            "Mixed moves much less state than MinTable up to 35 workers",
            at_most_35,
            1.2,
        ),
        judged(
            "Mixed plans a little longer than MinTable",
            f"{time} times MinTable's time",
            1 < time.mean < 3,
        ),
        judged(
            "At 40 workers Mixed's cost jumps to nearly MinTable's: the table is too small",
            "; ".join(
                f"window {w}: {short(jump[w])} times that at 35 workers, {short(reach[w])} of "
                f"MinTable's, table {tables['mixed', w, 40]} of 3,000"
                for w in WINDOWS
            ),
            reached,
            "The table does not bind here. From 34 workers on the heaviest key "
            "alone exceeds the bound: our Mixed leaves it where it is and aims at its load, where "
            "the paper's goes on moving keys after a balance that no plan reaches.",
        ),
        less_with_window(rows, "workers"),
    ]


EXPERIMENTS = (
    Experiment(
        id="mixed-fig8",
        paper=PAPER,
        title="Planning with a varying number of workers",
        shows="planning time and state moved, by workers",
        cost="90 s on 2 cores",
        points=_points,
        run=run,
        draw=_draw,
        claims=_claims,
    ),
)
