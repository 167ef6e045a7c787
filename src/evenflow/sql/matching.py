"""The state of a join on one worker: kept rows of each input, and the delta of a batch.

For inputs 1..n the new results are the sum over i of: new rows of i, with all rows (kept and new)
of the inputs after i, and only kept rows of the inputs before i. Every result has exactly one first
input that is new, so each is found once.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from evenflow.model import hash_keys
from evenflow.sql.engine import ROWS, Engine
from evenflow.sql.index import Index
from evenflow.sql.joining import ROW
from evenflow.sql.plan import Block, Buffer, Input, Probe
from evenflow.sql.store import Run, Store, column_times
from evenflow.sql.types import name

Identity = tuple[object, tuple[tuple[str, str], ...], tuple[str, ...]]


class Side:
    """Kept rows of one input, or of several that keep the same: a self-join keeps its rows once."""

    def __init__(self, buffer: Buffer, key: tuple[str, ...] | None) -> None:
        self.buffer = buffer
        self.keep_us = buffer.keep_us
        self.store = Store(key)
        self.new: Run | None = None
        self._indexes: dict[tuple[str, ...], Index] = {}

    def index(self, columns: tuple[str, ...]) -> Index:
        """Return the index by these columns."""
        if columns not in self._indexes:
            self._indexes[columns] = Index(columns)
        return self._indexes[columns]

    def settle(self, watermark_us: int) -> None:
        """End a batch: forget what can no longer match, merge runs."""
        self.new = None
        self.store.forget(watermark_us - self.keep_us)
        joined = self.store.compact()
        for index in self._indexes.values():
            for parts, merged in joined:
                index.merge(parts, merged)


class Matching:
    """The state of one join."""

    def __init__(
        self, node: Block, engine: Engine, keys: Mapping[str, tuple[str, ...]] | None
    ) -> None:
        self.node = node
        self.engine = engine
        self.sides: dict[str, Side] = {}
        shared: dict[Identity, Side] = {}
        for item in node.inputs:
            identity = _identity(item)
            if identity not in shared:
                shared[identity] = Side(_buffer(item), keys[item.alias] if keys else None)
            side = shared[identity]
            side.keep_us = max(side.keep_us, _buffer(item).keep_us)
            self.sides[item.alias] = side

    def distinct(self) -> list[Side]:
        """List the sides, each once."""
        return list({id(side): side for side in self.sides.values()}.values())

    def admit(self, alias: str, rows: pa.Table | None) -> None:
        """Take an input's new rows: those that pass its own conditions, with what is kept."""
        side = self.sides[alias]
        if side.new is not None or rows is None or not len(rows):
            return
        select = ", ".join(f"{sql} AS {name(c)}" for c, sql in side.buffer.select)
        where = f" WHERE {' AND '.join(side.buffer.where)}" if side.buffer.where else ""
        sql = f"SELECT {select} FROM {name(ROWS)} AS {name(ROW)}{where}"  # noqa: S608
        side.new = side.store.append(self.engine.run_again(sql, rows))

    def terms(self) -> list[dict[str, pa.Table]]:
        """Give, for each input with new rows, the rows of every input that can match them."""
        order = [item.alias for item in self.node.inputs]
        found = []
        for at, alias in enumerate(order):
            new = self.sides[alias].new
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

    def _partners(self, probe: Probe, rows: pa.Table, fresh: bool) -> pa.Table | None:
        side = self.sides[probe.target]
        runs = [run for run in side.store.runs if fresh or run is not side.new]
        hashes = hash_keys(*(rows.column(c) for c in probe.source_columns))
        times = column_times(rows)
        low, high = times + np.int64(probe.low_us), times + np.int64(probe.high_us)
        parts = side.index(probe.target_columns).fetch(runs, hashes, low, high)
        return pa.concat_tables(parts) if parts else None

    def settle(self, watermark_us: int) -> None:
        """End a batch."""
        for side in self.distinct():
            side.settle(watermark_us)


def _identity(item: Input) -> Identity:
    buffer = _buffer(item)
    feed = item.feed if isinstance(item.feed, str) else item.feed.id
    return feed, buffer.select, buffer.where


def _buffer(item: Input) -> Buffer:
    if item.buffer is None:
        raise ValueError(f"input {item.alias!r} of a join has no buffer")
    return item.buffer
