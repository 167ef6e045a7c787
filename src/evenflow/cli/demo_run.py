"""The demo: the same rows with keys placed by the hash alone and with balancing, in turns.

Both flows run in one Spark session from the start. A file of rows is a batch; the rows of a turn
are given to one flow, then to the other, in the order A B B A. So both are warm, and slow moments
of the machine hit both.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.cli.comparison import MeasuredBatch, Side, compare_sides
from evenflow.cli.page import ServePage
from evenflow.datasets.event_time import SECOND_US, START_US
from evenflow.datasets.marketplace import Marketplace
from evenflow.errors import SetupError
from evenflow.model import Decision, imbalance
from evenflow.planning.controller import Balancing

if TYPE_CHECKING:
    from evenflow.spark.driver.progress import ProgressListener
    from evenflow.spark.run import Run

_SAY_SECONDS = 10.0
WARM_UP_BATCHES = 5
TURN_BATCHES = 8
DATA = Marketplace(
    batches=WARM_UP_BATCHES + 2 * TURN_BATCHES,
    shift=WARM_UP_BATCHES + TURN_BATCHES,
    rows=45_000,
    hot_share=0.4,
)
QUERY = """SELECT a.seller, a.ts, b.ts AS later, a.price, b.price AS now
FROM orders a JOIN orders b
  ON a.seller = b.seller AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL 1 SECOND
WHERE b.price > a.price * 12"""


@dataclass(slots=True)
class DemoFlow:
    """One of the two flows: its run, and the folder that its source reads."""

    name: str
    run: "Run"
    progress: "ProgressListener"
    folder: Path
    say: Callable[[str], None]
    fed: int = 0

    def feed(self, files: list[Path]) -> None:
        """Give files to the source, and wait until each has been a batch."""
        for file in files:
            os.link(file, self.folder / file.name)
        before, said = self.fed, time.monotonic()
        self.fed += len(files)
        while (done := len(self._batches_with_rows())) < self.fed:
            if time.monotonic() - said > _SAY_SECONDS:
                said = time.monotonic()
                self.say(f"  {self.name}: {done - before} of {len(files)} batches done")
            if not self.run.is_active:
                self.run.await_termination()  # raises what stopped it
            if self.run.quarantined:
                raise SetupError(f"the {self.name} flow failed: {dict(self.run.quarantined)}")
            time.sleep(0.05)

    def _batches_with_rows(self) -> list[int]:
        batches = self.progress.batches
        return [number for number in sorted(batches) if batches[number].rows]

    def measured(self) -> list[MeasuredBatch]:
        """Return the batches after the warm-up, in the order of their rows."""
        reports = {batch.number: batch.reports for batch in self.run.batches}
        loads = {snapshot.batch: snapshot.worker_loads() for snapshot in self.run.snapshots}
        return [
            MeasuredBatch(
                rows=self.progress.batches[number].rows,
                seconds=self.progress.batches[number].seconds,
                busiest_seconds=max(report.cpu_seconds for report in reports[number]),
                imbalance=imbalance(loads[number]),
            )
            for number in self._batches_with_rows()[WARM_UP_BATCHES:]
        ]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo found: the comparison, what changed the plan, and the results of both flows."""

    workers: int
    comparison: dict[str, Any]
    decisions: list[Decision] = field(default_factory=list)
    results: dict[str, int] = field(default_factory=dict)
    same_results: bool = True


def run_demo(
    spark: Any,
    folder: Path,
    workers: int,
    say: Callable[[str], None],
    serve_page: ServePage,
) -> DemoResult:
    """Run both flows in turns; `serve_page` serves the one that is balanced."""
    files = _write_files(folder / "rows")
    warm_up, turns = files[:WARM_UP_BATCHES], files[WARM_UP_BATCHES:]
    first, second = turns[:TURN_BATCHES], turns[TURN_BATCHES:]
    with ExitStack() as stack:
        flows = {
            name: stack.enter_context(_flow(spark, folder, name, workers, balancing, say))
            for name, balancing in (("hash", Balancing.off()), ("balanced", Balancing()))
        }
        hash_only, balanced = flows["hash"], flows["balanced"]
        if (address := serve_page(balanced.run)) is not None:
            say(f"page of the balanced flow: {address}")
        say("warm-up, not measured: hash only first, then balanced, which the page shows")
        hash_only.feed(warm_up)
        balanced.feed(warm_up)
        for number, (flow, rows) in enumerate(
            [(hash_only, first), (balanced, first), (balanced, second), (hash_only, second)], 1
        ):
            say(f"turn {number} of 4: {flow.name}, {len(rows)} batches")
            flow.feed(rows)
        sides = {name: Side(flow.measured()) for name, flow in flows.items()}
        results = {name: flow.run.results("jumps") for name, flow in flows.items()}
        counts = {name: frame.count() for name, frame in results.items()}
        different = results["hash"].exceptAll(results["balanced"]).count()
        decisions = [decision for decision in balanced.run.decisions if decision.plan is not None]
        return DemoResult(
            workers=workers,
            comparison=compare_sides(sides["hash"], sides["balanced"], np.random.default_rng(0)),
            decisions=decisions,
            results=counts,
            same_results=not different and len(set(counts.values())) == 1,
        )


def _write_files(folder: Path) -> list[Path]:
    """Write a file per batch; Spark reads files in the order of their age.

    The orders are of the last seconds, so that the page shows how far they lie back.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    files = []
    begin_us = int(time.time() - DATA.batches * DATA.seconds) * SECOND_US
    later = pa.scalar(begin_us - START_US, pa.duration("us"))
    for number, rows in enumerate(DATA.stream_batches("orders")):
        file = folder / f"{number:06d}.parquet"
        index = rows.schema.get_field_index("ts")
        times = pc.add(rows["ts"], later)
        pq.write_table(rows.set_column(index, rows.schema.field("ts"), times), file)
        os.utime(file, (1e9 + number * 10, 1e9 + number * 10))
        files.append(file)
    return files


@contextmanager
def _flow(
    spark: Any,
    folder: Path,
    name: str,
    workers: int,
    balancing: Balancing,
    say: Callable[[str], None],
) -> Iterator[DemoFlow]:
    from evenflow.spark.driver.progress import ProgressListener
    from evenflow.spark.flow import Flow

    source, checkpoint = folder / f"{name}-orders", str(folder / name)
    source.mkdir()
    frame = (
        spark.readStream.schema(spark.read.parquet(str(folder / "rows")).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(source))
    )
    flow = Flow(spark, workers=workers, checkpoint=checkpoint)
    flow.source("orders", frame, time="ts", watermark="0 seconds")
    flow.query("jumps", QUERY, key="seller")
    with ProgressListener(spark, checkpoint) as progress:
        run = flow.start("0 seconds", balancing=balancing)  # a batch as soon as there is a file
        run.use_progress(progress)
        try:
            yield DemoFlow(name, run, progress, source, say)
        finally:
            run.stop()
