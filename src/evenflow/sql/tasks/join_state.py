"""The state of a join on one worker: kept rows of each input, and the delta of a batch.

For inputs 1..n the new results are the sum over i of: new rows of i, with all rows (kept and new)
of the inputs after i, and only kept rows of the inputs before i. Every result has exactly one first
input that is new, so each is found once.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from evenflow.model import hash_keys
from evenflow.sql.compile.joins import ROW_ALIAS
from evenflow.sql.engine import ROWS_TABLE, Engine
from evenflow.sql.query_plan import JoinBuffer, JoinProbe, NodeInput, SelectNode
from evenflow.sql.tasks.hash_index import HashIndex
from evenflow.sql.tasks.segments import SegmentStore, SortedRun, row_times_us
from evenflow.sql.types import quote_identifier

BufferIdentity = tuple[object, tuple[tuple[str, str], ...], tuple[str, ...]]


class JoinSide:
    """Kept rows of one input, or of several that keep the same: a self-join keeps its rows once."""

    def __init__(self, buffer: JoinBuffer, key: tuple[str, ...] | None) -> None:
        self.buffer = buffer
        self.retention_us = buffer.retention_us
        self.store = SegmentStore(key)
        self.new_run: SortedRun | None = None
        self._indexes: dict[tuple[str, ...], HashIndex] = {}

    def index(self, columns: tuple[str, ...]) -> HashIndex:
        """Return the index by these columns."""
        if columns not in self._indexes:
            self._indexes[columns] = HashIndex(columns)
        return self._indexes[columns]

    def end_batch(self, watermark_us: int) -> None:
        """End a batch: forget what can no longer match, merge runs."""
        self.new_run = None
        self.store.drop_before(watermark_us - self.retention_us)
        joined = self.store.compact()
        for index in self._indexes.values():
            for parts, merged in joined:
                index.merge_run_indexes(parts, merged)


class JoinState:
    """The state of one join."""

    def __init__(
        self, node: SelectNode, engine: Engine, keys: Mapping[str, tuple[str, ...]] | None
    ) -> None:
        self.node = node
        self.engine = engine
        self.sides: dict[str, JoinSide] = {}
        shared: dict[BufferIdentity, JoinSide] = {}
        for item in node.inputs:
            identity = _buffer_identity(item)
            if identity not in shared:
                shared[identity] = JoinSide(
                    _require_buffer(item), keys[item.alias] if keys else None
                )
            side = shared[identity]
            side.retention_us = max(side.retention_us, _require_buffer(item).retention_us)
            self.sides[item.alias] = side

    def distinct_sides(self) -> list[JoinSide]:
        """List the sides, each once."""
        return list({id(side): side for side in self.sides.values()}.values())

    def add_rows(self, alias: str, rows: pa.Table | None) -> None:
        """Take an input's new rows: those that pass its own conditions, with what is kept."""
        side = self.sides[alias]
        if side.new_run is not None or rows is None or not len(rows):
            return
        select = ", ".join(f"{sql} AS {quote_identifier(c)}" for c, sql in side.buffer.select)
        where = f" WHERE {' AND '.join(side.buffer.where)}" if side.buffer.where else ""
        sql = f"SELECT {select} FROM {quote_identifier(ROWS_TABLE)} AS {quote_identifier(ROW_ALIAS)}{where}"  # noqa: S608
        side.new_run = side.store.append(self.engine.run_prepared(sql, rows))

    def delta_terms(self) -> list[dict[str, pa.Table]]:
        """Give, for each input with new rows, the rows of every input that can match them."""
        order = [item.alias for item in self.node.inputs]
        found = []
        for at, alias in enumerate(order):
            new = self.sides[alias].new_run
            if new is None:
                continue
            rows = {alias: new.rows}
            for probe in self.node.probes[at]:
                fresh = order.index(probe.target) > at
                partners = self._partners(probe, rows[probe.source], fresh)
                if partners is None:
                    break
                rows[probe.target] = partners
            else:
                found.append({alias: rows[alias] for alias in order})
        return found

    def _partners(self, probe: JoinProbe, rows: pa.Table, fresh: bool) -> pa.Table | None:
        side = self.sides[probe.target]
        runs = [run for run in side.store.runs if fresh or run is not side.new_run]
        hashes = hash_keys(*(rows.column(c) for c in probe.source_columns))
        times = row_times_us(rows)
        low, high = times + np.int64(probe.low_us), times + np.int64(probe.high_us)
        parts = side.index(probe.target_columns).fetch(runs, hashes, low, high)
        return pa.concat_tables(parts) if parts else None

    def end_batch(self, watermark_us: int) -> None:
        """End a batch."""
        for side in self.distinct_sides():
            side.end_batch(watermark_us)


def _buffer_identity(item: NodeInput) -> BufferIdentity:
    buffer = _require_buffer(item)
    feed = item.feed if isinstance(item.feed, str) else item.feed.id
    return feed, buffer.select, buffer.where


def _require_buffer(item: NodeInput) -> JoinBuffer:
    if item.buffer is None:
        raise ValueError(f"input {item.alias!r} of a join has no buffer")
    return item.buffer
