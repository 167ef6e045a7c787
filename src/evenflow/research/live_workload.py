"""What a live experiment plays on Spark: streams cut into batches, queries, and how it is balanced.

Every row costs a query the same emulated time, which workers sleep side by side: so workers set the
pace, as on a cluster, and a batch takes as long as its fullest worker. What Spark needs for a batch
comes on top for all alike.

Hash, ideal and PKG are keys of their own, nothing moves:
- ideal deals rows out in turn, whatever their key;
- PKG sends each row to the less loaded of two workers of its key, and a second query brings the
  partial results together, at the same cost a row: without it no count would be whole.
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
    """A query: keyed over all workers, or whole; `publish` makes a stream of its results."""

    name: str
    sql: str
    key: str | None = None
    publish: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LiveWorkload:
    """A flow over bounded streams.

    streams   stream -> its batches; all streams have equally many
    row_seconds  seconds that a row takes a query
    initial_active  workers in use at first
    activate_after_batch  batch after which all workers are in use; None: they are from the start
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
    """Stand in for a live experiment's run: `evenflow.research.live_runner` plays it instead."""
    raise InputError(f"a live experiment needs Spark to play {dict(point)}")


def point_balancing(point: Point) -> Balancing:
    """Balance keys by the point's planner and tolerance, and nothing else; else the defaults."""
    name, off = str(point["algorithm"]), Balancing.off()
    if name in STATIC_ALGORITHMS:
        return off
    return replace(off, keys=name, max_imbalance=float(point["theta"]))


def count_workload(
    stream: str, key: str, batches: Sequence[pa.Table], point: Point, old: int | None = None
) -> tuple[dict[str, Sequence[pa.Table]], tuple[LiveQuery, ...]]:
    """Return a windowed count of a key under the point's algorithm, and the stream it needs.

    `old` is the number of workers in use until the point's `activate` takes effect.
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
    dealt = []
    for at, rows in enumerate(batches):
        # A worker that is activated after a batch takes rows from the next border but one.
        used = old if old is not None and at <= int(point["activate"]) + 2 else workers
        turns = np.arange(len(rows)) % used
        chosen = turns if name == "ideal" else two_choices(rows[key], used)
        dealt.append(rows.append_column(PART_COLUMN, pa.array(numbers[chosen])))
    if name == "ideal":
        return {stream: dealt}, (replace(counts, publish=False),)
    return {stream: dealt}, (counts, LiveQuery("merged", merge, key))


def keys_by_worker(workers: int) -> Indices:
    """Return a number for each worker that the hash sends there.

    >>> jump_hash(hash_keys(keys_by_worker(3)), 3).tolist()
    [0, 1, 2]
    """
    numbers = np.arange(100 * workers)
    homes = jump_hash(hash_keys(numbers), workers)
    return np.array([numbers[homes == worker][0] for worker in range(workers)])


def two_choices(keys: pa.ChunkedArray, workers: int) -> Indices:
    """Send each row to the one of its key's two workers that had fewer rows so far."""
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
