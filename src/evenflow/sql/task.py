"""The state of one query on one worker, and what a batch does to it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.sql.engine import Engine
from evenflow.sql.matching import Matching
from evenflow.sql.panes import Panes
from evenflow.sql.plan import Block, Group, Node, Union, origin, walk
from evenflow.sql.store import NEVER, Select, Store
from evenflow.sql.types import from_spark, name, physical, physical_schema

if TYPE_CHECKING:
    from evenflow.sql.program import Program

VERSION = 1
EARLIEST_US = -2_208_988_800_000_000  # 1900
LATEST_US = 7_258_118_400_000_000  # 2200


@dataclass(frozen=True, slots=True)
class Output:
    """What a batch gave: result rows, and per stream the rows too late or without a sane time."""

    rows: pa.Table
    late: Mapping[str, int] = field(default_factory=dict)
    poison: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Saved:
    """A state: `manifest` names all its segments, `segments` are those not handed out before."""

    manifest: bytes
    segments: Mapping[str, pa.Table]


class Task:
    """One query's state on one worker. Batches come in order; after a failure, drop the task."""

    def __init__(self, program: "Program", engine: Engine, tables: Mapping[str, pa.Table]) -> None:
        self.program = program
        self.engine = engine
        self._tables = {n: engine.keep(plain(table)) for n, table in tables.items()}
        self._nodes = walk(program.root)
        split = program.store_keys
        self._panes = {
            node.id: Panes(node, engine, split.get((node.id, "")))
            for node in self._nodes
            if isinstance(node, Group)
        }
        self._joins = {
            node.id: Matching(
                node, engine, {i.alias: split[node.id, i.alias] for i in node.inputs if split}
            )
            for node in self._nodes
            if isinstance(node, Block) and node.probes
        }
        self._stateful = bool(self._panes or self._joins)
        self._watermark_us = NEVER

    def step(self, rows: Mapping[str, pa.Table], watermark_us: int) -> Output:
        """Take a batch's new rows of each stream, and give the results they and the time bring.

        `watermark_us` was known before the batch: no window that it completes may still get rows.
        """
        self._watermark_us = max(self._watermark_us, watermark_us)
        batch = _Batch(self, {s: plain(t) for s, t in rows.items()}, self._watermark_us)
        result = batch.rows_of(self.program.root)
        return Output(finished(result, self.program.schema), batch.late, batch.poison)

    @property
    def state_bytes(self) -> int:
        """Bytes of the state."""
        return sum(store.nbytes for store in self._stores().values())

    @property
    def next_due_us(self) -> int | None:
        """The watermark that will bring results without new rows, if any will."""
        dues = []
        for panes in self._panes.values():
            if (end := panes.next_due_us()) is not None:
                dues.append(end + panes.node.windows.lag_us)
        return min(dues, default=None)

    def save(self) -> Saved:
        """Hand out the state; segments are immutable and named once and for all."""
        stores: dict[str, object] = {}
        segments: dict[str, pa.Table] = {}
        for label, store in self._stores().items():
            stores[label], fresh = store.save()
            segments |= fresh
        manifest = {
            "version": VERSION,
            "watermark_us": self._watermark_us,
            "answered_us": {str(i): panes.answered_us for i, panes in self._panes.items()},
            "stores": stores,
        }
        return Saved(json.dumps(manifest, separators=(",", ":")).encode(), segments)

    def load(self, manifest: bytes, read: Callable[[str], pa.Table]) -> None:
        """Take on a saved state; the task must be fresh."""
        saved = json.loads(manifest)
        if saved.get("version") != VERSION:
            raise ValueError(f"the state is of version {saved.get('version')}, not {VERSION}")
        self._watermark_us = saved["watermark_us"]
        for label, answered_us in saved["answered_us"].items():
            self._panes[int(label)].answered_us = answered_us
        for label, store in self._stores().items():
            store.load(saved["stores"].get(label, []), read)

    def release(self, select: Select) -> bytes | None:
        """Take out the state of the selected keys, for another task to accept."""
        return self._release(select)

    def release_all(self) -> bytes | None:
        """Take out the whole state."""
        return self._release(None)

    def accept(self, blob: bytes) -> None:
        """Take in what another task of this query released."""
        for entry in pa.ipc.open_stream(blob).read_all().to_pylist():
            store = self._stores()[entry["store"]]
            rows = pa.ipc.open_stream(entry["rows"]).read_all()
            self._accept(store, rows, entry["floor_us"])

    def close(self) -> None:
        """Give back what the task holds in the engine."""
        for kept in self._tables.values():
            self.engine.drop(kept)

    def _accept(self, store: Store, rows: pa.Table, floor_us: int) -> None:
        store.append(rows, floor_us)

    def _release(self, select: Select | None) -> bytes | None:
        entries = []
        for label, store in self._stores().items():
            floor = NEVER
            if label.startswith("panes"):
                floor = self._panes[int(label.split(":")[1])].answered_us
            for rows in store.release(select):
                entries.append({"store": label, "floor_us": floor, "rows": _ipc(rows)})
        if not entries:
            return None
        kinds = pa.schema(
            [("store", pa.string()), ("floor_us", pa.int64()), ("rows", pa.large_binary())]
        )
        return _ipc(pa.Table.from_pylist(entries, schema=kinds))

    def _stores(self) -> dict[str, Store]:
        found = {f"panes:{i}": panes.store for i, panes in self._panes.items()}
        for i, join in self._joins.items():
            found |= {f"join:{i}:{at}": side.store for at, side in enumerate(join.distinct())}
        return found


class _Batch:
    """One pass over the tree: each node's new rows, computed once."""

    def __init__(self, task: Task, rows: Mapping[str, pa.Table], watermark_us: int) -> None:
        self.task = task
        self.watermark_us = watermark_us
        self.late: dict[str, int] = {}
        self.poison: dict[str, int] = {}
        self._rows = dict(rows)
        self._done: dict[int, pa.Table] = {}
        if task._stateful:
            for stream, column in task.program.times.items():
                self._set_aside(stream, column)

    def rows_of(self, node: Node) -> pa.Table:
        """Give a node's new rows."""
        if node.id not in self._done:
            if isinstance(node, Union):
                schema = physical_schema(node.relation.schema)
                parts = [self.rows_of(p).rename_columns(schema.names) for p in node.parts]
                self._done[node.id] = pa.concat_tables([p.cast(schema) for p in parts])
            elif isinstance(node, Group):
                self._done[node.id] = self._group(node)
            else:
                self._done[node.id] = self._block(node)
        return self._done[node.id]

    def _set_aside(self, stream: str, column: str) -> None:
        """Drop rows without a sane time: they belong to no window and would never be forgotten."""
        rows = self._rows.get(stream)
        if rows is None or not len(rows):
            return
        good = sane(rows.column(column))
        bad = len(rows) - int(pc.sum(good).as_py())
        if bad:
            self.poison[stream] = bad
            self._rows[stream] = rows.filter(good)

    def _group(self, node: Group) -> pa.Table:
        panes = self.task._panes[node.id]
        clock = self.watermark_us - node.windows.lag_us
        straight = [origin(feed) for feed in node.feeds]
        # Rows straight from a stream cannot belong to a window the watermark completes: those that
        # would are late. Rows of nodes below can, and come first.
        below = [f for f, stream in zip(node.feeds, straight, strict=True) if stream is None]
        for feed in below:
            panes.take(self.rows_of(feed), clock, may_be_late=False)
        answers = panes.answer(clock)
        for feed, stream in zip(node.feeds, straight, strict=True):
            if stream is not None:
                late = panes.take(self.rows_of(feed), clock, may_be_late=True)
                if late:
                    self.late[stream] = max(self.late.get(stream, 0), late)
        panes.store.compact()
        return answers

    def _block(self, node: Block) -> pa.Table:
        if node.probes:
            return self._join(node)
        rows = self._input(node.inputs[0].feed, node.inputs[0].strict)
        if rows is None or not len(rows):
            return self._empty(node)
        sql = block_sql(node, {node.inputs[0].alias: "_rows"}, self.task._tables)
        return self._run(node, sql, {"_rows": rows})

    def _join(self, node: Block) -> pa.Table:
        join = self.task._joins[node.id]
        for item in node.inputs:
            join.admit(item.alias, self._input(item.feed, item.strict))
        parts: list[str] = []
        tables: dict[str, pa.Table] = {}
        for at, term in enumerate(join.terms()):
            named = {alias: f"_{at}_{place}" for place, alias in enumerate(term)}
            tables |= {named[alias]: rows for alias, rows in term.items()}
            parts.append(block_sql(node, named, self.task._tables))
        made = self._empty(node)
        if parts:
            made = self._run(node, " UNION ALL ".join(f"({sql})" for sql in parts), tables)
        join.settle(self.watermark_us)
        return made

    def _run(self, node: Block, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        made = self.task.engine.run(sql, tables)
        return made if node.grouped else made.cast(physical_schema(node.relation.schema))

    def _empty(self, node: Block) -> pa.Table:
        if node.grouped:
            return pa.table({})
        return physical_schema(node.relation.schema).empty_table()

    def _input(self, feed: str | Node, strict: bool) -> pa.Table | None:
        if not isinstance(feed, str):
            return self.rows_of(feed)
        rows = self._rows.get(feed)
        if rows is None or not strict or not len(rows):
            return rows
        times = rows.column(self.task.program.times[feed])
        timely = pc.greater_equal(times.cast(pa.int64()), self.watermark_us)
        late = len(rows) - int(pc.sum(timely).as_py())
        if late:
            self.late[feed] = max(self.late.get(feed, 0), late)
            rows = rows.filter(timely)
        return rows


def block_sql(node: Block, rows: Mapping[str, str], tables: Mapping[str, str]) -> str:
    """Write the SELECT of a block over tables of the given names."""
    select = ", ".join(f"{sql} AS {name(c)}" for c, sql in node.select)
    parts = [f"{name(table)} AS {name(alias)}" for alias, table in rows.items()]
    parts += [
        f"{name(tables[r.table])} AS {name(r.alias)}" for r in node.references if r.on is None
    ]
    source = " CROSS JOIN ".join(parts)
    for r in node.references:
        if r.on is not None:
            source += f" LEFT JOIN {name(tables[r.table])} AS {name(r.alias)} ON {r.on}"
    where = f" WHERE {' AND '.join(node.where)}" if node.where else ""
    ending = " GROUP BY ALL" if node.grouped else ""
    return f"SELECT {select} FROM {source}{where}{ending}"  # noqa: S608


def plain(rows: pa.Table) -> pa.Table:
    """Bring rows from outside to the types used between nodes."""
    wanted = pa.schema([pa.field(f.name, physical(from_spark(f.type))) for f in rows.schema])
    if rows.schema.equals(wanted):
        return rows
    return rows.cast(wanted)


def finished(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give results Spark's types."""
    return rows.rename_columns(schema.names).cast(schema)


def sane(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Tell which event times are there and between 1900 and 2200."""
    moments = times.cast(pa.timestamp("us")).cast(pa.int64())
    inside = pc.and_(pc.greater_equal(moments, EARLIEST_US), pc.less_equal(moments, LATEST_US))
    return pc.fill_null(inside, False)


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
