"""Run a checked specification: Spark session, flow, sinks, service and live view."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.cli.live_view import live_view
from evenflow.cli.logs import log_path
from evenflow.cli.output import count_of, print_progress
from evenflow.cli.preflight import check_start
from evenflow.cli.run_log import LogFormat, RunReporter, log, log_to
from evenflow.cli.run_stats import KEPT_BATCHES, RunStats
from evenflow.cli.run_summary import EXIT_INTERRUPTED, run_summary
from evenflow.cli.serve_spec import serve_spec, service_settings
from evenflow.cli.telemetry import open_telemetry
from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS, InputError
from evenflow.spec import CheckedSpec

if TYPE_CHECKING:
    from evenflow.spark.run import Run

_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of `evenflow run`; `serves`: the page and the API."""

    max_seconds: float | None = None
    serves: bool = False
    fresh: bool = False
    results_as_json: bool = False
    without: tuple[str, ...] = ()
    safe: bool = False
    log_format: LogFormat = "text"


def run_spec(checked: CheckedSpec, options: RunOptions) -> dict[str, Any]:
    """Run a specification on a new Spark session; return the summary."""
    from evenflow.spark.session import open_session
    from evenflow.spec.files import spark_options

    spec = checked.spec
    if options.serves:
        service_settings(checked)  # before Spark starts: tokens and certificates can be read
    if options.fresh:
        delete_checkpoint(checked, checked.resolve(spec.checkpoint))
    check_start(checked, serves=options.serves)
    checkpoint = checked.resolve(spec.checkpoint)
    print_progress(f"{spec.name}: starting Spark on {spec.spark.master}")
    with log_to(log_path(checkpoint), options.log_format):
        log.info("%s: starting on %s", spec.name, spec.spark.master)
        with interrupt_event() as interrupted:
            spark = open_session(
                spec.spark.master,
                spark_options(spec.spark.config),
                log_path(checkpoint, spark=True),
            )
            try:
                if interrupted.is_set():
                    raise SystemExit(EXIT_INTERRUPTED)
                summary = run_spec_on(spark, checked, options, interrupted)
            finally:
                spark.stop()
        log.info("%s: ended, exit code %s", spec.name, summary["exit_code"])
        return summary


def run_spec_on(
    spark: Any, checked: CheckedSpec, options: RunOptions, interrupted: threading.Event
) -> dict[str, Any]:
    """Run a specification on a Spark session; with `compare`, a second time without balancing."""
    from evenflow.spark.ship_modules import ship_modules

    spec = checked.spec
    checkpoint = checked.resolve(spec.checkpoint)
    ship_modules(checked, spark)
    first = _run_once(checked, spark, checkpoint, options, interrupted, balanced=True)
    if spec.compare is None or interrupted.is_set() or first["failure"]:
        return first
    other = f"{checkpoint}-{spec.compare}"
    shutil.rmtree(other, ignore_errors=True)
    second = _run_once(checked, spark, other, options, interrupted, balanced=False)
    return {**first, "compare": {spec.compare: second}}


def _beside_checkpoint(checked: CheckedSpec, name: str) -> Path | None:
    folder = Path(checked.resolve(checked.spec.checkpoint).removeprefix("file://"))
    return folder.parent / f"{folder.name}-{name}" if folder.is_absolute() else None


def _run_once(
    checked: CheckedSpec,
    spark: Any,
    checkpoint: str,
    options: RunOptions,
    interrupted: threading.Event,
    *,
    balanced: bool,
) -> dict[str, Any]:
    """Run once; a run that only serves comparison has no balancing, sinks or page."""
    from evenflow.model.alert import AlertRules
    from evenflow.spark.driver.progress import ProgressListener
    from evenflow.spark.from_spec import flow_from_spec

    spec = checked.spec
    hosted = len(spec.queries) + len(spec.templates) + len(spec.operators)
    sources = count_of(len(spec.sources), "sources")
    print_progress(f"{spec.name}: preparing {sources} and {count_of(hosted, 'queries')}")
    flow = flow_from_spec(checked, spark, checkpoint, with_sinks=balanced)
    if balanced and interrupted.is_set():  # nothing has begun
        raise SystemExit(EXIT_INTERRUPTED)
    stats, reporter = RunStats(spec.workers), RunReporter()
    bounded = spec.available_now or spec.compare is not None
    balancing = checked.balancing if balanced else None
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressListener(spark, checkpoint, keep=KEPT_BATCHES))
        run = flow.start(
            spec.trigger,
            available_now=bounded,
            balancing=balancing,
            alerts=spec.alerts.rules() if balanced else AlertRules.NONE,
            without=options.without,
            safe=options.safe,
        )
        run.use_progress(progress)  # one listener for the summary and the page
        run.sinks.console = sys.stderr if options.results_as_json else sys.stdout
        run.sinks.show_progress = _print_deliveries_left
        stack.callback(run.stop)
        page = stack.enter_context(_page_url(run, checked, serves=options.serves and balanced))

        telemetry = open_telemetry(spec.name) if balanced else None
        if telemetry is not None:
            stack.callback(telemetry.close)

        def update() -> RunStats:
            stats.add_batches(progress.batches, run.batches)
            stats.add_decisions(run.snapshots, run.decisions)
            reporter.report(stats, run)
            if telemetry is not None:
                telemetry.report(run)
            return stats

        name = spec.name if balanced else f"{spec.name} ({spec.compare} only)"
        with live_view(name, page, update) as show:
            failure = _wait_for_end(run, show, interrupted, options.max_seconds)
        _await_last_progress(run, progress.batches)
        update()
        was_interrupted = interrupted.is_set()
        return run_summary(checked, run, stats, failure, interrupted=was_interrupted)


def _print_deliveries_left(count: int) -> None:
    print_progress(f"delivering results to sinks: {count_of(count, 'queries')} left")


@contextmanager
def _page_url(run: "Run", checked: CheckedSpec, *, serves: bool) -> Iterator[str | None]:
    """Serve the page of a run while the context is open; yield its address."""
    if not serves:
        yield None
        return
    server = serve_spec(run, checked, _beside_checkpoint(checked, "audit.log"))
    try:
        yield server.url
    finally:
        server.stop()


def _wait_for_end(
    run: "Run", show: Callable[[], None], interrupted: threading.Event, seconds: float | None
) -> str | None:
    """Wait until the run ends, is interrupted or times out; return its error, if it failed."""
    until = None if seconds is None else time.monotonic() + seconds
    while run.is_active:
        if interrupted.wait(_POLL_SECONDS) or (until is not None and time.monotonic() > until):
            run.finish()
            return None
        show()
    try:
        run.await_termination()
    except Exception as error:  # the summary reports any error, with the results so far
        return printable(str(error).splitlines()[0], MAX_ERROR_CHARACTERS)
    return None


def _await_last_progress(run: "Run", seen: dict[int, Any]) -> None:
    """Wait up to 2 s for Spark's progress event of the last batch."""
    until = time.monotonic() + 2.0
    while run.committed - 1 not in seen and time.monotonic() < until:
        time.sleep(0.05)


@contextmanager
def interrupt_event() -> Iterator[threading.Event]:
    """Set an event on the first Ctrl-C or SIGTERM and say so; exit at once on the second."""
    interrupted = threading.Event()

    def on_signal(*_: object) -> None:
        if interrupted.is_set():
            os._exit(EXIT_INTERRUPTED)
        interrupted.set()
        os.write(2, b"\nstopping after the current batch; Ctrl-C again stops at once\n")

    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    for number, _ in before:
        signal.signal(number, on_signal)
    try:
        yield interrupted
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def delete_checkpoint(checked: CheckedSpec, checkpoint: str) -> None:
    """Delete a local checkpoint and the batches that file sinks wrote."""
    from evenflow.spark.driver.sink_target import BATCH_COLUMN, QUERY_PLACEHOLDER

    folder = Path(checkpoint.removeprefix("file://"))
    if not folder.is_absolute():
        raise InputError(f"--fresh: {checkpoint} is not a local folder; delete it yourself")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "meta").is_file():
        raise InputError(f"--fresh: {folder} is not a checkpoint; delete it yourself")
    shutil.rmtree(folder, ignore_errors=True)
    for sink in checked.spec.sinks.values():
        for query in checked.order if sink.queries == "*" else sink.queries:
            path = (sink.path or "/nonexistent").replace(QUERY_PLACEHOLDER, query)
            for batch in Path(checked.resolve(path)).glob(f"{BATCH_COLUMN}=*"):
                shutil.rmtree(batch)
