"""The summary of a finished run: as JSON, and as a table."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from evenflow.cli.output import safe
from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS
from evenflow.model.words import reason_words

if TYPE_CHECKING:
    from evenflow.cli.run_stats import RunStats
    from evenflow.spark.run import Run
    from evenflow.spec import CheckedSpec

# Degraded: a query was quarantined or a sink is behind. Failed: the stream failed.
EXIT_OK, EXIT_DEGRADED, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 5, 130


def run_summary(
    checked: "CheckedSpec",
    run: "Run",
    stats: "RunStats",
    failure: str | None,
    *,
    interrupted: bool,
) -> dict[str, Any]:
    """Return the figures of a finished run; the fields of `evenflow run --json`."""
    quarantined = {
        name: printable(reason, MAX_ERROR_CHARACTERS) for name, reason in run.quarantined.items()
    }
    code = EXIT_OK
    if quarantined or run.sinks.errors:
        code = EXIT_DEGRADED
    if interrupted:
        code = EXIT_INTERRUPTED
    if failure is not None:
        code = EXIT_FAILED
    return {
        "name": checked.spec.name,
        "exit_code": code,
        "failure": failure,
        "workers": checked.spec.workers,
        **stats.to_json(),
        "results": {name: stats.result_rows.get(name, 0) for name in sorted(run.queries)},
        "late": dict(run.late),
        "quarantined": quarantined,
        "sink_errors": dict(run.sinks.errors),
        "where": {t.query: t.path or t.spec.format for t in run.sinks.targets},
        "checkpoint": run.checkpoint.uri,
    }


def print_run_summary(summary: Mapping[str, Any]) -> None:
    """Print a summary; after a comparison, both runs side by side."""
    console = Console(highlight=False)
    runs = {"": summary, **summary.get("compare", {})}
    table = Table(
        title=f"{safe(summary['name'])}: {summary['workers']} workers", title_justify="left"
    )
    table.add_column("", style="bold")
    for name in runs:
        table.add_column(name or ("balanced" if len(runs) > 1 else "run"), justify="right")
    columns = [_summary_rows(run) for run in runs.values()]
    for row in columns[0]:
        table.add_row(row, *(column[row] for column in columns))
    console.print(table)
    cores = os.cpu_count() or 1
    if len(runs) > 1 and cores < summary["workers"]:
        console.print(
            f"{summary['workers']} workers share {cores} cores, so the time of a batch depends "
            "on their total work; with a core for each it would depend on the busiest worker. The "
            "balanced run was first and includes the warm-up of Spark.",
            soft_wrap=True,
        )
    for kind in ("quarantined", "sink_errors"):
        for name, reason in summary[kind].items():
            label = kind.replace("sink_errors", "sink behind")
            console.print(f"[red]{label}[/] {safe(name)}: {safe(reason)}", soft_wrap=True)
    if not summary["batches"]:
        console.print("no batch was run: there were no new rows; --fresh starts over")
    elif not summary["plans"] and summary["last_reason"]:
        console.print(f"nothing was moved: {reason_words(summary['last_reason'])}", soft_wrap=True)
    for message in summary["verdicts"].values():
        console.print(f"[yellow]limit[/]: {safe(message)}", soft_wrap=True)
    if summary["failure"]:
        console.print(f"[red]the stream failed[/]: {safe(summary['failure'])}", soft_wrap=True)
    for query, place in summary["where"].items():
        console.print(f"{safe(query)}: {safe(place)}", style="dim", soft_wrap=True)
    console.print(f"checkpoint: {safe(summary['checkpoint'])}", style="dim", soft_wrap=True)


def _summary_rows(run: Mapping[str, Any]) -> dict[str, str]:
    times = run["batch_seconds"] or {}
    return {
        "batches": f"{run['batches']:,}",
        "rows": f"{run['rows']:,}",
        "results": f"{sum(run['results'].values()):,}",
        "rows per second": f"{run['rows_per_second']:,}",
        "batch seconds, median and p95": f"{times.get('p50', '-')}  {times.get('p95', '-')}",
        "imbalance, busiest over mean": _format_ratio(run["imbalance"]),
        "  before the first plan, and after": (
            f"{_format_ratio(run['imbalance_before'])}  {_format_ratio(run['imbalance_after'])}"
        ),
        "CPU seconds, all workers": f"{run['cpu_seconds']:,.2f}",
        "CPU seconds, busiest of each batch": f"{run['busiest_worker_cpu_seconds']:,.2f}",
        "plans, moves": f"{run['plans']:,}  {run['moves']:,}",
        "state transferred": f"{run['handed_bytes'] / 1e6:,.2f} MB",
        "streams shipped": f"{run['shipped_bytes'] / 1e6:,.1f} MB",
        "  under round robin": f"{run['round_robin_bytes'] / 1e6:,.1f} MB",
        "late rows": f"{sum(run['late'].values()):,}",
        "poison rows": f"{sum(run['poison'].values()):,}",
        "quarantined queries": f"{len(run['quarantined']):,}",
    }


def _format_ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
