"""A continuous TPC-H Q5 over skewed foreign keys (mixed-key-routing, section V, figure 16).

`tpchgen-cli` generates the tables. Orders and line items are streams with a steady rate for an
hour; a line item arrives at most five minutes after its order. Customers, suppliers, nations and
regions are reference tables. The foreign keys `l_orderkey`, `l_suppkey` and `o_custkey` are
replaced by Zipf-distributed ones, so that some orders, suppliers and customers are hot.

Q5 groups by nation, which is not a join key. So it is two queries: `JOIN_SQL`, keyed by the order,
and `REVENUE_SQL` over the stream that it publishes.

Differences from the paper
- A line item refers to an order of the half window before its own. With keys drawn from all orders,
  as in the paper, few line items would meet their order within a window.
- A window slides by a minute; the paper gives only its size.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenflow.datasets.event_time import SECOND_US, START_US, TIMESTAMP
from evenflow.datasets.zipf import draw_zipf
from evenflow.errors import InputError

WINDOW_SECONDS = 300
HOUR_SECONDS = 3_600
DEFAULT_SKEW = 0.8

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "orders": ("o_orderkey", "o_custkey"),
    "lineitem": ("l_orderkey", "l_suppkey", "l_extendedprice", "l_discount"),
    "customer": ("c_custkey", "c_nationkey"),
    "supplier": ("s_suppkey", "s_nationkey"),
    "nation": ("n_nationkey", "n_name", "n_regionkey"),
    "region": ("r_regionkey", "r_name"),
}
STREAMS = ("orders", "lineitem")
TABLES = ("customer", "supplier", "nation", "region")

ORDER_KEY = "orderkey"  # the same name in both streams, as a keyed query needs
JOIN_SQL = """SELECT l.ts, o.orderkey, n.n_name AS nation,
  l.l_extendedprice * (1 - l.l_discount) AS revenue
FROM orders o
JOIN lineitem l ON l.orderkey = o.orderkey
  AND l.ts BETWEEN o.ts AND o.ts + INTERVAL 5 MINUTES
JOIN customer c ON c.c_custkey = o.o_custkey
JOIN supplier s ON s.s_suppkey = l.l_suppkey AND s.s_nationkey = c.c_nationkey
JOIN nation n ON n.n_nationkey = s.s_nationkey
JOIN region r ON r.r_regionkey = n.n_regionkey
WHERE r.r_name = 'ASIA'"""
REVENUE_SQL = """SELECT window.start AS start, nation, sum(revenue) AS revenue
FROM {joined} GROUP BY window(ts, '5 minutes', '1 minute'), nation"""


def generate_tables(folder: Path, scale: float, names: Iterable[str] = COLUMNS) -> None:
    """Write tables of a TPC-H scale factor as Parquet files, with `tpchgen-cli`."""
    scripts = str(Path(sys.executable).parent)
    program = shutil.which("tpchgen-cli", path=scripts) or shutil.which("tpchgen-cli")
    if program is None:
        raise InputError("tpchgen-cli is not installed; run pip install 'evenflow[examples]'")
    tables = ["--tables", ",".join(names), "--output-dir", str(folder)]
    command = [program, "parquet", "--scale-factor", str(scale), *tables]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise InputError(f"tpchgen-cli failed for scale {scale}: {done.stderr.strip()}")


def read_tables(folder: Path, wanted: Mapping[str, Sequence[str]] = COLUMNS) -> dict[str, pa.Table]:
    """Read columns, by default those of Q5, from the files that `generate_tables` wrote."""
    tables = {}
    for name, columns in wanted.items():
        table = pq.read_table(folder / f"{name}.parquet", columns=list(columns))
        fields = [(f.name, pa.string() if _is_string(f.type) else f.type) for f in table.schema]
        tables[name] = table.cast(pa.schema(fields))
    return tables


def skewed_streams(
    tables: Mapping[str, pa.Table],
    rng: np.random.Generator,
    *,
    skew: float = DEFAULT_SKEW,
    seconds: int = HOUR_SECONDS,
) -> dict[str, pa.Table]:
    """Return orders and line items in order of their time `ts`, with skewed foreign keys."""
    if not np.isfinite(skew) or skew < 0:
        raise InputError(f"skew must be 0 or more, got {skew}")
    if seconds < WINDOW_SECONDS:
        raise InputError(f"the streams must last {WINDOW_SECONDS} seconds or more, got {seconds}")
    orders, lines = tables["orders"], tables["lineitem"]
    half_us, span_us = WINDOW_SECONDS * SECOND_US // 2, seconds * SECOND_US
    ordered_us = np.arange(len(orders)) * span_us // max(1, len(orders))
    shipped_us = half_us + np.arange(len(lines)) * span_us // max(1, len(lines))
    chosen = _draw_recent_orders(rng, skew, ordered_us // half_us, shipped_us // half_us)
    customers = _draw_keys(rng, skew, tables["customer"]["c_custkey"], len(orders))
    suppliers = _draw_keys(rng, skew, tables["supplier"]["s_suppkey"], len(lines))
    lines = _with_column(lines, "l_orderkey", orders["o_orderkey"].take(pa.array(chosen)))
    streams = {
        "orders": _with_times(_with_column(orders, "o_custkey", customers), ordered_us),
        "lineitem": _with_times(_with_column(lines, "l_suppkey", suppliers), shipped_us),
    }
    renamed = {"o_orderkey": ORDER_KEY, "l_orderkey": ORDER_KEY}
    return {
        name: rows.rename_columns([renamed.get(c, c) for c in rows.column_names])
        for name, rows in streams.items()
    }


def cut_by_time(rows: pa.Table, seconds: int) -> list[pa.Table]:
    """Split a stream into parts of equal time; a final row without matches closes all windows."""
    times_us = rows["ts"].cast(pa.int64()).to_numpy()
    part = (times_us - START_US) // (seconds * SECOND_US)
    ends = np.searchsorted(part, np.arange(int(part[-1]) + 1), side="right")
    begins = [0, *ends[:-1]]
    parts = [rows.slice(b, e - b) for b, e in zip(begins, ends, strict=True)]
    last_us = times_us[-1:] + HOUR_SECONDS * SECOND_US
    last = [pa.array(last_us).cast(rows.schema.types[0])]
    last += [pa.nulls(1, kind) for kind in rows.schema.types[1:]]
    return [*parts, pa.Table.from_arrays(last, schema=rows.schema)]


def _draw_recent_orders(
    rng: np.random.Generator,
    skew: float,
    ordered: NDArray[np.int64],
    shipped: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Draw a Zipf-distributed order of the previous half window for each line item."""
    chosen = np.empty(len(shipped), dtype=np.int64)
    for half in np.unique(shipped):
        lines = np.flatnonzero(shipped == half)
        orders = np.flatnonzero(ordered == half - 1)
        chosen[lines] = rng.permutation(orders)[draw_zipf(rng, skew, len(orders), len(lines))]
    return chosen


def _draw_keys(
    rng: np.random.Generator, skew: float, keys: pa.ChunkedArray, count: int
) -> pa.ChunkedArray:
    order = rng.permutation(len(keys))
    return keys.take(pa.array(order[draw_zipf(rng, skew, len(keys), count)]))


def _with_times(rows: pa.Table, times_us: NDArray[np.int64]) -> pa.Table:
    times = pa.array(START_US + times_us).cast(TIMESTAMP)
    return rows.add_column(0, "ts", times).combine_chunks()


def _with_column(rows: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind))
