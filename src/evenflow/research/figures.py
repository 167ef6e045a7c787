"""Figures in one legible style: lines with their spread over seeds, grouped bars.

Matplotlib is imported when something is drawn: Spark tasks that only measure do without it.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.research.plot_styles import plot_style
from evenflow.research.points import Rows
from evenflow.research.seed_statistics import Spread, group_spreads

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_INCHES = (4.6, 3.4)  # inches
DPI = 110
STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.markersize": 5,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",  # text stays text: smaller, and can be searched
    "font.family": "sans-serif",
    "svg.hashsalt": "evenflow",
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw in Evenflow's style."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield


def make_panels(count: int, columns: int = 3) -> "tuple[Figure, list[Axes]]":
    """Return a figure of equal panels, and these."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    lines_ = -(-count // columns)
    figure = Figure(
        figsize=(PANEL_INCHES[0] * columns, PANEL_INCHES[1] * lines_), layout="constrained"
    )
    axes = [figure.add_subplot(lines_, columns, at + 1) for at in range(count)]
    return figure, axes


def save_figure(figure: "Figure", folder: Path, name: str) -> tuple[str, str]:
    """Write PNG and SVG; return their file names."""
    with figure_style():
        figure.savefig(folder / f"{name}.png", dpi=DPI)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    return f"{name}.png", f"{name}.svg"


def draw_lines(
    axes: "Axes",
    rows: Rows,
    x: str,
    y: str,
    algorithms: Sequence[str],
    *,
    column: str = "algorithm",
    where: Callable[[dict[str, Any]], bool] | None = None,
    spread: bool = True,
) -> None:
    """Draw the mean over seeds of each algorithm, least to greatest shaded."""
    found = group_spreads(rows, y, [column, x], where)
    for algorithm in algorithms:
        series = sorted((key[1], value) for key, value in found.items() if key[0] == algorithm)
        if series:
            draw_line(axes, algorithm, series, spread=spread)


def draw_line(
    axes: "Axes", algorithm: str, series: Sequence[tuple[Any, Spread]], *, spread: bool = True
) -> None:
    """Draw one algorithm."""
    shown = plot_style(algorithm)
    at, means = [x for x, _ in series], [value.mean for _, value in series]
    axes.plot(
        at,
        means,
        color=shown.colour,
        marker=shown.marker if len(series) <= 30 else "",
        linestyle=shown.line_style,
        linewidth=2.6 if shown.ours else 1.5,
        markersize=9 if shown.marker == "*" else 5,
        label=shown.label,
        zorder=4 if shown.ours else 3,
    )
    if spread and any(len(value.values) > 1 for _, value in series):
        low, high = [value.low for _, value in series], [value.high for _, value in series]
        axes.fill_between(at, low, high, color=shown.colour, alpha=0.12, linewidth=0, zorder=1)


def draw_bars(
    axes: "Axes",
    rows: Rows,
    group: str,
    y: str,
    algorithms: Sequence[str],
    *,
    column: str = "algorithm",
    where: Callable[[dict[str, Any]], bool] | None = None,
) -> None:
    """Draw a bar for each algorithm in each group, with a whisker from least to greatest."""
    found = group_spreads(rows, y, [column, group], where)
    groups = list(dict.fromkeys(key[1] for key in found))
    width = 0.8 / len(algorithms)
    for at, algorithm in enumerate(algorithms):
        shown = plot_style(algorithm)
        here = [(g, found[algorithm, name]) for g, name in enumerate(groups)
                if (algorithm, name) in found]  # fmt: skip
        means = [value.mean for _, value in here]
        whiskers = [
            [mean - value.low for mean, (_, value) in zip(means, here, strict=True)],
            [value.high - mean for mean, (_, value) in zip(means, here, strict=True)],
        ]
        axes.bar(
            [g + (at - (len(algorithms) - 1) / 2) * width for g, _ in here],
            means,
            width * 0.92,
            yerr=whiskers,
            color=shown.colour,
            edgecolor="black" if shown.ours else "none",
            linewidth=1.2 if shown.ours else 0,
            ecolor="#444444",
            capsize=2,
            label=shown.label,
        )
    axes.set_xticks(range(len(groups)), [str(name) for name in groups])
    axes.grid(visible=False, axis="x")


def draw_legend(figure: "Figure", axes: "Sequence[Axes]", columns: int = 4) -> None:
    """Put one legend below all panels, each name once."""
    handles: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=min(columns, len(handles)),
    )


def use_log_axis(axes: "Axes", axis: str = "y") -> None:
    """Make an axis logarithmic, its ticks written as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(axes, f"set_{axis}scale")("log")
    chosen = getattr(axes, f"{axis}axis")
    low, high = chosen.get_data_interval()
    few = low > 0 and high / low < 100
    chosen.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    chosen.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    )
    chosen.set_minor_formatter(NullFormatter())


def running_mean(series: Sequence[tuple[float, Spread]], width: int) -> list[tuple[float, Spread]]:
    """Return running means of a series that would else be too ragged to read."""
    result = []
    for at, (x, _) in enumerate(series):
        near = [value.mean for _, value in series[max(at - width + 1, 0) : at + 1]]
        result.append((x, Spread((statistics.fmean(near),))))
    return result


def set_axis_minimum(axes: "Axes", bottom: float) -> None:
    """Let the vertical axis begin there, with some air above the highest line."""
    top = axes.dataLim.y1
    axes.set_ylim(bottom, top + 0.06 * (top - bottom) if top > bottom else None)


SHADES = ("#A1D99B", "#41AB5D", "#238B45", "#00441B", "#000000")  # no algorithm's own colour
MARKERS = "osD^v"


def draw_shaded_lines(
    axes: "Axes",
    rows: Rows,
    x: str,
    y: str,
    by: str,
    label: Callable[[Any], str],
    *,
    where: Callable[[dict[str, Any]], bool] | None = None,
) -> None:
    """Draw one algorithm at several values of a parameter, at most five, from light to dark."""
    found = group_spreads(rows, y, [by, x], where)
    for at, value in enumerate(sorted({key[0] for key in found})):
        series = sorted((key[1], spread) for key, spread in found.items() if key[0] == value)
        places = [place for place, _ in series]
        axes.plot(
            places,
            [spread.mean for _, spread in series],
            color=SHADES[at],
            marker=MARKERS[at] if len(series) <= 30 else "",
            label=label(value),
            zorder=3,
        )
        low, high = [spread.low for _, spread in series], [spread.high for _, spread in series]
        axes.fill_between(places, low, high, color=SHADES[at], alpha=0.12, linewidth=0, zorder=1)
