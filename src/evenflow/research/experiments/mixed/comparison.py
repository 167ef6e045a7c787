"""Shared by figures 8 to 10 and 12: planning time, moved state and balance of planners."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenflow.research import figures
from evenflow.research.experiment import Claim
from evenflow.research.experiments.mixed.closed_loop import MOVED_LABEL, PLANNING_LABEL, WINDOWS
from evenflow.research.points import Rows
from evenflow.research.seed_statistics import (
    Spread,
    columns_equal,
    format_number,
    group_spreads,
    make_claim,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANNERS = ("mixed", "mintable", "cover")
MEASURES = (  # column, label, minimum of the axis: None for a logarithmic one
    ("milliseconds", PLANNING_LABEL, None),
    ("moved_percent", MOVED_LABEL, 0.0),
    ("max_over_mean", "fullest worker after it (means)", 1.0),
)
SpreadByKey = dict[tuple[Any, ...], Spread]


def draw_loop(
    rows: Rows, x: str, label: str, planners: Sequence[str], *, log: bool = False
) -> "Figure":
    """Draw planning time, moved state and the balance reached, a row of panels for each window."""
    windows = sorted({row["window"] for row in rows.to_pylist()})
    figure, axes = figures.make_panels(len(MEASURES) * len(windows))
    cells = [(window, *measure) for window in windows for measure in MEASURES]
    for panel, (window, y, name, bottom) in zip(axes, cells, strict=True):
        figures.draw_lines(panel, rows, x, y, planners, where=columns_equal(window=window))
        panel.set(xlabel=label, ylabel=name, title=f"window {window}")
        if log:
            figures.use_log_axis(panel, "x")
        if bottom is None:
            figures.use_log_axis(panel)
        else:
            figures.set_axis_minimum(panel, bottom)
    figures.draw_legend(figure, axes, columns=len(planners))
    return figure


def moved_state_spreads(rows: Rows, x: str) -> SpreadByKey:
    """Return the state moved by algorithm, window and place on the axis."""
    return group_spreads(rows, "moved_percent", ["algorithm", "window", x])


def moved_state_ratios(
    spreads: SpreadByKey, first: str, second: str, window: int
) -> dict[Any, float]:
    """Return the moved state of the first over the second planner, by place on the axis."""
    return {
        at: value.mean / spreads[second, w, at].mean
        for (name, w, at), value in spreads.items()
        if name == first and w == window and spreads[second, w, at].mean
    }


def format_values(values: dict[Any, float], unit: str = "") -> str:
    """Write numbers with their places.

    >>> format_values({10: 2.5, 5: 1.0}, " %")
    '1 % at 5, 2.5 % at 10'
    """
    return ", ".join(
        f"{format_number(value)}{unit} at {at:,}" for at, value in sorted(values.items())
    )


def claim_cheaper(rows: Rows, x: str, claim: str, at: Sequence[Any], factor: float = 1.0) -> Claim:
    """Check that MinTable moves more than `factor` times the state of Mixed at these places."""
    spreads = moved_state_spreads(rows, x)
    ratios = {w: moved_state_ratios(spreads, "mintable", "mixed", w) for w in WINDOWS}
    ours = [
        ratio
        for w in WINDOWS
        for place, ratio in moved_state_ratios(spreads, "cover", "mixed", w).items()
        if place in at
    ]
    return make_claim(
        claim,
        "MinTable over Mixed, "
        + "; ".join(f"window {w}: {format_values(values)}" for w, values in ratios.items())
        + f". Judged at {', '.join(f'{place:,}' for place in at)}; there cover moves "
        f"{Spread(tuple(ours))} times what Mixed moves",
        all(values.get(place, 0) > factor for values in ratios.values() for place in at),
    )


def claim_cheaper_with_window(rows: Rows, x: str, at: Sequence[Any]) -> Claim:
    """Check that a larger window makes plans cheaper."""
    spreads = moved_state_spreads(rows, x)
    share = [
        spreads["mixed", 5, place].mean / spreads["mixed", 1, place].mean
        for place in at
        if spreads["mixed", 1, place].mean
    ]
    return make_claim(
        "A larger window makes Mixed's plans cheaper",
        f"window 5 over window 1: {format_number(min(share))} to {format_number(max(share))}",
        max(share) < 1,
    )
