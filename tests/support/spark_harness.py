"""Play rows through a flow batch by batch, with plan changes at chosen borders."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

import evenflow
from evenflow.datasets import nexmark
from evenflow.model import Plan
from evenflow.spark.protocol.report import Report

SECOND = 1_000_000
BEGIN_US = 1_700_000_000 * SECOND
SCHEMAS: dict[str, str | StructType] = {
    "trades": "ts timestamp, symbol string, venue int, price double, qty long",
    "quotes": "qt timestamp, sym string, bid double",
    **{name: from_arrow_schema(schema) for name, schema in nexmark.SCHEMAS.items()},
}
TIMES = {"trades": "ts", "quotes": "qt", **dict.fromkeys(nexmark.SCHEMAS, "ts")}


SUMS = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""


def session(master: str, **settings: str) -> SparkSession:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    fixed = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": "evenflow.spark.worker.daemon",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    for name, value in {**fixed, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def trades(rng: np.random.Generator, count: int, span_s: int = 60, late_s: int = 5) -> pa.Table:
    """Rows whose times run forward and jitter by less than the watermark's delay."""
    return pa.table(
        {
            "ts": _times(rng, count, span_s, late_s),
            "symbol": pa.array(_pick(rng, ["a", "b", "c", "d", "e'", None], count), pa.string()),
            "venue": pa.array(_pick(rng, [1, 2, 3, None], count), pa.int32()),
            "price": pa.array(rng.integers(0, 400, count) / 4),
            "qty": pa.array(rng.integers(-3, 9, count)),
        }
    )


def quotes(rng: np.random.Generator, count: int, span_s: int = 60, late_s: int = 5) -> pa.Table:
    return pa.table(
        {
            "qt": _times(rng, count, span_s, late_s),
            "sym": pa.array(_pick(rng, ["a", "b", "c", "z", None], count), pa.string()),
            "bid": pa.array(rng.integers(0, 400, count) / 4),
        }
    )


def _times(rng: np.random.Generator, count: int, span_s: int, late_s: int) -> pa.Array:
    steady = np.sort(rng.integers(0, span_s * 4, count)) * (SECOND // 4)
    jitter = rng.integers(0, late_s * 4, count) * (SECOND // 4)
    return pa.array(BEGIN_US + steady - jitter).cast(pa.timestamp("us", "UTC"))


def _pick(rng: np.random.Generator, values: Sequence[object], count: int) -> list[object]:
    return [values[i] for i in rng.integers(0, len(values), count)]


def shifted(rows: pa.Table, seconds: int) -> pa.Table:
    """The rows, that much later."""
    times = pa.array(np.asarray(rows.column(0).cast(pa.int64())) + seconds * SECOND)
    return rows.set_column(0, rows.schema.field(0), times.cast(rows.schema.field(0).type))


def trade_batches(count: int, rows: int = 40) -> list[pa.Table]:
    """Batches of 8 s each, one after the other."""
    given = [trades(np.random.default_rng(at), rows, span_s=8) for at in range(count)]
    return [shifted(batch, 8 * at) for at, batch in enumerate(given)]


def cut(rng: np.random.Generator, rows: pa.Table, batches: int) -> list[pa.Table]:
    """Cut rows into batches of any size, some empty."""
    ends = [*np.sort(rng.integers(0, len(rows) + 1, batches - 1)).tolist(), len(rows)]
    begins = [0, *ends[:-1]]
    return [rows.slice(begin, end - begin) for begin, end in zip(begins, ends, strict=True)]


def zipf_batches(batches: int, rows: int, keys: int, skew: float, shift: int) -> list[pa.Table]:
    """Zipf symbols, a batch every second of event time; every `shift` of them others are hot.

    A symbol has its share of rows in every batch, to a row: the load is constant but for that.
    """
    rng = np.random.default_rng(7)
    weights = np.cumsum(np.arange(1, keys + 1) ** -skew)
    made = []
    for at in range(batches):
        each = (np.arange(rows) + rng.random()) / rows * weights[-1]
        rank = rng.permutation(np.searchsorted(weights, each))
        symbol = (rank * 7 ** (at // shift) + 11 * (at // shift)) % keys
        times = BEGIN_US + at * SECOND + np.sort(rng.integers(0, SECOND, rows))
        made.append(
            pa.table(
                {
                    "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
                    "symbol": pa.array(np.char.add("s", symbol.astype(str))),
                    "venue": pa.array(rng.integers(0, 3, rows), pa.int32()),
                    "price": pa.array(rng.random(rows)),
                    "qty": pa.array(rng.integers(0, 9, rows)),
                }
            )
        )
    end = pa.array([BEGIN_US + 3600 * SECOND]).cast(pa.timestamp("us", "UTC"))
    return [*made, made[-1].slice(0, 1).set_column(0, "ts", end)]


def write_batches(folder: Path, batches: Iterable[pa.Table], first: int = 0) -> None:
    """One file a batch: Spark reads them one by one, oldest first."""
    folder.mkdir(parents=True, exist_ok=True)
    for at, rows in enumerate(batches, first):
        path = folder / f"{at:06d}.parquet"
        pq.write_table(rows, folder / f".{at}")
        os.utime(folder / f".{at}", (1e9 + at * 10, 1e9 + at * 10))
        (folder / f".{at}").rename(path)


def closing(rows: pa.Table, at_us: int) -> pa.Table:
    """One row that matches nothing: its time lets the watermark pass all windows before it."""
    last = pa.Table.from_pylist([{}], schema=rows.schema)
    time = pa.array([at_us]).cast(rows.schema.field(0).type)
    return last.set_column(0, rows.schema.field(0), time)


def stream(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    reader = spark.readStream.schema(SCHEMAS[name]).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / name))


@dataclass
class Play:
    """A flow over the files in a folder."""

    spark: SparkSession
    folder: Path
    workers: int = 3
    watermark: str = "5 seconds"
    streams: tuple[str, ...] = ("trades",)
    checkpoint: str = ""
    storage: dict[str, Any] | None = None
    active: int | None = None
    plans: Mapping[int, Plan] = field(default_factory=dict)

    def flow(self) -> evenflow.Flow:
        checkpoint = self.checkpoint or str(self.folder / "checkpoint")
        flow = evenflow.Flow(
            self.spark,
            workers=self.workers,
            checkpoint=checkpoint,
            active=self.active,
            storage=self.storage,
        )
        for name in self.streams:
            frame = stream(self.spark, self.folder, name)
            flow.source(name, frame, time=TIMES[name], watermark=self.watermark)
        return flow

    def run(self, flow: evenflow.Flow) -> evenflow.Run:
        """Run over what is there; each of `plans` is decided at the border of its batch."""
        run = flow.start(available_now=True, controller=lambda batch: self.plans.get(batch.number))
        run.await_termination()
        return run


def rows_of(frame: DataFrame) -> Counter[Any]:
    """The rows as a multiset, floats rounded as two orders of summing may differ."""
    return Counter(tuple(_plain(value) for value in row) for row in frame.collect())


def _plain(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


def batch_rows(spark: SparkSession, sql: str, tables: Mapping[str, pa.Table]) -> Counter[Any]:
    """Spark's own answer over all rows at once."""
    for name, rows in tables.items():
        frame = spark.createDataFrame(rows)
        if name in SCHEMAS:
            frame = frame.to(spark.createDataFrame([], SCHEMAS[name]).schema)
        frame.createOrReplaceTempView(name)
    return rows_of(spark.sql(sql))


def reports(run: evenflow.Run) -> list[Report]:
    return [report for batch in run.batches for report in batch.reports]
