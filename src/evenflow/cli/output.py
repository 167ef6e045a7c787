"""What people and machines see: results on stdout, everything else on stderr."""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from evenflow.model import Verdict

_stderr = Console(stderr=True, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def quiet_stdout() -> Iterator[None]:
    """Send what native libraries print meanwhile to stderr: stdout is for results alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def print_error(message: str) -> None:
    """Print one line that says what is wrong."""
    _stderr.print(f"[bold red]error:[/] {escape(' '.join(message.split()))}")


def print_json(result: Mapping[str, Any]) -> None:
    """Print one object, in strict JSON."""
    print(json.dumps(result, allow_nan=False))  # noqa: T201


def verdicts_to_json(verdicts: "Iterable[Verdict]") -> list[dict[str, Any]]:
    """Return verdicts as plain values."""
    return [asdict(verdict) for verdict in verdicts]


def print_result(title: str, rows: Mapping[str, str], verdicts: "Iterable[Verdict]") -> None:
    """Print named values as a small table, and what could not be had below it."""
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    console = Console()
    console.print(table)
    for verdict in verdicts:
        console.print(f"[yellow]{verdict.code}[/]: {escape(verdict.message)}", highlight=False)


def print_loads(loads: Iterable[float], bound: float, width: int = 40) -> None:
    """Draw the load of every worker as a bar; red where it exceeds the bound."""
    values = list(loads)
    mean = sum(values) / len(values) if values else 0.0
    top = max([*values, bound]) or 1.0
    table = Table(show_header=True, header_style="dim", box=None)
    table.add_column("worker", justify="right")
    table.add_column(f"load (| bound {bound:,.4g})")
    table.add_column("of mean", justify="right")
    mark = round(width * bound / top)
    for worker, value in enumerate(values):
        filled = round(width * value / top)
        colour = "red" if value > bound * (1 + 1e-9) else "green"
        cells = ["█" if cell < filled else " " for cell in range(width + 1)]
        bar = f"[{colour}]{''.join(cells[:mark])}[/]|[{colour}]{''.join(cells[mark:]).rstrip()}[/]"
        table.add_row(str(worker), bar, f"{value / mean:.3f}" if mean else "-")
    Console().print(table)
