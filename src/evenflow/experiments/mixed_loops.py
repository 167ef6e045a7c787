"""What figures 8 to 10 and 12 share: time, state moved and balance, Mixed beside MinTable."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenflow.experiments import drawing
from evenflow.experiments.experiment import Claim, Rows
from evenflow.experiments.measures import Spread, judged, only, short, spreads
from evenflow.experiments.mixed import MOVED, PLANNING, WINDOWS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANNERS = ("mixed", "mintable", "cover")
MEASURES = (  # column, label, and where its axis begins: None for a logarithmic one
    ("milliseconds", PLANNING, None),
    ("moved_percent", MOVED, 0.0),
    ("max_over_mean", "fullest worker after it (means)", 1.0),
)
Found = dict[tuple[Any, ...], Spread]


def draw_loop(
    rows: Rows, x: str, label: str, planners: Sequence[str], *, log: bool = False
) -> "Figure":
    """Draw planning time, moved state and the balance reached, a row of panels for each window."""
    windows = sorted({row["window"] for row in rows.to_pylist()})
    figure, axes = drawing.panels(len(MEASURES) * len(windows))
    cells = [(window, *measure) for window in windows for measure in MEASURES]
    for panel, (window, y, name, bottom) in zip(axes, cells, strict=True):
        drawing.lines(panel, rows, x, y, planners, where=only(window=window))
        panel.set(xlabel=label, ylabel=name, title=f"window {window}")
        if log:
            drawing.plain_log(panel, "x")
        if bottom is None:
            drawing.plain_log(panel)
        else:
            drawing.floor(panel, bottom)
    drawing.legend(figure, axes, columns=len(planners))
    return figure


def moved(rows: Rows, x: str) -> Found:
    """Return the state moved by algorithm, window and place on the axis."""
    return spreads(rows, "moved_percent", ["algorithm", "window", x])


def compared(found: Found, first: str, second: str, window: int) -> dict[Any, float]:
    """Return how many times more state the first moves, by place on the axis."""
    return {
        at: value.mean / found[second, w, at].mean
        for (name, w, at), value in found.items()
        if name == first and w == window and found[second, w, at].mean
    }


def told(values: dict[Any, float], unit: str = "") -> str:
    """Write numbers with their places.

    >>> told({10: 2.5, 5: 1.0}, " %")
    '1 % at 5, 2.5 % at 10'
    """
    return ", ".join(f"{short(value)}{unit} at {at:,}" for at, value in sorted(values.items()))


def cheaper(rows: Rows, x: str, claim: str, at: Sequence[Any], factor: float = 1.0) -> Claim:
    """Judge whether MinTable moves more than `factor` times what Mixed moves at these places."""
    found = moved(rows, x)
    ratios = {w: compared(found, "mintable", "mixed", w) for w in WINDOWS}
    ours = [ratio for w in WINDOWS for place, ratio in compared(found, "cover", "mixed", w).items()
            if place in at]  # fmt: skip
    return judged(
        claim,
        "MinTable over Mixed, "
        + "; ".join(f"window {w}: {told(mine)}" for w, mine in ratios.items())
        + f". Judged at {', '.join(f'{place:,}' for place in at)}; there cover moves "
        f"{Spread(tuple(ours))} times what Mixed moves",
        all(mine.get(place, 0) > factor for mine in ratios.values() for place in at),
    )


def less_with_window(rows: Rows, x: str, at: Sequence[Any]) -> Claim:
    """Judge whether plans get cheaper with more history to choose from."""
    found = moved(rows, x)
    share = [
        found["mixed", 5, place].mean / found["mixed", 1, place].mean
        for place in at
        if found["mixed", 1, place].mean
    ]
    return judged(
        "A larger window makes Mixed's plans cheaper",
        f"window 5 over window 1: {short(min(share))} to {short(max(share))}",
        max(share) < 1,
    )
