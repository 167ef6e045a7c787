"""The same query, once over all rows by DuckDB and once batch by batch on tasks that swap keys.

Spark's `window(ts, ...)` does not exist in DuckDB, so a case carries the batch query's text too.
"""

from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from evenflow.model import hash_keys
from evenflow.sql import Catalog, Engine, Program, QueryTask, Stream, Task
from evenflow.sql.query_plan import combined_feeds
from evenflow.storage.bundle import pack, unpack

SECOND = 1_000_000
DELAY_US = 5 * SECOND
TRADES = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("symbol", pa.string()),
        ("venue", pa.int32()),
        ("price", pa.float64()),
        ("qty", pa.int64()),
        ("fee", pa.decimal128(10, 2)),
    ]
)
QUOTES = pa.schema(
    [
        ("qt", pa.timestamp("us", "UTC")),
        ("sym", pa.string()),
        ("v", pa.int64()),
        ("bid", pa.int32()),
    ]
)
SECTORS = pa.schema([("symbol", pa.string()), ("sector", pa.string())])
CATALOG = Catalog(
    {"trades": Stream(TRADES, "ts", DELAY_US), "quotes": Stream(QUOTES, "qt", DELAY_US)},
    {"sectors": SECTORS},
)
TABLES = {
    "sectors": pa.table(
        {"symbol": ["a", "b", "b", "e"], "sector": ["x", "y", "z", "x"]}, schema=SECTORS
    )
}


@dataclass
class Rows:
    """Rows of both streams, cut into batches, with the watermark before each batch."""

    batches: list[dict[str, pa.Table]]
    watermarks: list[int]

    def all(self, stream: str) -> pa.Table:
        return pa.concat_tables([batch[stream] for batch in self.batches])


@st.composite
def rows(draw: st.DrawFn, size: int = 60) -> Rows:
    """Draw rows whose times run forward but jitter by up to the watermark's delay."""
    seed = draw(st.integers(0, 2**32 - 1))
    count = draw(st.integers(0, size))
    cuts = draw(st.integers(1, 6))
    span_s = draw(st.sampled_from([5, 40, 200]))
    return made(np.random.default_rng(seed), count, cuts, span_s)


def made(rng: np.random.Generator, count: int, cuts: int, span_s: int) -> Rows:
    parts: dict[str, list[pa.Table]] = {}
    for stream, make in (("trades", _trades), ("quotes", _quotes)):
        steady = np.sort(rng.integers(0, span_s * SECOND, count))
        times = steady - rng.integers(0, DELAY_US, count) + 100 * SECOND
        times -= times % (SECOND // 4)  # so that equal times and window borders happen
        whole = make(rng, times)
        ends = np.sort(rng.integers(0, count + 1, cuts - 1)).tolist()
        begins = [0, *ends]
        parts[stream] = [whole.slice(b, e - b) for b, e in zip(begins, [*ends, count], strict=True)]
    batches = [dict(zip(parts, cut, strict=True)) for cut in zip(*parts.values(), strict=True)]
    return Rows(batches, watermarks(batches, {"trades": "ts", "quotes": "qt"}))


def watermarks(batches: list[dict[str, pa.Table]], times: dict[str, str]) -> list[int]:
    """Let the watermark before a batch be the least stream's maximum so far, less the delay."""
    seen = dict.fromkeys(times, -(1 << 60))
    found = []
    for batch in batches:
        found.append(min(seen.values()) - DELAY_US)
        for stream, column in times.items():
            if len(batch[stream]):
                newest = pc.max(batch[stream][column].cast(pa.int64())).as_py()
                seen[stream] = max(seen[stream], newest)
    return found


def _pick(rng: np.random.Generator, values: list[object], count: int) -> list[object]:
    return [values[i] for i in rng.integers(0, len(values), count)]


def _trades(rng: np.random.Generator, times: np.ndarray) -> pa.Table:
    n = len(times)
    cents = rng.integers(-500, 500, n)
    columns = [
        pa.array(times).cast(pa.timestamp("us", "UTC")),
        pa.array(_pick(rng, ["a", "b", "c", "d'", None], n), pa.string()),
        pa.array(_pick(rng, [1, 2, 3, None], n), pa.int32()),
        pa.array(_pick(rng, [1.0, 2.5, -3.25, 1e6, None], n), pa.float64()),
        pa.array(rng.integers(-3, 9, n)),
        pa.array(cents, pa.int32()).cast(pa.decimal128(12, 2)).cast(pa.decimal128(10, 2)),
    ]
    return pa.Table.from_arrays(columns, schema=TRADES)


def _quotes(rng: np.random.Generator, times: np.ndarray) -> pa.Table:
    n = len(times)
    columns = [
        pa.array(times).cast(pa.timestamp("us", "UTC")),
        pa.array(_pick(rng, ["a", "b", "c", None], n), pa.string()),
        pa.array(_pick(rng, [1, 2, 3, None], n), pa.int64()),
        pa.array(rng.integers(0, 5, n), pa.int32()),
    ]
    return pa.Table.from_arrays(columns, schema=QUOTES)


def batch_answer(sql: str, given: Rows) -> pa.Table:
    """Answer over all rows at once."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for stream in ("trades", "quotes"):
            connection.register(stream, given.all(stream))
        connection.register("sectors", TABLES["sectors"])
        return connection.sql(sql).to_arrow_table()


@dataclass
class Cluster:
    """Two tasks of one program; rows go to the owner of their key, keys change owners."""

    program: Program
    engine: Engine
    rng: np.random.Generator
    tables: dict[str, pa.Table] = field(default_factory=lambda: TABLES)
    late: int = 0
    steps: int = 0
    results: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tasks: list[QueryTask] = [self._open(), self._open()]
        self.salt = np.uint64(0)

    def run(self, given: Rows) -> pa.Table:
        for batch, watermark in zip(given.batches, given.watermarks, strict=True):
            self._step(batch, watermark)
            self._disturb()
        self._step({}, 1 << 60)
        return pa.concat_tables(self.results)

    def _step(self, batch: dict[str, pa.Table], watermark: int) -> None:
        self.steps += 1
        partials: dict[int, pa.Table] = {}
        combines = isinstance(self.program, Program) and combined_feeds(self.program.plan)
        if combines and self.rng.random() < 0.5:
            batch, partials = {}, self._combined(batch)
        for at, task in enumerate(self.tasks):
            mine = {s: self._share(s, rows, at) for s, rows in batch.items()}
            summed = {i: self._partial_share(i, rows, at) for i, rows in partials.items()}
            new = any(map(len, (*mine.values(), *summed.values())))
            idle = not new and not is_due(task, watermark)
            if idle and self.rng.random() < 0.5:
                continue  # nothing to do: the worker is not called
            task.batch = self.steps
            out = task.step(mine, watermark, summed) if summed else task.step(mine, watermark)
            assert out.rows.schema == self.program.schema
            self.late += sum(out.late.values())
            self.results.append(out.rows)

    def _share(self, stream: str, rows: pa.Table, at: int) -> pa.Table:
        key = self.program.key
        if key is None or stream not in key:
            return rows if at == 0 else rows.slice(0, 0)
        hashes = hash_keys(*(rows[column] for column in key[stream]))
        return rows.filter(pa.array(self._owner(hashes) == at))

    def _combined(self, batch: dict[str, pa.Table]) -> dict[int, pa.Table]:
        """Sum up the rows of a batch in two chunks each, as two router tasks would."""
        parts: dict[int, list[pa.Table]] = {}
        for stream, rows in batch.items():
            cut = int(self.rng.integers(len(rows) + 1))
            for chunk in (rows.slice(0, cut), rows.slice(cut)):
                for feed, partial in self.tasks[0].combine(stream, chunk).items():
                    parts.setdefault(feed, []).append(unpack(pack(partial)))
        filled = {feed: [p for p in each if len(p)] for feed, each in parts.items()}
        return {feed: pa.concat_tables(each) for feed, each in filled.items() if each}

    def _partial_share(self, feed: int, rows: pa.Table, at: int) -> pa.Table:
        [item] = [item for item in combined_feeds(self.program.plan) if item.feed.id == feed]
        if not item.key_columns:
            return rows if at == 0 else rows.slice(0, 0)
        hashes = hash_keys(*(rows[column] for column in item.key_columns))
        return rows.filter(pa.array(self._owner(hashes) == at))

    def _owner(self, hashes: np.ndarray) -> np.ndarray:
        return np.asarray(((hashes ^ self.salt) * np.uint64(0x9E3779B185EBCA87)) >> np.uint64(63))

    def _disturb(self) -> None:
        """Restart a task from its segments, or give keys other owners."""
        if self.rng.random() < 0.5:
            at = int(self.rng.integers(2))
            self.tasks[at] = self._reopened(self.tasks[at])
        if (
            self.rng.random() < 0.5
            and self.program.key is not None
            and self.program.kind != "stateless"
        ):
            self.salt = np.uint64(self.rng.integers(1 << 32))
            blobs = [
                self.tasks[0].release(lambda hashes: self._owner(hashes) != 0),
                self.tasks[1].release(lambda hashes: self._owner(hashes) != 1),
            ]
            for at, blob in enumerate(blobs):
                if blob is not None:
                    self.tasks[1 - at].accept(blob)
        elif self.program.key is None and self.rng.random() < 0.5:
            blob = self.tasks[0].release_all()
            fresh = self._open()
            if blob is not None:
                fresh.accept(blob)
            self.tasks[0] = fresh

    def _open(self) -> QueryTask:
        return self.program.open(self.engine, self.tables)

    def _reopened(self, task: QueryTask) -> QueryTask:
        saved = task.save()
        self.segments = {**getattr(self, "segments", {}), **saved.segments}
        fresh = self._open()
        fresh.load(saved.manifest, self.segments.__getitem__)
        assert fresh.next_due_us == task.next_due_us
        task.close()
        return fresh


def is_due(task: Task, watermark: int) -> bool:
    return task.next_due_us is not None and task.next_due_us <= watermark


def same(got: pa.Table, wanted: pa.Table) -> None:
    """Compare as multisets; doubles to nine digits, since sums depend on order."""
    assert got.num_columns == wanted.num_columns, (got.schema, wanted.schema)
    wanted = wanted.rename_columns(got.schema.names).cast(got.schema)
    assert sorted(map(_line, got.to_pylist())) == sorted(map(_line, wanted.to_pylist()))


def _line(row: dict[str, object]) -> str:
    return repr([_rounded(value) for value in row.values()])


def _rounded(value: object) -> object:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return f"{value:.9e}" if isinstance(value, float) else value
