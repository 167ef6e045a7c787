"""Planning on groups of similar keys: figure 11 (section IV).

A case is one snapshot of the closed loop, after ten adjustments by Mixed. Its keys are grouped by
discretised cost and state at degree R; Mixed plans the groups, and the plan is converted back to
keys. In the paper workers group their keys when they report, so that the controller only plans; we
report both times: planning alone and the total. "original" is Mixed on the keys.

The load error is the largest relative error of a worker's load from discretised costs: with one
running deviation over all workers, as printed in the paper, and with one per worker (ours).
"""

from typing import TYPE_CHECKING

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats
from evenflow.planning.keys import ALGORITHMS
from evenflow.planning.keys.balance_goal import balance_goal
from evenflow.planning.keys.compact import compact_with_degree, group_keys, mixed_records
from evenflow.planning.keys.discretise import discretise
from evenflow.planning.keys.metrics import moved_state
from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.mixed.closed_loop import (
    DEFAULTS,
    INTERVALS,
    MOVED_LABEL,
    PAPER,
    SEEDS,
    point_config,
    run_adjustments,
    with_cpu_seconds,
)
from evenflow.research.points import Point, Row, Rows, Scale
from evenflow.research.seed_statistics import format_number, group_spreads, make_claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_DISCRETISED = 0
DEGREES = (NOT_DISCRETISED, 1, 2, 4, 8, 16, 32, 64, 128, 256)
KEYS: dict[Scale, int] = {"small": 100_000, "paper": 1_000_000}
REPEATS = 9  # the fastest counts


def _points(scale: Scale) -> list[Point]:
    return [
        {
            **DEFAULTS,
            "keys": KEYS[scale],
            "window": 5,
            "algorithm": "mixed",
            "intervals": INTERVALS["small"],
            "seed": seed,
        }
        for seed in SEEDS[scale]
    ]


def _measure(point: Point) -> list[Row]:
    """Measure all degrees on one snapshot in one task, so that times are comparable."""
    *_, last = run_adjustments(point, int(point["intervals"]))
    return [_measure_degree(last.keys, point, degree) for degree in DEGREES]


def _measure_degree(keys: KeyLoads, point: Point, degree: int) -> Row:
    config, rng = point_config(point), np.random.default_rng(0)
    goal = balance_goal(keys, config)
    if degree == NOT_DISCRETISED:
        mixed = ALGORITHMS["mixed"]
        runs = [with_cpu_seconds(lambda: mixed(keys, config, rng)) for _ in range(REPEATS)]
        seconds = 1000 * min(run[1] for run in runs)
        return {
            "degree": degree,
            "records": len(keys),
            "planning_ms": seconds,
            "total_ms": seconds,
            "moved_percent": _moved_percent(keys, runs[0][0].owner),
            "error_percent": 0.0,
            "own_error_percent": 0.0,
        }
    records, _ = group_keys(keys, goal, degree)
    totals = [
        with_cpu_seconds(lambda: compact_with_degree(keys, config, degree)) for _ in range(REPEATS)
    ]
    plans = [
        with_cpu_seconds(lambda: mixed_records(records, config, keys.workers, goal.max_load))
        for _ in range(REPEATS)
    ]
    return {
        "degree": degree,
        "records": len(records.cost),
        "planning_ms": 1000 * min(seconds for _, seconds in plans),
        "total_ms": 1000 * min(seconds for _, seconds in totals),
        "moved_percent": _moved_percent(keys, totals[0][0].owner),
        "error_percent": _worst_load_error(keys, discretise(keys.cost, degree)),
        "own_error_percent": _worst_load_error(keys, discretise(keys.cost, degree, keys.owner)),
    }


def _moved_percent(keys: KeyLoads, owner: "np.ndarray[tuple[int], np.dtype[np.int32]]") -> float:
    return 100 * moved_state(keys, owner) / float(keys.state.sum())


def _worst_load_error(keys: KeyLoads, estimated: Floats) -> float:
    """Return the largest error of a worker's load, in percent of it."""
    loads = np.bincount(keys.owner, weights=estimated, minlength=keys.workers)
    return float(100 * np.abs(loads / keys.worker_loads() - 1).max())


def _draw(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(3)
    named = ["original", *(str(degree) for degree in DEGREES[1:])]
    for name, column in (("records", "planning_ms"), ("whole", "total_ms")):
        spreads = group_spreads(rows, column, ["degree"])
        figures.draw_line(axes[0], name, [(at, spreads[d,]) for at, d in enumerate(DEGREES)])
    for name, column in (("printed", "error_percent"), ("by worker", "own_error_percent")):
        spreads = group_spreads(rows, column, ["degree"])
        series = [(at, spreads[d,]) for at, d in enumerate(DEGREES) if d != NOT_DISCRETISED]
        figures.draw_line(axes[1], name, series)
    spreads = group_spreads(rows, "moved_percent", ["degree"])
    figures.draw_line(axes[2], "compact", [(at, spreads[d,]) for at, d in enumerate(DEGREES)])
    for panel, label in zip(
        axes, ("planning time (ms)", "largest error of a load (%)", MOVED_LABEL), strict=True
    ):
        panel.set_xticks(range(len(DEGREES)), named, rotation=40)
        panel.set(xlabel="degree of discretisation R", ylabel=label)
    figures.use_log_axis(axes[0])
    figures.use_log_axis(axes[1])
    axes[2].set_ylim(0, 1.2 * max(value.high for value in spreads.values()))
    axes[0].legend()
    axes[1].legend()
    return figure


def _claims(rows: Rows) -> list[Claim]:
    planning, total = (
        group_spreads(rows, "planning_ms", ["degree"]),
        group_spreads(rows, "total_ms", ["degree"]),
    )
    records = group_spreads(rows, "records", ["degree"])
    printed = group_spreads(rows, "error_percent", ["degree"])
    own = group_spreads(rows, "own_error_percent", ["degree"])
    original = planning[NOT_DISCRETISED,].mean
    faster = {d: original / planning[d,].mean for d in DEGREES[1:]}
    worst = max(value.high for value in printed.values())
    worst_own = max(value.high for value in own.values())
    degrees = list(DEGREES[1:])
    return [
        make_claim(
            "Planning is an order of magnitude faster at R = 8 than on the original keys",
            f"{format_number(faster[8])} times faster on {records[8,]} records than on "
            f"{records[NOT_DISCRETISED,]} keys ({planning[8,]} against "
            f"{planning[NOT_DISCRETISED,]} ms); with grouping and turning back "
            f"{format_number(original / total[8,].mean)} times ({total[8,]} ms)",
            faster[8] >= 8,
            "Planning on the keys themselves is one pass over them and "
            "a sort of what is overloaded: milliseconds where the paper's took six seconds, so "
            "that there is little to save, and grouping costs more than it saves. What records "
            "do save is what workers have to report.",
        ),
        make_claim(
            "The larger R, the faster the plan",
            ", ".join(f"{planning[d,].mean:.2f} ms at {d}" for d in degrees),
            planning[degrees[-1],].mean < planning[degrees[0],].mean,
            "Records hardly get fewer from some degree on.",
        ),
        make_claim(
            "Errors of loads stay within 1 % for R from 1 to 256",
            f"at most {format_number(worst)} % with one running deviation, as printed; "
            f"{format_number(worst_own)} % with one for each worker, as ours",
            worst <= 1,
            "One running deviation evens the sum over all workers, not each "
            f"worker's. With one for each worker the claim holds: {format_number(worst_own)} %.",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="mixed-fig11",
        paper=PAPER,
        title="Compact representation by degree of discretisation",
        shows="planning time, error of loads and state moved, by R",
        cost_note="10 s on 2 cores",
        points=_points,
        run=_measure,
        draw=_draw,
        claims=_claims,
    ),
)
