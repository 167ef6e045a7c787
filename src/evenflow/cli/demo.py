"""`evenflow demo`: what balancing brings, on this machine, in two minutes."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.options import JsonOption
from evenflow.cli.output import print_json, print_progress

if TYPE_CHECKING:
    from evenflow.cli.demo_run import DemoResult

EXIT_DIFFERENT_RESULTS = 3
_MIN_WORKERS = 2


def demo_command(
    folder: Annotated[
        Path, typer.Option(help="Folder for rows, checkpoints and results; emptied first.")
    ] = Path("runs/demo"),
    workers: Annotated[
        int | None, typer.Option(min=_MIN_WORKERS, help="Workers; default: one per core.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page.")] = 8080,
    page: Annotated[bool, typer.Option(help="Serve the page and the API.")] = True,
    json: JsonOption = False,
) -> None:
    """Compare hash only with balanced on a marketplace with one dominating seller.

    The same rows, in turns, in one Spark session. Exit codes: 0 success; 3 the results of the two
    differ; 4 Java, Spark or the port is not available.
    """
    from evenflow.cli.demo_run import run_demo
    from evenflow.cli.known_runs import KnownRun, remember_run
    from evenflow.cli.page import page_url
    from evenflow.spark.session import open_session

    count = workers or max(_MIN_WORKERS, os.cpu_count() or 1)
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    print_progress(f"starting Spark with {count} workers, one per core")
    # The flow that is not fed looks for rows ten times a second, not a hundred times.
    settings = {"spark.sql.streaming.pollingDelay": "100ms"}
    remember_run(KnownRun("demo", str(folder / "balanced"), spec=None))
    spark = open_session(f"local[{count},4]", settings, folder / "spark.log")
    try:
        with page_url(port if page else None) as serve:
            result = run_demo(spark, folder, count, print_progress, serve)
    finally:
        spark.stop()
    if json:
        print_json(demo_json(result))
    else:
        for line in demo_lines(result):
            typer.echo(line)
    raise typer.Exit(0 if result.same_results else EXIT_DIFFERENT_RESULTS)


def demo_json(result: "DemoResult") -> dict[str, Any]:
    """Return the fields of `evenflow demo --json`."""
    return {
        "workers": result.workers,
        "comparison": result.comparison,
        "plans": [
            {"batch": d.batch, "reason": d.reason, "message": d.message, "moves": len(d.moves)}
            for d in result.decisions
        ],
        "results": result.results,
        "same_results": result.same_results,
    }


def demo_lines(result: "DemoResult") -> list[str]:
    """Return the summary in plain words, at most 12 lines."""
    found = result.comparison
    before, after = found["hash"], found["balanced"]
    lines = [
        f"One seller has 40 % of the orders, another one later; {result.workers} workers.",
        f"{'':24}{'hash only':>12}{'balanced':>12}",
        f"{'rows per second':24}{before['rows_per_second']:>12,}{after['rows_per_second']:>12,}",
    ]
    for label, field in (
        ("seconds per batch", "batch_seconds"),
        ("busiest worker, seconds", "busiest_worker_seconds"),
        ("busiest over mean load", "imbalance"),
    ):
        lines.append(f"{label:24}{before[field]:>12.2f}{after[field]:>12.2f}")
    lines.append(
        f"Balanced is {found['gain']:.2f} times as fast ({found['gain_low']:.2f} to "
        f"{found['gain_high']:.2f} in nine of ten redraws of the batches)."
    )
    for decision in result.decisions[:3]:
        lines.append(f"Batch {decision.batch}: {decision.message}")
    lines.append(
        f"{after['other_share']:.0%} of a balanced batch is not the busiest worker: Spark's fixed "
        "cost, reading and routing."
    )
    same = "the same" if result.same_results else "DIFFERENT"
    lines.append(f"Both gave {same} {result.results['balanced']:,} results.")
    return lines
