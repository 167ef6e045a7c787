"""A nearly idle system: 200 batches of a skewed self-join with few rows; how many plans?

One batch every 2 s. `load` is the CPU of all workers over the time, in cores.
"""

import time

import numpy as np

from benchmarks.harness import Rows, print_row
from benchmarks.runtime.sides import session, stream_files
from benchmarks.workloads import BEGIN, JOIN, SECOND, add_query, temporary_folder, trades
from evenflow import Balancing, Flow
from evenflow.datasets.zipf import draw_zipf
from evenflow.research.live_runner import write_batches

BATCHES, ROWS, TRIGGER, WORKERS = 200, 40, "2 seconds", 4


def idle() -> Rows:
    """Run at a fixed pace with the default balancing, and count plans."""
    spark, rng = session(), np.random.default_rng(3)
    with temporary_folder() as folder:
        rows = (
            trades(rng, BEGIN + at * SECOND, SECOND, draw_zipf(rng, 1.2, 1_000, ROWS))
            for at in range(BATCHES)
        )
        write_batches(folder / "trades", rows)
        flow = Flow(spark, workers=WORKERS, checkpoint=str(folder / "run"))
        files = stream_files(spark, folder / "trades")
        flow.source("trades", files, time="ts", watermark="0 seconds")
        add_query(flow, JOIN, "symbol")
        run = flow.start(TRIGGER, balancing=Balancing())
        loads: dict[int, tuple[float, float]] = {}
        reasons: dict[int, str] = {}
        while len(loads) < BATCHES - 1:
            time.sleep(1)
            for snapshot in list(run.snapshots):
                cpu = float(snapshot.worker_cpu_seconds.sum())
                loads[snapshot.batch] = cpu, snapshot.interval_seconds
            reasons |= {d.batch: str(d.reason) for d in list(run.decisions) if d.plan is not None}
        run.stop()
    spark.stop()
    cpu, seconds = np.array(list(loads.values())).T
    row = {
        "batches": len(loads),
        "load": float(cpu.sum() / (len(loads) * 2.0)),
        "median_batch_seconds": float(np.median(seconds)),
        "plans": len(reasons),
        "reasons": sorted(set(reasons.values())),
        "goal_no_plan": not reasons,
    }
    print_row(row)
    return [row]
