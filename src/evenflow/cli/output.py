"""Output of commands: results on stdout, errors and progress on stderr."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenflow.display import printable

if TYPE_CHECKING:
    from evenflow.model import Verdict

_stderr = Console(stderr=True, highlight=False, soft_wrap=True)
Columns = Mapping[str, Callable[[Any], str]]


@contextlib.contextmanager
def quiet_stdout() -> Iterator[None]:
    """Redirect stdout of native libraries to stderr, so that stdout has only results."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def safe(text: object) -> str:
    """Return a text for a rich console: neither markup nor control characters take effect."""
    return escape(printable(text))


def print_error(message: str) -> None:
    """Print an error as one line on stderr."""
    _stderr.print(f"[bold red]error:[/] {safe(' '.join(message.split()))}")


def print_progress(text: str) -> None:
    """Print a line about progress on stderr."""
    print(printable(text), file=sys.stderr, flush=True)  # noqa: T201


def print_json(result: Mapping[str, Any]) -> None:
    """Print one object, in strict JSON."""
    print(json.dumps(result, allow_nan=False))  # noqa: T201


def verdicts_to_json(verdicts: "Iterable[Verdict]") -> list[dict[str, Any]]:
    """Return verdicts as plain values."""
    return [asdict(verdict) for verdict in verdicts]


def format_figures(figures: Mapping[str, object]) -> dict[str, str]:
    """Format named values for `print_result`.

    >>> format_figures({"moved_keys": 3, "plan_seconds": 0.12345, "feasible": True})
    {'moved keys': '3', 'plan seconds': '0.1235', 'feasible': 'yes'}
    """
    return {name.replace("_", " "): _format_figure(value) for name, value in figures.items()}


def _format_figure(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def format_bytes(value: float) -> str:
    """Format a number of bytes.

    >>> format_bytes(950), format_bytes(1_234_000)
    ('950 B', '1.2 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


# Figures of a balance, their names with units, and how many digits they are worth.
_FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "imbalance": ("busiest worker, times the mean", "{:.3f}".format),
    "mean_imbalance": ("busiest worker, times the mean", "{:.3f}".format),
    "worst_imbalance": ("in the worst batch, times the mean", "{:.3f}".format),
    "max_load": ("busiest worker, CPU seconds per batch", "{:,.3f}".format),
    "busiest_worker_seconds": ("busiest worker, CPU seconds per batch", "{:,.3f}".format),
    "mean_load": ("mean worker, CPU seconds per batch", "{:,.3f}".format),
    "mean_worker_seconds": ("mean worker, CPU seconds per batch", "{:,.3f}".format),
    "deviation": ("variation over time, CPU seconds", "{:,.3f}".format),
    "correlation": ("correlation of the workers, -1 to 1", "{:+.2f}".format),
    "shipped_bytes": ("streams shipped to whole queries, per batch", format_bytes),
    "all_shipped_bytes": ("streams shipped per batch", format_bytes),
    "plans": ("plan changes", "{:,}".format),
    "moves": ("moves", "{:,}".format),
    "moved_bytes": ("state moved", format_bytes),
}


def print_balance(title: str, sides: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Print figures of a balance side by side, such as before and predicted."""
    shown = {name: figures for name, figures in sides.items() if figures}
    rows = [
        (label, *(form(side[name]) if name in side else "" for side in shown.values()))
        for name, (label, form) in _FIGURES.items()
        if any(name in side for side in shown.values())
        and (name != "shipped_bytes" or any(side.get(name) for side in shown.values()))
    ]
    print_rows((title, *shown), rows, numbers=range(1, len(shown) + 1))


def print_verdicts(messages: Iterable[str]) -> None:
    """Print goals that cannot be reached."""
    for message in messages:
        Console().print(f"[yellow]limit[/]: {safe(message)}", highlight=False)


def print_result(title: str, rows: Mapping[str, str], verdicts: "Iterable[Verdict]") -> None:
    """Print named values as a small table, and the verdicts below it."""
    table = Table(title=safe(title), show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(safe(name), safe(value))
    Console().print(table)
    print_verdicts(verdict.message for verdict in verdicts)


def print_items(items: Iterable[Any], columns: Columns, numbers: Iterable[int] = ()) -> None:
    """Print one row per item; a column is a head and a function that formats its cell."""
    print_rows(columns, [tuple(cell(item) for cell in columns.values()) for item in items], numbers)


def print_rows(
    heads: Iterable[str],
    rows: Iterable[tuple[str, ...]],
    numbers: Iterable[int] = (),
    *,
    show_heads: bool = True,
) -> None:
    """Print a table without a frame; columns with the indices `numbers` are aligned right."""
    right = set(numbers)
    table = Table(box=None, header_style="dim", pad_edge=False, show_header=show_heads)
    for index, head in enumerate(heads):
        table.add_column(safe(head), justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(safe(cell) for cell in row))
    Console(highlight=False).print(table)


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


def count_of(count: int, plural: str) -> str:
    """Return a number of things in words.

    >>> count_of(1, "queries"), count_of(1, "sources"), count_of(2, "sources")
    ('1 query', '1 source', '2 sources')
    """
    singular = plural.removesuffix("ies") + "y" if plural.endswith("ies") else plural.rstrip("s")
    return f"{count:,} {singular if count == 1 else plural}"
