"""The state of a join on one worker: buffered rows of each input, and the delta of a batch.

For inputs 1..n the new results are the union over i of: new rows of i, with all rows (buffered and
new) of the inputs after i, and only buffered rows of the inputs before i. In every result exactly
one input is the first that is new, so each is computed once.

In an outer join, rows without a match are found when they are settled: when the watermark has
passed all that could match them. These rows are still buffered then.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from evenflow.model import KeySplit, hash_keys
from evenflow.model.time import NO_WATERMARK_US
from evenflow.sql.engine import ROWS_TABLE, Engine
from evenflow.sql.query_plan import ROW_ALIAS, JoinBuffer, JoinProbe, NodeInput, SelectNode
from evenflow.sql.tasks.hash_index import HashIndex
from evenflow.sql.tasks.segments import SegmentStore, SortedRun, row_times_us
from evenflow.sql.tasks.split_keys import rows_of_owner
from evenflow.sql.types import quote_identifier, select_list_sql

Roles = Mapping[str, Sequence[KeySplit]]


class JoinSide:
    """The buffered rows of one input, or of several with equal buffers, as in a self-join."""

    def __init__(self, buffer: JoinBuffer, key: tuple[str, ...] | None) -> None:
        self.buffer = buffer
        self.retention_us = buffer.retention_us
        self.store = SegmentStore(key)
        self.settled_until_us = NO_WATERMARK_US
        self.new_run: SortedRun | None = None
        self._indexes: dict[tuple[str, ...], HashIndex] = {}

    def index(self, columns: tuple[str, ...]) -> HashIndex:
        """Return the index by these columns."""
        return self._indexes.setdefault(columns, HashIndex(columns))

    def settle(self, until_us: int) -> pa.Table | None:
        """Return the rows before a time that were not settled yet."""
        parts = []
        for run, rows in self.store.rows_between(self.settled_until_us, until_us):
            first = int(np.searchsorted(row_times_us(rows), run.emitted_until_us))
            parts.append(rows.slice(first))
        self.settled_until_us = max(self.settled_until_us, until_us)
        rows = pa.concat_tables(parts) if parts else ()
        return rows if len(rows) else None

    def first_unsettled_us(self) -> int | None:
        """Return the time of the first row that is not settled."""
        found = []
        for run in self.store.runs:
            settled_us = max(self.settled_until_us, run.emitted_until_us)
            first = max(run.first_live, int(np.searchsorted(run.times, settled_us)))
            found += [int(run.times[first])] if first < len(run.times) else []
        return min(found, default=None)

    def end_batch(self, watermark_us: int) -> None:
        """Drop rows that can no longer match, and merge runs."""
        self.new_run = None
        self.store.drop_before(watermark_us - self.retention_us)
        for parts, merged in self.store.compact():
            for index in self._indexes.values():
                index.merge_run_indexes(parts, merged)


class JoinState:
    """The state of one join."""

    def __init__(
        self, node: SelectNode, engine: Engine, keys: Mapping[str, tuple[str, ...]] | None
    ) -> None:
        self.node = node
        self.engine = engine
        self.sides: dict[str, JoinSide] = {}
        shared: dict[object, JoinSide] = {}
        for item in node.inputs:
            buffer = _require_buffer(item)
            feed = item.feed if isinstance(item.feed, str) else item.feed.id
            alone = item.alias if node.outer is not None else ""  # its rows are settled apart
            identity = feed, buffer.select, buffer.where, alone
            if identity not in shared:
                shared[identity] = JoinSide(buffer, keys[item.alias] if keys else None)
            side = self.sides[item.alias] = shared[identity]
            side.retention_us = max(side.retention_us, buffer.retention_us)

    def distinct_sides(self) -> list[JoinSide]:
        """List the sides, each once."""
        return list({id(side): side for side in self.sides.values()}.values())

    def add_rows(self, alias: str, rows: pa.Table | None) -> None:
        """Buffer the new rows of an input that fulfil its conditions."""
        side = self.sides[alias]
        if side.new_run is not None or rows is None or not len(rows):
            return
        source = f"{quote_identifier(ROWS_TABLE)} AS {quote_identifier(ROW_ALIAS)}"
        where = f" WHERE {' AND '.join(side.buffer.where)}" if side.buffer.where else ""
        sql = f"SELECT {select_list_sql(side.buffer.select)} FROM {source}{where}"  # noqa: S608
        side.new_run = side.store.append(self.engine.run_prepared(sql, rows))

    def delta_terms(self, roles: Roles, worker: int) -> list[dict[str, pa.Table]]:
        """Return, for each input with new rows, the rows of every input that can match them.

        `roles` are the inputs that count only rows of this worker, with the split keys they do so
        for.
        """
        order = [item.alias for item in self.node.inputs]
        terms: list[dict[str, pa.Table]] = []
        if self.node.outer is not None and self.node.outer.kind != "OUTER":
            return terms
        for index, alias in enumerate(order):
            new_run = self.sides[alias].new_run
            if new_run is None:
                continue
            rows = {alias: self._own_rows(alias, new_run.rows, roles, worker)}
            for probe in self.node.probes[index] if len(rows[alias]) else ():
                with_new = order.index(probe.target) > index
                matches = self._matches(probe, rows[probe.source], with_new)
                matches = matches and self._own_rows(probe.target, matches, roles, worker)
                if not matches:
                    break
                rows[probe.target] = matches
            if len(rows) == len(order):
                terms.append({alias: rows[alias] for alias in order})
        return terms

    def settled_terms(
        self, roles: Roles, worker: int, watermark_us: int
    ) -> list[dict[str, pa.Table]]:
        """Return the rows of each kept input that are settled now, with those they can match."""
        terms = []
        for index, item in enumerate(self.node.inputs):
            buffer = _require_buffer(item)
            if self.node.outer is None or buffer.settle_us is None:
                continue
            rows = self.sides[item.alias].settle(watermark_us - buffer.settle_us)
            if rows is None or not len(rows := self._own_rows(item.alias, rows, roles, worker)):
                continue
            (probe,) = self.node.probes[index]
            matches = self._matches(probe, rows, with_new=True)
            if matches is None:
                matches = self.node.outer.schemas[probe.target].empty_table()
            terms.append({item.alias: rows, probe.target: matches})
        return terms

    def _kept_sides(self) -> list[tuple[JoinSide, int]]:
        buffers = [(item.alias, _require_buffer(item).settle_us) for item in self.node.inputs]
        return [(self.sides[alias], us) for alias, us in buffers if us is not None]

    def dues_us(self) -> list[int]:
        """Return the watermark at which the first row of each kept input is settled."""
        firsts = [(side.first_unsettled_us(), us) for side, us in self._kept_sides()]
        return [first_us + us + 1 for first_us, us in firsts if first_us is not None]

    def reset_settled(self, watermark_us: int) -> None:
        """Let rows after a watermark that was set back be settled."""
        for side, settle_us in self._kept_sides():
            side.settled_until_us = min(side.settled_until_us, watermark_us - settle_us)

    def _own_rows(self, alias: str, rows: pa.Table, roles: Roles, worker: int) -> pa.Table:
        if alias not in roles:
            return rows
        key = self.sides[alias].store.key_columns or ()
        return rows_of_owner(rows, key, roles[alias], worker)

    def _matches(self, probe: JoinProbe, rows: pa.Table, with_new: bool) -> pa.Table | None:
        side = self.sides[probe.target]
        runs = [run for run in side.store.runs if with_new or run is not side.new_run]
        hashes = hash_keys(*(rows.column(c) for c in probe.source_columns))
        times = row_times_us(rows)
        low, high = times + np.int64(probe.low_us), times + np.int64(probe.high_us)
        parts = side.index(probe.target_columns).fetch(runs, hashes, low, high)
        return pa.concat_tables(parts) if parts else None

    def end_batch(self, watermark_us: int) -> None:
        """Drop rows that can no longer match, and merge runs."""
        for side in self.distinct_sides():
            side.end_batch(watermark_us)


def _require_buffer(item: NodeInput) -> JoinBuffer:
    if item.buffer is None:
        raise ValueError(f"input {item.alias!r} of a join has no buffer")
    return item.buffer
