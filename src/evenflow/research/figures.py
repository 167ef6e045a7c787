"""Figures in one style: lines with their spread over seeds, grouped bars.

Matplotlib is imported only for drawing: Spark tasks that measure do not need it.
"""

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

PANEL_INCHES = (4.6, 3.4)
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
    "svg.fonttype": "none",  # keep text searchable, and files small
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
    """Return a figure and its panels, all of one size."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(
        figsize=(PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows), layout="constrained"
    )
    axes = [figure.add_subplot(rows, columns, index + 1) for index in range(count)]
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
    """Draw the mean over seeds of each algorithm, with the range shaded."""
    spreads = group_spreads(rows, y, [column, x], where)
    for algorithm in algorithms:
        series = sorted((key[1], value) for key, value in spreads.items() if key[0] == algorithm)
        if series:
            draw_line(axes, algorithm, series, spread=spread)


def draw_line(
    axes: "Axes", algorithm: str, series: Sequence[tuple[Any, Spread]], *, spread: bool = True
) -> None:
    """Draw one algorithm."""
    style = plot_style(algorithm)
    xs, means = [x for x, _ in series], [value.mean for _, value in series]
    axes.plot(
        xs,
        means,
        color=style.colour,
        marker=style.marker if len(series) <= 30 else "",
        linestyle=style.line_style,
        linewidth=4.5 if style.ours else 1.5,  # below the others, and wide enough to be seen
        markersize=9 if style.marker == "*" else 5,
        label=style.label,
        zorder=2 if style.ours else 3,
    )
    if spread and any(len(value.values) > 1 for _, value in series):
        low, high = [value.low for _, value in series], [value.high for _, value in series]
        axes.fill_between(xs, low, high, color=style.colour, alpha=0.12, linewidth=0, zorder=1)


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
    """Draw a bar for each algorithm in each group, with whiskers over the range."""
    spreads = group_spreads(rows, y, [column, group], where)
    groups = list(dict.fromkeys(key[1] for key in spreads))
    width = 0.8 / len(algorithms)
    for index, algorithm in enumerate(algorithms):
        style = plot_style(algorithm)
        bars = [(g, spreads[algorithm, name]) for g, name in enumerate(groups)
                if (algorithm, name) in spreads]  # fmt: skip
        means = [value.mean for _, value in bars]
        whiskers = [
            [mean - value.low for mean, (_, value) in zip(means, bars, strict=True)],
            [value.high - mean for mean, (_, value) in zip(means, bars, strict=True)],
        ]
        axes.bar(
            [g + (index - (len(algorithms) - 1) / 2) * width for g, _ in bars],
            means,
            width * 0.92,
            yerr=whiskers,
            color=style.colour,
            edgecolor="black" if style.ours else "none",
            linewidth=1.2 if style.ours else 0,
            ecolor="#444444",
            capsize=2,
            label=style.label,
        )
    axes.set_xticks(range(len(groups)), [str(name) for name in groups])
    axes.grid(visible=False, axis="x")


def draw_legend(figure: "Figure", axes: "Sequence[Axes]", columns: int = 4) -> None:
    """Add one legend below all panels, each label once."""
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
    """Make an axis logarithmic, with plain numbers at its ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(axes, f"set_{axis}scale")("log")
    scaled = getattr(axes, f"{axis}axis")
    low, high = scaled.get_data_interval()
    few = low > 0 and high / low < 100
    scaled.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    scaled.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    )
    scaled.set_minor_formatter(NullFormatter())


def set_axis_minimum(axes: "Axes", bottom: float) -> None:
    """Start the y axis at `bottom`, with some space above the highest line."""
    top = axes.dataLim.y1
    axes.set_ylim(bottom, top + 0.06 * (top - bottom) if top > bottom else None)


SHADES = ("#A1D99B", "#41AB5D", "#238B45", "#00441B", "#000000")  # not used by any algorithm
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
    """Draw one algorithm at up to five values of a parameter, from light to dark."""
    spreads = group_spreads(rows, y, [by, x], where)
    for index, value in enumerate(sorted({key[0] for key in spreads})):
        series = sorted((key[1], spread) for key, spread in spreads.items() if key[0] == value)
        xs = [x_value for x_value, _ in series]
        axes.plot(
            xs,
            [spread.mean for _, spread in series],
            color=SHADES[index],
            marker=MARKERS[index] if len(series) <= 30 else "",
            label=label(value),
            zorder=3,
        )
        low, high = [spread.low for _, spread in series], [spread.high for _, spread in series]
        axes.fill_between(xs, low, high, color=SHADES[index], alpha=0.12, linewidth=0, zorder=1)
