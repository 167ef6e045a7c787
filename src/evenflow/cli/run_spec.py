"""Play a checked specification: session, flow, sinks, page and view, from start to summary."""

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

from evenflow.cli.live_view import live_view, print_progress
from evenflow.cli.run_stats import RunStats
from evenflow.cli.run_summary import run_summary
from evenflow.errors import InputError, SetupError
from evenflow.spec import CheckedSpec

if TYPE_CHECKING:
    from evenflow.spark.run import Run

EXIT_INTERRUPTED = 130
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run: until when, with the page on which port, from a fresh checkpoint or not."""

    max_seconds: float | None = None
    port: int | None = None
    fresh: bool = False
    results_as_json: bool = False


def run_spec(checked: CheckedSpec, wishes: RunOptions) -> dict[str, Any]:
    """Run it on a Spark of its own, and return what came of it."""
    from evenflow.spark.session import open_session
    from evenflow.spec.files import spark_options

    spec = checked.spec
    if wishes.fresh:
        delete_checkpoint(checked, checked.resolve(spec.checkpoint))
    print_progress(f"{spec.name}: starting Spark on {spec.spark.master}")
    spark = open_session(
        spec.spark.master, spark_options(spec.spark.config), spark_log_path(checked)
    )
    try:
        with interrupt_event() as ending:
            return run_spec_on(spark, checked, wishes, ending)
    finally:
        spark.stop()


def run_spec_on(
    spark: Any, checked: CheckedSpec, wishes: RunOptions, ending: threading.Event
) -> dict[str, Any]:
    """Run it on a Spark that is there, twice if it is to be compared."""
    from evenflow.spark.ship_modules import ship_modules

    spec = checked.spec
    checkpoint = checked.resolve(spec.checkpoint)
    ship_modules(checked, spark)
    first = _run_once(checked, spark, checkpoint, wishes, ending, balanced=True)
    if spec.compare is None or ending.is_set() or first["failure"]:
        return first
    other = f"{checkpoint}-{spec.compare}"
    shutil.rmtree(other, ignore_errors=True)
    second = _run_once(checked, spark, other, wishes, ending, balanced=False)
    return {**first, "compare": {spec.compare: second}}


def spark_log_path(checked: CheckedSpec) -> Path | None:
    """Return where Spark's own words go, if the checkpoint is local: beside it."""
    place = Path(checked.resolve(checked.spec.checkpoint).removeprefix("file://"))
    return place.parent / f"{place.name}-spark.log" if place.is_absolute() else None


def _run_once(
    checked: CheckedSpec,
    spark: Any,
    checkpoint: str,
    wishes: RunOptions,
    ending: threading.Event,
    *,
    balanced: bool,
) -> dict[str, Any]:
    """Run it once; the run that is only there to compare with has no balancing, sinks or page."""
    from evenflow.spark.driver.progress import ProgressListener
    from evenflow.spark.driver.sinks import SinkDelivery, sink_targets
    from evenflow.spark.from_spec import flow_from_spec

    spec = checked.spec
    flow = flow_from_spec(checked, spark, checkpoint)
    tally = RunStats(spec.workers)
    bounded = spec.available_now or spec.compare is not None
    balancing = checked.balancing if balanced else None
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressListener(spark, checkpoint))
        run = flow.start(spec.trigger, available_now=bounded, balancing=balancing)
        stack.callback(run.stop)
        console = sys.stderr if wishes.results_as_json else sys.stdout
        delivery = SinkDelivery(run, sink_targets(checked) if balanced else (), console).start()
        stack.callback(delivery.finish)
        page = stack.enter_context(_page_url(run, wishes.port if balanced else None))

        def look() -> RunStats:
            tally.add_batches(progress.batches, run.batches)
            tally.add_decisions(run.snapshots, run.decisions)
            return tally

        name = spec.name if balanced else f"{spec.name} ({spec.compare} only)"
        with live_view(name, page, look) as show:
            failure = _wait_for_end(run, show, ending, wishes.max_seconds)
        delivery.finish()
        _await_last_progress(run, progress.batches)
        look()
        return run_summary(checked, run, tally, delivery, failure, interrupted=ending.is_set())


@contextmanager
def _page_url(run: "Run", port: int | None) -> Iterator[str | None]:
    """Serve the page of a run; give its address."""
    if port is None:
        yield None
        return
    from evenflow.service import serve

    try:
        server = serve(run, port=port)
    except InputError as error:
        raise SetupError(f"{error}, with --port, or leave the page out with --no-page") from None
    try:
        yield server.url
    finally:
        server.stop()


def _wait_for_end(
    run: "Run", show: Callable[[], None], ending: threading.Event, seconds: float | None
) -> str | None:
    """Look on until the run ends or is to end; return why it failed, if it did."""
    until = None if seconds is None else time.monotonic() + seconds
    while run.is_active:
        if ending.wait(_POLL_SECONDS) or (until is not None and time.monotonic() > until):
            run.finish()
            return None
        show()
    try:
        run.await_termination()
    except Exception as error:  # whatever ended the stream is told, with what it has done so far
        return str(error).splitlines()[0]
    return None


def _await_last_progress(run: "Run", seen: dict[int, Any]) -> None:
    """Wait a moment for Spark's progress of the last batch, which comes after it has ended."""
    until = time.monotonic() + 2.0
    while run.committed - 1 not in seen and time.monotonic() < until:
        time.sleep(0.05)


@contextmanager
def interrupt_event() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event; the second ends the process at once."""
    ending = threading.Event()

    def interrupted(*_: object) -> None:
        if ending.is_set():
            os._exit(EXIT_INTERRUPTED)
        ending.set()

    if threading.current_thread() is not threading.main_thread():
        yield ending
        return
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    for number, _ in before:
        signal.signal(number, interrupted)
    try:
        yield ending
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def delete_checkpoint(checked: CheckedSpec, checkpoint: str) -> None:
    """Delete a local checkpoint and the batches that file sinks hold of it."""
    from evenflow.spark.driver.sinks import BATCH_COLUMN, sink_targets

    place = Path(checkpoint.removeprefix("file://"))
    if not place.is_absolute():
        raise InputError(
            f"--fresh deletes local folders only, got {checkpoint}; delete it yourself"
        )
    if place.is_dir() and any(place.iterdir()) and not (place / "meta").is_file():
        raise InputError(f"--fresh: {place} is no checkpoint of ours; delete it yourself")
    shutil.rmtree(place, ignore_errors=True)
    for target in sink_targets(checked):
        for folder in Path(target.path or "/nonexistent").glob(f"{BATCH_COLUMN}=*"):
            shutil.rmtree(folder)
