"""Progress of a run: bars on a terminal, otherwise a status line every 10 s."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evenflow.cli.output import print_progress
from evenflow.display import printable
from evenflow.model import imbalance
from evenflow.model.words import decision_words

if TYPE_CHECKING:
    from evenflow.cli.run_stats import RunStats
    from evenflow.model import Decision

_STATUS_LINE_SECONDS = 10.0
_BAR_WIDTH = 40
_SHOWN_DECISIONS = 4
_SHOWN_WORKERS = 16  # with figures and decisions, 100 x 30 characters hold them


@contextmanager
def live_view(
    name: str, page: str | None, update: "Callable[[], RunStats]"
) -> Iterator[Callable[[], None]]:
    """Yield a function that shows the current figures on stderr."""
    title = printable(f"{name}, {page}" if page else name)
    if sys.stderr.isatty():
        console = Console(stderr=True)
        with Live(Text(f"{title}: starting"), console=console, refresh_per_second=4) as live:
            yield lambda: live.update(status_panel(title, update()))
        return
    started, last_printed, printed_changes = time.monotonic(), 0.0, 0
    print_progress(title)

    def print_lines() -> None:
        nonlocal last_printed, printed_changes
        stats = update()
        for decision in stats.changes_after(printed_changes):
            print_progress(f"         {decision_line(decision)}")
        printed_changes = stats.sums["plans"]
        if time.monotonic() - last_printed >= _STATUS_LINE_SECONDS:
            last_printed = time.monotonic()
            print_progress(f"{last_printed - started:6.0f} s  {status_line(stats)}")

    yield print_lines


def decision_line(decision: "Decision") -> str:
    """Describe a decision in one line."""
    changed = decision.plan is not None
    words = decision_words(decision.trigger, decision.reason, changed=changed)
    return printable(f"batch {decision.batch}: {words}; {decision.message}")


def status_line(stats: "RunStats") -> str:
    """Describe the current figures in one line."""
    if not stats.cpu_seconds:
        return "starting"
    uneven = imbalance(stats.window_loads(), stats.active_workers())
    return (
        f"batch {max(stats.cpu_seconds)}, {stats.sums['rows']:,} rows, "
        f"{stats.rows_per_second():,.0f} rows/s, {sum(stats.result_rows.values()):,} results, "
        f"{stats.sums['moves']:,} moves, imbalance {uneven:.2f}"
    )


def status_panel(title: str, stats: "RunStats") -> Group:
    """Draw the loads of workers as bars, busiest first, with figures and the last decisions."""
    loads, active = stats.window_loads(), stats.active_workers()
    top = float(loads.max()) or 1.0
    mean = float(loads[list(active)].mean()) if len(active) else 0.0
    order = sorted(range(len(loads)), key=lambda worker: (-float(loads[worker]), worker))
    bars = Table(box=None, header_style="dim", pad_edge=False)
    bars.add_column("worker", justify="right")
    bars.add_column("load (CPU seconds per batch)", min_width=_BAR_WIDTH)
    bars.add_column("", justify="right")
    bars.add_column("of mean", justify="right")
    for worker in order[:_SHOWN_WORKERS]:
        load = float(loads[worker])
        colour = "red" if mean and load > 1.2 * mean else "green"
        bar = Text("█" * round(_BAR_WIDTH * load / top), style=colour)
        share = ("drained" if worker not in active else f"{load / mean:.2f}") if mean else "-"
        bars.add_row(str(worker), bar, f"{load:.3f}", share)
    if rest := order[_SHOWN_WORKERS:]:
        least, most = (float(loads[rest].min()), float(loads[rest].max()))
        bars.add_row("", Text(f"{len(rest)} more: {least:.3f} to {most:.3f}", style="dim"), "", "")
    seconds = stats.batch_seconds.get(max(stats.batch_seconds)) if stats.batch_seconds else None
    last = f", last batch {seconds:.2f} s" if seconds is not None else ""
    shown = [
        Text(decision_line(d), style="cyan", no_wrap=True, overflow="ellipsis")
        for d in list(stats.plan_changes.values())[-_SHOWN_DECISIONS:]
    ]
    if stats.last_decision is not None and stats.last_decision.plan is None:
        line = decision_line(stats.last_decision)
        shown.append(Text(line, style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(Text(title, style="bold"), Text(f"{status_line(stats)}{last}"), bars, *shown)
