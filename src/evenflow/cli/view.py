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
    from evenflow.cli.tally import Tally
    from evenflow.model import Decision

_LINE_SECONDS = 10.0
_BAR = 40
_DECISIONS = 4


@contextmanager
def view_of(
    name: str, page: str | None, look: "Callable[[], Tally]"
) -> Iterator[Callable[[], None]]:
    """Give a function that shows how things stand; on stderr, since stdout is for results."""
    title = f"{name}, {page}" if page else name
    if sys.stderr.isatty():
        console = Console(stderr=True)
        with Live(Text(f"{title}: starting"), console=console, refresh_per_second=4) as live:
            yield lambda: live.update(panel(title, look()))
        return
    begun, last, told = time.monotonic(), [0.0], [0]
    say(title)

    def line() -> None:
        tally = look()
        for decision in list(tally.adopted.values())[told[0] :]:
            say(f"         {said(decision)}")
        told[0] = len(tally.adopted)
        if time.monotonic() - last[0] >= _LINE_SECONDS:
            last[0] = time.monotonic()
            say(f"{time.monotonic() - begun:6.0f} s  {sentence(tally)}")

    yield line


def say(text: str) -> None:
    """Tell the person who waits, on stderr."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def said(decision: "Decision") -> str:
    """Say in one line what was decided."""
    return f"batch {decision.batch}: {decision.reason} ({decision.trigger}), {decision.message}"


def sentence(tally: "Tally") -> str:
    """Say in one line how things stand."""
    if not tally.cpu:
        return "starting"
    moves = sum(len(decision.moves) for decision in tally.adopted.values())
    return (
        f"batch {max(tally.cpu)}, {sum(tally.rows.values()):,} rows, "
        f"{tally.rows_per_second():,.0f} rows/s, {sum(tally.results.values()):,} results, "
        f"{moves:,} moves, imbalance {imbalance(tally.recent()):.2f}"
    )


def panel(title: str, tally: "Tally") -> Group:
    """Draw workers as bars, with the figures above and the last decisions below."""
    loads = tally.recent()
    top, mean = float(loads.max()) or 1.0, float(loads.mean())
    bars = Table(box=None, header_style="dim", pad_edge=False)
    bars.add_column("worker", justify="right")
    bars.add_column("load (CPU seconds a batch)", min_width=_BAR)
    bars.add_column("", justify="right")
    bars.add_column("of mean", justify="right")
    for worker, load in enumerate(loads):
        colour = "red" if mean and load > 1.2 * mean else "green"
        bar = Text("█" * round(_BAR * float(load) / top), style=colour)
        share = f"{float(load) / mean:.2f}" if mean else "-"
        bars.add_row(str(worker), bar, f"{float(load):.3f}", share)
    seconds = tally.seconds.get(max(tally.seconds)) if tally.seconds else None
    last = f", last batch {seconds:.2f} s" if seconds is not None else ""
    shown = [Text(said(d), style="cyan") for d in list(tally.adopted.values())[-_DECISIONS:]]
    if tally.last is not None and tally.last.plan is None:
        shown.append(Text(said(tally.last), style="dim"))
    return Group(Text(title, style="bold"), Text(f"{sentence(tally)}{last}"), bars, *shown)
