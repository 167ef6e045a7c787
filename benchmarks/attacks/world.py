"""A run on real Spark with innocent queries and a page, for attacks to be made on."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from tests.support.hostile_rows import hostile_rows
from tests.support.hostile_sql import SCHEMA
from tests.support.poll import until
from tests.support.spark_harness import BEGIN_US, SECOND, rows_of

from evenflow.service import serve
from evenflow.spark.driver.progress import ProgressListener
from evenflow.spark.flow import Flow
from evenflow.spark.run import Run
from evenflow.spark.session import open_session

INNOCENT = {
    "counts": """SELECT window.start AS s, symbol, count(*) AS n, sum(small) AS t FROM trades
        WHERE small BETWEEN 0 AND 1 GROUP BY window(ts, '10 seconds'), symbol""",
    "pairs": """SELECT a.symbol, a.ts AS t1, b.ts AS t2 FROM trades a JOIN trades b
        ON a.symbol = b.symbol AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL 1 SECOND
        WHERE a.ok AND b.ok""",
}
ROWS, SECONDS_A_FILE = 50, 4
WAIT_SECONDS = 900.0  # on a busy machine


@dataclass(frozen=True)
class Attack:
    """One attack; `act` returns the outcome, empty: what becomes of the query `hostile`."""

    name: str
    kind: str
    act: Callable[["World"], str]
    expected: tuple[str, ...] = ()


class World:
    """Innocent queries over a folder that gets a file of rows for every batch.

    Rows that count are also kept in `good`, results that were read in `results`: the process does
    not grow because of this program. With `keep` older results and input files are removed.
    """

    def __init__(self, folder: Path, trigger: str = "1 second", keep: str | None = None) -> None:
        self.folder = folder
        for name in ("trades", "good", *INNOCENT):
            (folder / name).mkdir()
        self.spark = open_session("local[2,4]", {}, folder / "spark.log")
        checkpoint = str(folder / "checkpoint")
        flow = Flow(self.spark, workers=2, checkpoint=checkpoint, keep_results=keep)
        reader = self.spark.readStream.schema(from_arrow_schema(SCHEMA)).option("maxFileAge", "10m")
        frame = reader.option("maxFilesPerTrigger", 4).parquet(str(folder / "trades"))
        flow.source("trades", frame, time="ts", watermark="5 seconds", on_bad_file="skip")
        for name, sql in INNOCENT.items():
            flow.query(name, sql, key="symbol")
        self._listener = ProgressListener(self.spark, checkpoint, keep=1_000_000)
        self._listener.__enter__()
        self._lock = threading.Lock()
        self.good = self.files = self.read_until = 0
        self.send()
        self.run: Run = flow.start(trigger=trigger)
        self.server = serve(self.run, port=0)

    def send(self, rows: pa.Table | None = None, content: bytes | None = None) -> None:
        """Write a file: rows that count, if none are given."""
        with self._lock:  # an attack sends from another thread
            self._send(rows, content)

    def _send(self, rows: pa.Table | None, content: bytes | None) -> None:
        path = self.folder / "trades" / f"{self.files:07d}.parquet"
        new = self.folder / "new"
        is_good = rows is None and content is None
        if is_good:
            rows = hostile_rows(self.files, ROWS, SECONDS_A_FILE * self.good, SECONDS_A_FILE)
            self.good += 1
        if content is None:
            pq.write_table(rows, new)
        else:
            new.write_bytes(content)
        if is_good:
            os.link(new, self.folder / "good" / path.name)
        new.rename(path)
        self.files += 1

    def send_bad(
        self, rows: pa.Table | None = None, content: bytes | None = None, outcome: str = ""
    ) -> str:
        """Write a bad file; return what should become of it."""
        self.send(rows, content)
        return outcome

    def batches(self, count: int) -> float:
        """Send rows and wait for some batches; return the seconds of the slowest."""
        first = self.run.committed
        for number in range(count):
            self.send()
            until(partial(self._has_progress, first + number), self.run, WAIT_SECONDS)
        return self.slowest_since(first)

    def slowest_since(self, first: int) -> float:
        """Return the seconds of the slowest batch from one on, as Spark tells it."""
        return max(b.seconds for number, b in self._listener.batches.items() if number >= first)

    def _has_progress(self, batch: int) -> bool:
        return any(number >= batch for number in list(self._listener.batches))

    def read_results(self) -> None:
        """Copy new results of the innocent queries, and remove input that is no longer needed."""
        end = self.run.committed
        for name in INNOCENT:
            rows = self.run.results(name, since=self.read_until, until=end).to_arrow()
            if len(rows):
                pq.write_table(rows, self.folder / name / f"{end:09d}.parquet")
        self.read_until = end
        for path in (self.folder / "trades").glob("*.parquet"):
            if time.time() - path.stat().st_mtime > 20 * 60:
                path.unlink()

    def differences(self) -> dict[str, dict[str, int]]:
        """Close all windows; return for each query how many rows are missing and too many."""
        last = pa.array([BEGIN_US + 30 * 86_400 * SECOND]).cast(SCHEMA.field("ts").type)
        self.send(hostile_rows(0, 1).set_column(0, "ts", last))
        end_us = last.cast(pa.int64())[0].as_py() - 10 * SECOND
        until(lambda: self.run.watermarks["trades"] > end_us, self.run, WAIT_SECONDS)
        until(lambda: not self.run.has_pending_work, self.run, WAIT_SECONDS)
        self.read_results()
        self.spark.read.parquet(str(self.folder / "good")).createOrReplaceTempView("trades")
        found = {}
        for name, sql in INNOCENT.items():
            expected, got = rows_of(self.spark.sql(sql)), rows_of(self._results(name))
            missing, extra = expected - got, got - expected
            found[name] = {
                "rows": expected.total(), "missing": missing.total(), "extra": extra.total()
            }  # fmt: skip
        return found

    def _results(self, name: str) -> DataFrame:
        return self.spark.read.parquet(str(self.folder / name))

    def cancel_hostile(self) -> None:
        """Remove the attacker's query, if it is hosted."""
        if "hostile" in self.run.queries:
            self.run.cancel("hostile")
            until(lambda: "hostile" not in self.run.queries, self.run, WAIT_SECONDS)

    def outcome(self) -> str:
        """Return what became of the attacker's query."""
        reason = self.run.quarantined.get("hostile")
        return "runs" if reason is None else f"quarantined: {reason[:80]}"

    def set_aside(self) -> dict[str, Any]:
        """Return what was left out so far."""
        return {"files": len(self.run.bad_files), "rows": self.run.set_aside.get("trades", 0)}

    def close(self) -> None:
        """Stop the run and Spark."""
        self._listener.__exit__()
        self.run.stop()
        self.server.stop()
        self.spark.stop()
