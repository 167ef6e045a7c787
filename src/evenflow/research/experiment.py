"""An experiment: a grid of points, a function that measures one, and claims about the rows.

A point such as {"algorithm": "cor-glb", "load": 0.9, "seed": 0} consists of JSON scalars: it can be
sent to any Spark task, and its JSON text identifies its result. Measuring a point returns tidy
rows. Figures, tables and claims read the rows of all points, with the columns of the points.
"""

import json
import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.research.live_workload import LiveWorkload
from evenflow.research.points import Point, Row, Rows, Scalar, Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure


VERDICTS = ("holds", "does not hold", "not decided")


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a paper, the measured values, and whether it holds.

    why      the reason, unless it holds
    seeds    how many are behind the values; 0: it does not depend on seeds
    decided  whether other seeds would hardly turn it (`decide_claims`)
    """

    text: str
    measured: str
    holds: bool
    why: str = ""
    seeds: int = 0
    decided: bool = True

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        return VERDICTS[1 - int(self.holds)] if self.decided else VERDICTS[2]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure of a paper.

    points         the grid at a scale: small for a laptop, paper for the sizes of the paper
    run            measures a point; pure: the point's seed fixes the result
    draw           draws the figure; None for a table
    markdown       writes the table; None for a figure
    claims         checks the paper's statements against the rows
    live           a point runs streams and needs the whole Spark session
    live_workload  what a point of a live experiment runs on Spark; live_runner provides its `run`
    exact          a point counts many cases itself, so its claims need no seeds
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
    live_workload: Callable[[Point], LiveWorkload] | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class PointResult:
    """The result of a point, as stored: its rows as JSON, or the traceback of its failure."""

    experiment: str
    point: str
    rows: str
    cpu_seconds: float
    error: str = ""


def point_name(point: Point) -> str:
    """Return the JSON text that identifies a point.

    >>> point_name({"seed": 1, "load": 0.5})
    '{"load": 0.5, "seed": 1}'
    """
    return json.dumps(dict(point), sort_keys=True, allow_nan=False)


def measure_point(experiment: Experiment, point: str) -> PointResult:
    """Run one point; an exception becomes the result's `error`, so other points go on."""
    started = time.process_time()
    rows, error = "[]", ""
    try:
        rows = json.dumps([_json_row(row) for row in experiment.run(json.loads(point))])
    except Exception:
        error = traceback.format_exc()
    return PointResult(experiment.id, point, rows, time.process_time() - started, error)


def _json_row(row: Row) -> dict[str, Scalar | None]:
    """Convert NumPy scalars to Python; NaN and infinity become None."""
    return {
        name: _finite_or_none(getattr(value, "item", lambda v=value: v)())
        for name, value in row.items()
    }


def _finite_or_none(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tidy_table(results: list[PointResult]) -> Rows:
    """Return one table of all rows, in order of points, null where a row lacks a column.

    >>> tidy_table([PointResult("e", '{"seed": 0}', '[{"cost": 2}]', 0.1)]).to_pylist()
    [{'seed': 0, 'cost': 2}]
    """
    rows = [
        {**json.loads(result.point), **row} for result in results for row in json.loads(result.rows)
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})
