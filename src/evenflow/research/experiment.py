"""What an experiment is: a grid of points, a pure function that measures one, and its reading.

A point is a configuration with an algorithm and a seed, in JSON scalars, so that it can travel to
any Spark task and name its own result. Measuring a point gives tidy rows; all rows of a grid, each
with the columns of its point, are what is drawn, tabulated and judged.
"""

import json
import math
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from evenflow.research.live_workload import LiveWorkload

Scale = Literal["small", "paper"]
SCALES: tuple[Scale, ...] = ("small", "paper")
Scalar = bool | int | float | str
Point = Mapping[str, Scalar]
Row = Mapping[str, Scalar | None]
Rows: TypeAlias = pa.Table  # point columns and measured columns


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a paper, what was measured, and whether it holds; `why` where it does not."""

    text: str
    measured: str
    holds: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure of a paper.

    points   the grid at a scale: small for a desk, paper for the paper's own sizes
    run      measures a point; pure, and repeated exactly by the point's seed
    draw     the figure; None for a table
    markdown  the same as Markdown, for tables
    claims   what the paper says about it, judged by the rows
    live     its points run streams: each needs the whole Spark session
    live_workload  of a live experiment, what a point runs on Spark, measured batch by batch; its `run`
             comes from evenflow.research.live_runner
    """

    id: str
    paper: str
    title: str
    shows: str
    cost_note: str
    points: Callable[[Scale], list[Point]]
    run: Callable[[Point], list[Row]]
    claims: Callable[[Rows], list[Claim]]
    draw: "Callable[[Rows], Figure] | None" = None
    markdown: Callable[[Rows], str] | None = None
    live: bool = False
    live_workload: "Callable[[Point], LiveWorkload] | None" = None


@dataclass(frozen=True, slots=True)
class PointResult:
    """A point and what measuring it gave: rows, or the error that ended it."""

    experiment: str
    point: str
    rows: str
    cpu_seconds: float
    error: str = ""


def point_name(point: Point) -> str:
    """Return the text that stands for a point.

    >>> point_name({"seed": 1, "load": 0.5})
    '{"load": 0.5, "seed": 1}'
    """
    return json.dumps(dict(point), sort_keys=True, allow_nan=False)


def measure_point(experiment: Experiment, point: str) -> PointResult:
    """Run one point; its failure is a value, so that it costs no other point."""
    begun = time.process_time()
    rows, error = "[]", ""
    try:
        rows = json.dumps([_json_row(row) for row in experiment.run(json.loads(point))])
    except Exception:
        error = traceback.format_exc()
    return PointResult(experiment.id, point, rows, time.process_time() - begun, error)


def _json_row(row: Row) -> dict[str, Scalar | None]:
    """Turn NumPy's scalars into Python's; what is not a number becomes None."""
    return {
        name: _finite_or_none(getattr(value, "item", lambda v=value: v)())
        for name, value in row.items()
    }


def _finite_or_none(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tidy_table(outcomes: list[PointResult]) -> Rows:
    """Return one table of all rows, in order of points; a column that a row lacks is null there.

    >>> tidy_table([PointResult("e", '{"seed": 0}', '[{"cost": 2}]', 0.1)]).to_pylist()
    [{'seed': 0, 'cost': 2}]
    """
    found = [
        {**json.loads(outcome.point), **row}
        for outcome in outcomes
        for row in json.loads(outcome.rows)
    ]
    names = list(dict.fromkeys(name for row in found for name in row))
    return pa.table({name: pa.array([row.get(name) for row in found]) for name in names})
