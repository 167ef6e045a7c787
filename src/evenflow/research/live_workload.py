"""The workload of a live experiment: streams in batches, queries, and balancing options.

Every row costs a query the same emulated time, for which its worker sleeps. So workers limit the
throughput, as on a cluster: a batch takes as long as its fullest worker, plus Spark's overhead,
which is the same for all algorithms.

The algorithms hash, ideal and PKG move nothing; ideal and PKG add a column to key by:
- ideal assigns rows round robin, whatever their key;
- PKG sends each row to the less loaded of two workers of its key, and a second query merges the
  partial results, at the same cost per row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from evenflow.errors import InputError
from evenflow.jit import kernel
from evenflow.model import hash_keys, jump_hash
from evenflow.model.arrays import Indices, Workers
from evenflow.planning.controller import Balancing
from evenflow.research.points import Point, Row

STATIC_ALGORITHMS = ("hash", "pkg", "ideal")
PART_COLUMN = "part"
COUNT_SQL = """SELECT window.start AS start, {part}{key}, count(*) AS n FROM {stream}
    GROUP BY window(ts, '10 seconds'), {part}{key}"""
MERGE_SQL = """SELECT window.start AS s, {key}, sum(n) AS n FROM counts
    GROUP BY window(start, '10 seconds'), {key}"""


@dataclass(frozen=True, slots=True)
class LiveQuery:
    """A query: keyed if it has a key, else whole; `publish` makes its results a stream."""

    name: str
    sql: str
    key: str | None = None
    publish: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LiveWorkload:
    """A flow over bounded streams.

    streams               stream -> its batches, the same number for all streams
    row_seconds           emulated cost of a row in a query
    initial_active        number of active workers at the start; None: all
    activate_after_batch  batch after which all workers are activated; None: never
    """

    streams: Mapping[str, Sequence[pa.Table]]
    queries: tuple[LiveQuery, ...]
    workers: int
    balancing: Balancing
    row_seconds: float
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    initial_active: int | None = None
    activate_after_batch: int | None = None


def requires_spark(point: Point) -> list[Row]:
    """Refuse to run: `evenflow.research.live_runner` replaces this `run` of a live experiment."""
    raise InputError(f"a live experiment needs a Spark session to run {dict(point)}")


def point_balancing(point: Point) -> Balancing:
    """Return options that balance only keys, with the planner and tolerance of the point."""
    name, off = str(point["algorithm"]), Balancing.off()
    if name in STATIC_ALGORITHMS:
        return off
    return replace(off, keys=name, max_imbalance=float(point["theta"]))


def count_workload(
    stream: str, key: str, batches: Sequence[pa.Table], point: Point, old: int | None = None
) -> tuple[dict[str, Sequence[pa.Table]], tuple[LiveQuery, ...]]:
    """Return the stream and the queries of a windowed count under the point's algorithm.

    `old` is the number of active workers until the point's `activate` takes effect.
    """
    name, workers = str(point["algorithm"]), int(point["workers"])
    if name not in ("pkg", "ideal"):
        return {stream: batches}, (
            LiveQuery("counts", COUNT_SQL.format(part="", key=key, stream=stream), key),
        )
    sql = COUNT_SQL.format(part=f"{PART_COLUMN}, ", key=key, stream=stream)
    counts = LiveQuery("counts", sql, PART_COLUMN, publish=True)
    merge = MERGE_SQL.format(key=key)
    numbers = keys_by_worker(workers)
    routed = []
    for batch, rows in enumerate(batches):
        # A worker activated after a batch gets rows from the second batch after it.
        active = old if old is not None and batch <= int(point["activate"]) + 2 else workers
        round_robin = np.arange(len(rows)) % active
        chosen = round_robin if name == "ideal" else two_choices(rows[key], active)
        routed.append(rows.append_column(PART_COLUMN, pa.array(numbers[chosen])))
    if name == "ideal":
        return {stream: routed}, (replace(counts, publish=False),)
    return {stream: routed}, (counts, LiveQuery("merged", merge, key))


def keys_by_worker(workers: int) -> Indices:
    """Return for each worker a number that hashes to it.

    >>> jump_hash(hash_keys(keys_by_worker(3)), 3).tolist()
    [0, 1, 2]
    """
    numbers = np.arange(100 * workers)
    owners = jump_hash(hash_keys(numbers), workers)
    return np.array([numbers[owners == worker][0] for worker in range(workers)])


def two_choices(keys: pa.ChunkedArray, workers: int) -> Indices:
    """Return the worker of each row: the one of its key's two with fewer rows so far."""
    hashes = hash_keys(keys)
    second = jump_hash(hash_keys(hashes.view(np.int64)), workers)
    return _choose_less_loaded(jump_hash(hashes, workers), second, workers)


@kernel
def _choose_less_loaded(first: Workers, second: Workers, workers: int) -> Indices:
    loads, chosen = np.zeros(workers, dtype=np.int64), np.empty(len(first), dtype=np.int64)
    for at in range(len(first)):
        to = first[at] if loads[first[at]] <= loads[second[at]] else second[at]
        loads[to] += 1
        chosen[at] = to
    return chosen
