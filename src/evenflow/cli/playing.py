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

from evenflow.cli.summary import summary_of
from evenflow.cli.tally import Tally
from evenflow.cli.view import say, view_of
from evenflow.errors import InputError, SetupError
from evenflow.spec import Checked

if TYPE_CHECKING:
    from evenflow.spark import Run

INTERRUPTED = 130
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Wishes:
    """How to run: until when, with the page on which port, from a fresh checkpoint or not."""

    seconds: float | None = None
    port: int | None = None
    fresh: bool = False
    json: bool = False


def play(checked: Checked, wishes: Wishes) -> dict[str, Any]:
    """Run it on a Spark of its own, and return what came of it."""
    from evenflow.spark.from_spec import spark_options
    from evenflow.spark.session import open_session

    spec = checked.spec
    if wishes.fresh:
        forget(checked, checked.path(spec.checkpoint))
    say(f"{spec.name}: starting Spark on {spec.spark.master}")
    spark = open_session(spec.spark.master, spark_options(spec.spark.config), spark_log(checked))
    try:
        with interruptible() as ending:
            return play_on(spark, checked, wishes, ending)
    finally:
        spark.stop()


def play_on(
    spark: Any, checked: Checked, wishes: Wishes, ending: threading.Event
) -> dict[str, Any]:
    """Run it on a Spark that is there, twice if it is to be compared."""
    from evenflow.spark.ship_modules import ship_modules

    spec = checked.spec
    checkpoint = checked.path(spec.checkpoint)
    ship_modules(checked, spark)
    first = _play(checked, spark, checkpoint, wishes, ending, balanced=True)
    if spec.compare is None or ending.is_set() or first["failure"]:
        return first
    other = f"{checkpoint}-{spec.compare}"
    shutil.rmtree(other, ignore_errors=True)
    second = _play(checked, spark, other, wishes, ending, balanced=False)
    return {**first, "compare": {spec.compare: second}}


def spark_log(checked: Checked) -> Path | None:
    """Return where Spark's own words go, if the checkpoint is local: beside it."""
    place = Path(checked.path(checked.spec.checkpoint).removeprefix("file://"))
    return place.parent / f"{place.name}-spark.log" if place.is_absolute() else None


def _play(
    checked: Checked,
    spark: Any,
    checkpoint: str,
    wishes: Wishes,
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
    tally = Tally(spec.workers)
    bounded = spec.available_now or spec.compare is not None
    balancing = checked.balancing if balanced else None
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressListener(spark, checkpoint))
        run = flow.start(spec.trigger, available_now=bounded, balancing=balancing)
        stack.callback(run.stop)
        console = sys.stderr if wishes.json else sys.stdout
        delivery = SinkDelivery(run, sink_targets(checked) if balanced else (), console).start()
        stack.callback(delivery.finish)
        page = stack.enter_context(_served(run, wishes.port if balanced else None))

        def look() -> Tally:
            tally.saw(progress.batches, run.batches)
            tally.judged(run.snapshots, run.decisions)
            return tally

        name = spec.name if balanced else f"{spec.name} ({spec.compare} only)"
        with view_of(name, page, look) as show:
            failure = _watch(run, show, ending, wishes.seconds)
        delivery.finish()
        _settle(run, progress.batches)
        look()
        return summary_of(checked, run, tally, delivery, failure, interrupted=ending.is_set())


@contextmanager
def _served(run: "Run", port: int | None) -> Iterator[str | None]:
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


def _watch(
    run: "Run", show: Callable[[], None], ending: threading.Event, seconds: float | None
) -> str | None:
    """Look on until the run ends or is to end; return why it failed, if it did."""
    until = None if seconds is None else time.monotonic() + seconds
    while run.is_active:
        if ending.wait(_LOOK_SECONDS) or (until is not None and time.monotonic() > until):
            run.finish()
            return None
        show()
    try:
        run.await_termination()
    except Exception as error:  # whatever ended the stream is told, with what it has done so far
        return str(error).splitlines()[0]
    return None


def _settle(run: "Run", seen: dict[int, Any]) -> None:
    """Wait a moment for Spark's progress of the last batch, which comes after it has ended."""
    until = time.monotonic() + 2.0
    while run.committed - 1 not in seen and time.monotonic() < until:
        time.sleep(0.05)


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event; the second ends the process at once."""
    ending = threading.Event()

    def interrupted(*_: object) -> None:
        if ending.is_set():
            os._exit(INTERRUPTED)
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


def forget(checked: Checked, checkpoint: str) -> None:
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
