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

    from evenflow.experiments.play import Play

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
    tables   the same as Markdown, for tables
    claims   what the paper says about it, judged by the rows
    live     its points run streams: each needs the whole Spark session
    play     of a live experiment, what a point runs on Spark, measured batch by batch; its `run`
             comes from evenflow.spark.playing
    """

    id: str
    paper: str
    title: str
    shows: str
    cost: str
    points: Callable[[Scale], list[Point]]
    run: Callable[[Point], list[Row]]
    claims: Callable[[Rows], list[Claim]]
    draw: "Callable[[Rows], Figure] | None" = None
    tables: Callable[[Rows], str] | None = None
    live: bool = False
    play: "Callable[[Point], Play] | None" = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A point and what measuring it gave: rows, or the error that ended it."""

    experiment: str
    point: str
    rows: str
    cpu_seconds: float
    error: str = ""


def name_of(point: Point) -> str:
    """Return the text that stands for a point.

    >>> name_of({"seed": 1, "load": 0.5})
    '{"load": 0.5, "seed": 1}'
    """
    return json.dumps(dict(point), sort_keys=True, allow_nan=False)


def measure(experiment: Experiment, point: str) -> Outcome:
    """Run one point; its failure is a value, so that it costs no other point."""
    begun = time.process_time()
    rows, error = "[]", ""
    try:
        rows = json.dumps([_plain(row) for row in experiment.run(json.loads(point))])
    except Exception:
        error = traceback.format_exc()
    return Outcome(experiment.id, point, rows, time.process_time() - begun, error)


def _plain(row: Row) -> dict[str, Scalar | None]:
    """Turn NumPy's scalars into Python's; what is not a number becomes None."""
    return {
        name: _scalar(getattr(value, "item", lambda v=value: v)()) for name, value in row.items()
    }


def _scalar(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tidy(outcomes: list[Outcome]) -> Rows:
    """Return one table of all rows, in order of points; a column that a row lacks is null there.

    >>> tidy([Outcome("e", '{"seed": 0}', '[{"cost": 2}]', 0.1)]).to_pylist()
    [{'seed': 0, 'cost': 2}]
    """
    found = [
        {**json.loads(outcome.point), **row}
        for outcome in outcomes
        for row in json.loads(outcome.rows)
    ]
    names = list(dict.fromkeys(name for row in found for name in row))
    return pa.table({name: pa.array([row.get(name) for row in found]) for name in names})
