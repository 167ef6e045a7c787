"""The cost of waiting for the disk before a commit: `python -m benchmarks.runtime.durability`.

One stream, whose batches alternate in the order ABBA between not waiting (A) and waiting (B) for
state, results, history and Spark's offsets, so that other load of the machine affects both alike.
Ledger, plans and index of results are waited for in both. Reports the median of B / A over the
blocks of four batches, by time and by CPU of all processes, with the 90 % bootstrap interval of the
median, for small and for large batches.
"""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.harness import Rows, print_row, run_parts
from benchmarks.runtime.sides import ProgressLog, session, stream_files
from benchmarks.workloads import BEGIN, COUNT, JOIN, SECOND, temporary_folder, trades
from evenflow import Balancing, Flow
from evenflow.research.live_runner import write_batches
from evenflow.spark.driver.committer import Committer
from evenflow.spark.worker.spark_tasks import batch_id
from evenflow.spark.worker.sql_runtime import SqlRuntime
from evenflow.storage.file_store import FileStore

WORKERS = 8
WARM_UP_BLOCKS = 2
MEASURED_BLOCKS = {"small": 60, "large": 30}
ROWS = {"small": 1_000, "large": 100_000}
KEYS = 50_000
_write, _sync, _commit = FileStore.write, FileStore.sync, Committer.commit
_driver_batch = [-1]


def waits(batch: int) -> bool:
    """Return whether a batch is a B of ABBA."""
    return batch % 4 in (1, 2)


def _current_batch() -> int:
    return _driver_batch[0] if _driver_batch[0] >= 0 else batch_id()


def _alternating_write(self: FileStore, name: str, parts: Any, **wait: bool) -> None:
    if wait.get("flush") and not wait.get("durable") and not waits(_current_batch()):
        wait["flush"] = False
    _write(self, name, parts, **wait)


def _alternating_sync(self: FileStore, patterns: Any) -> None:
    patterns = list(patterns)
    if len(patterns) == 1 or waits(_current_batch()):  # one: the folder of a durable file
        _sync(self, patterns)


def _noting_commit(self: Committer, batch: int, collect: Any) -> None:
    _driver_batch[0] = batch
    _commit(self, batch, collect)


def alternating_runtime() -> SqlRuntime:
    """Return the runtime of a worker process that waits in every other pair of batches."""
    FileStore.write = _alternating_write  # type: ignore[method-assign]
    return SqlRuntime()


def _measure(folder: Path, size: str) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    count = 4 * (WARM_UP_BLOCKS + MEASURED_BLOCKS[size])
    span = 10 * SECOND
    batches = [
        trades(rng, BEGIN + at * span, span, rng.integers(0, KEYS, ROWS[size]))
        for at in range(count)
    ]
    write_batches(folder / "trades", batches)
    spark = session()
    log = ProgressLog(spark)
    spark.streams.addListener(log)
    flow = Flow(spark, checkpoint=str(folder / "run"), workers=WORKERS, durability="power")
    flow.runtime = alternating_runtime
    flow.source("trades", stream_files(spark, folder / "trades"), time="ts", watermark="5 seconds")
    flow.query("counts", COUNT, key=["symbol"])
    flow.query("pairs", JOIN, key=["symbol"])
    _driver_batch[0] = 0
    with (
        patch.object(FileStore, "write", _alternating_write),
        patch.object(FileStore, "sync", _alternating_sync),
        patch.object(Committer, "commit", _noting_commit),
    ):
        flow.start(available_now=True, balancing=Balancing()).await_termination()
    spark.streams.removeListener(log)
    times = [p.durationMs["triggerExecution"] for p, _ in log.batches[:count]]
    cpu = np.diff([0.0, *(spent for _, spent in log.batches[:count])]).tolist()
    row = {"batch": size, "rows": ROWS[size], "blocks": MEASURED_BLOCKS[size]}
    row |= _compare("ms", times) | _compare("cpu_ms", [1000 * spent for spent in cpu])
    print_row(row)
    return row


def _compare(measure: str, spent: list[float]) -> dict[str, Any]:
    """Compare waiting with not waiting, block by block."""
    blocks = np.array(spent).reshape(-1, 4)[WARM_UP_BLOCKS:]
    ratios = blocks[:, 1:3].sum(axis=1) / blocks[:, [0, 3]].sum(axis=1)
    drawn = np.random.default_rng(0).integers(0, len(ratios), (2000, len(ratios)))
    low, high = np.quantile(np.median(ratios[drawn], axis=1), [0.05, 0.95])
    return {
        measure: float(np.median(blocks[:, [0, 3]])),
        f"{measure}_ratio": float(np.median(ratios)),
        f"{measure}_interval": f"{low:.3f} to {high:.3f}",
    }


def durability() -> Rows:
    """Measure both sizes."""
    rows = []
    for size in ROWS:
        with temporary_folder() as folder:
            rows.append(_measure(folder, size))
    return rows


if __name__ == "__main__":
    run_parts({"durability": durability})
