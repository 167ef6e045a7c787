"""A run while it runs: bars and figures on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evenflow.model import imbalance

if TYPE_CHECKING:
    from evenflow.cli.run_stats import RunStats
    from evenflow.model import Decision

_STATUS_LINE_SECONDS = 10.0
_BAR_WIDTH = 40
_SHOWN_DECISIONS = 4


@contextmanager
def live_view(
    name: str, page: str | None, look: "Callable[[], RunStats]"
) -> Iterator[Callable[[], None]]:
    """Give a function that shows how things stand; on stderr, since stdout is for results."""
    title = f"{name}, {page}" if page else name
    if sys.stderr.isatty():
        console = Console(stderr=True)
        with Live(Text(f"{title}: starting"), console=console, refresh_per_second=4) as live:
            yield lambda: live.update(status_panel(title, look()))
        return
    begun, last, told = time.monotonic(), [0.0], [0]
    print_progress(title)

    def line() -> None:
        tally = look()
        for decision in list(tally.plan_changes.values())[told[0] :]:
            print_progress(f"         {decision_line(decision)}")
        told[0] = len(tally.plan_changes)
        if time.monotonic() - last[0] >= _STATUS_LINE_SECONDS:
            last[0] = time.monotonic()
            print_progress(f"{time.monotonic() - begun:6.0f} s  {status_line(tally)}")

    yield line


def print_progress(text: str) -> None:
    """Tell the person who waits, on stderr."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def decision_line(decision: "Decision") -> str:
    """Say in one line what was decided."""
    return f"batch {decision.batch}: {decision.reason} ({decision.trigger}), {decision.message}"


def status_line(tally: "RunStats") -> str:
    """Say in one line how things stand."""
    if not tally.cpu_seconds:
        return "starting"
    moves = sum(len(decision.moves) for decision in tally.plan_changes.values())
    return (
        f"batch {max(tally.cpu_seconds)}, {sum(tally.rows.values()):,} rows, "
        f"{tally.rows_per_second():,.0f} rows/s, {sum(tally.result_rows.values()):,} results, "
        f"{moves:,} moves, imbalance {imbalance(tally.window_loads()):.2f}"
    )


def status_panel(title: str, tally: "RunStats") -> Group:
    """Draw workers as bars, with the figures above and the last decisions below."""
    loads = tally.window_loads()
    top, mean = float(loads.max()) or 1.0, float(loads.mean())
    bars = Table(box=None, header_style="dim", pad_edge=False)
    bars.add_column("worker", justify="right")
    bars.add_column("load (CPU seconds a batch)", min_width=_BAR_WIDTH)
    bars.add_column("", justify="right")
    bars.add_column("of mean", justify="right")
    for worker, load in enumerate(loads):
        colour = "red" if mean and load > 1.2 * mean else "green"
        bar = Text("█" * round(_BAR_WIDTH * float(load) / top), style=colour)
        share = f"{float(load) / mean:.2f}" if mean else "-"
        bars.add_row(str(worker), bar, f"{float(load):.3f}", share)
    seconds = tally.batch_seconds.get(max(tally.batch_seconds)) if tally.batch_seconds else None
    last = f", last batch {seconds:.2f} s" if seconds is not None else ""
    shown = [
        Text(decision_line(d), style="cyan")
        for d in list(tally.plan_changes.values())[-_SHOWN_DECISIONS:]
    ]
    if tally.last_decision is not None and tally.last_decision.plan is None:
        shown.append(Text(decision_line(tally.last_decision), style="dim"))
    return Group(Text(title, style="bold"), Text(f"{status_line(tally)}{last}"), bars, *shown)
