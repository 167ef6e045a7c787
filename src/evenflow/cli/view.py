"""A run while it runs: bars and figures on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from evenflow.cli.tally import Tally

_LINE_SECONDS = 10.0
_BAR = 40


@contextmanager
def view_of(name: str, look: "Callable[[], Tally]", run: Any) -> Iterator[Callable[[], None]]:
    """Give a function that shows how things stand; on stderr, since stdout is for results."""
    if sys.stderr.isatty():
        console = Console(stderr=True)
        with Live(Text(f"{name}: starting"), console=console, refresh_per_second=4) as live:
            yield lambda: live.update(panel(name, look()))
        return
    begun, last = time.monotonic(), [0.0]

    def line() -> None:
        if time.monotonic() - last[0] < _LINE_SECONDS:
            return
        last[0] = time.monotonic()
        print(f"{time.monotonic() - begun:6.0f} s  {sentence(look())}", file=sys.stderr)  # noqa: T201

    yield line


def sentence(tally: "Tally") -> str:
    """Say in one line how things stand."""
    if not tally.loads:
        return "starting"
    loads = tally.recent()
    mean = float(loads.mean())
    return (
        f"batch {max(tally.loads)}, {sum(tally.rows.values()):,} rows, "
        f"{tally.rows_per_second():,.0f} rows/s, {sum(tally.results.values()):,} results, "
        f"imbalance {float(loads.max()) / mean if mean else 1:.2f}"
    )


def panel(name: str, tally: "Tally") -> Group:
    """Draw workers as bars around their mean, with the figures above."""
    loads = tally.recent()
    top, mean = float(loads.max()) or 1.0, float(loads.mean())
    bars = Table(box=None, header_style="dim", pad_edge=False)
    bars.add_column("worker", justify="right")
    bars.add_column("load (CPU seconds a batch)")
    bars.add_column("", justify="right")
    bars.add_column("of mean", justify="right")
    for worker, load in enumerate(loads):
        colour = "red" if mean and load > 1.2 * mean else "green"
        bar = Text("█" * round(_BAR * float(load) / top), style=colour)
        share = f"{float(load) / mean:.2f}" if mean else "-"
        bars.add_row(str(worker), bar, f"{float(load):.3f}", share)
    seconds = tally.seconds.get(max(tally.seconds)) if tally.seconds else None
    last = f", last batch {seconds:.2f} s" if seconds is not None else ""
    return Group(Text(f"{name}: {sentence(tally)}{last}", style="bold"), bars)
