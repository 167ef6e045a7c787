"""The state of an aggregate in update mode: a step also returns the groups that changed in it.

Only the partial rows of groups that changed are read, by an index of hashes.
"""

import numpy as np
import pyarrow as pa

from evenflow.model import hash_keys
from evenflow.model.time import NO_WATERMARK_US
from evenflow.sql.engine import ROWS_TABLE, Engine
from evenflow.sql.query_plan import AggregateNode
from evenflow.sql.tasks.hash_index import HashIndex
from evenflow.sql.tasks.pane_state import PaneState, due_window_starts, result_sql, window_merge_sql
from evenflow.sql.types import is_hashable, quote_identifier, select_list_sql

_ROWS = quote_identifier(ROWS_TABLE)


class UpdateState(PaneState):
    """Partial rows of one aggregate over windows; `changed` are panes and groups of this step."""

    def __init__(self, node: AggregateNode, engine: Engine, key: tuple[str, ...] | None) -> None:
        super().__init__(node, engine, key)
        self.changed: list[pa.Table] = []
        kinds = {field.name: field.type for field in node.partial_schema}
        self._index = HashIndex(tuple(name for name in node.keys if is_hashable(kinds[name])))

    def keep(self, partial: pa.Table) -> None:
        """Keep partial rows, and remember their panes and groups."""
        super().keep(partial)
        if len(partial):
            self.changed.append(partial.select(["_t", *self.node.keys]))

    def emit_early(self, clock_us: int) -> pa.Table:
        """Return the results so far of the windows that changed and are still open."""
        if not self.changed:
            return self._empty
        changed, self.changed = pa.concat_tables(self.changed), []
        windows = self.node.windows
        panes = np.unique(changed.column("_t").to_numpy())
        starts = due_window_starts(windows, panes, clock_us, -NO_WATERMARK_US)
        if not len(starts):
            return self._empty
        low, high = int(starts.min()), int(starts.max()) + windows.size_us
        rows = self.rows_of(changed, low, high)
        tables = {"_changed": changed, "_partial": rows, "_open": pa.table({"_ws": starts})}
        covers = f'p."_t" >= o."_ws" AND p."_t" < o."_ws" + {windows.size_us}'
        groups = "".join(f", {quote_identifier(key)}" for key in self.node.keys)
        open_groups = f'SELECT DISTINCT "_ws"{groups} FROM _changed p JOIN _open o ON {covers}'  # noqa: S608
        open_rows = f'SELECT p.*, o."_ws" FROM _partial p JOIN _open o ON {covers}'  # noqa: S608
        same = f'r."_ws" = g."_ws"{self._same_group("r", "g")}'
        source = f"(SELECT r.* FROM ({open_rows}) r SEMI JOIN ({open_groups}) g ON {same})"  # noqa: S608
        sql = result_sql(self.node, window_merge_sql(self.node, source), is_final=False)
        return self.engine.run(sql, tables).cast(self._empty.schema)

    def rows_of(self, changed: pa.Table, low_us: int, high_us: int) -> pa.Table:
        """Return the kept rows of some groups with a time in [low_us, high_us), and maybe more."""
        columns = self._index.columns
        if not columns:
            found = [rows for _, rows in self.store.rows_between(low_us, high_us)]
        else:
            hashes = np.unique(hash_keys(*(changed.column(name) for name in columns)))
            low, high = (np.full(len(hashes), at, np.int64) for at in (low_us, high_us - 1))
            found = self._index.fetch(self.store.runs, hashes, low, high)
        return pa.concat_tables([self.node.partial_schema.empty_table(), *found])

    def _same_group(self, left: str, right: str) -> str:
        names = map(quote_identifier, self.node.keys)
        return "".join(f" AND {left}.{n} IS NOT DISTINCT FROM {right}.{n}" for n in names)


class GroupState(UpdateState):
    """Partial rows of groups without a window, each remembered until it has no row for the ttl.

    A partial row covers the times `_b` to `_t`. The rows of a group that are not further apart than
    the ttl are one life of it; its result is that of the last life. Rows before the watermark are
    dropped, so a life that the clock has passed can never grow: when it is removed does not matter.
    """

    def add_partials(self, partial: pa.Table, clock_us: int, **_: object) -> int:
        """Add partial rows, none of which is late."""
        del clock_us
        self.keep(partial)
        return 0

    def emit_due_windows(self, clock_us: int) -> pa.Table:
        """Forget groups, at most every half of the ttl; there are no final results."""
        due_us = self.next_due_us()
        if due_us is not None and due_us <= clock_us:
            lives = self.merge_partials(pa.concat_tables([r.live_rows for r in self.store.runs]))
            self.store.release(None)
            alive = lives.column("_t").to_numpy() >= clock_us - self._ttl_us
            self.store.append(lives.filter(pa.array(alive)))
        return self._empty

    def next_due_us(self) -> int | None:
        """Return the clock at which there may be groups to forget."""
        firsts = [int(run.times[run.first_live]) for run in self.store.runs]
        return min(firsts) + self._ttl_us + self._ttl_us // 2 if firsts else None

    def emit_early(self, clock_us: int) -> pa.Table:
        """Return the results so far of the groups that changed."""
        if not self.changed:
            return self._empty
        changed, self.changed = pa.concat_tables(self.changed), []
        tables = {
            "_changed": changed,
            "_partial": self.rows_of(changed, NO_WATERMARK_US, -NO_WATERMARK_US),
        }
        rows = (
            f"(SELECT p.* FROM _partial p SEMI JOIN _changed c ON TRUE{self._same_group('p', 'c')})"  # noqa: S608
        )
        lives = f"({_lives_sql(self.node, rows)})"
        groups = ", ".join(map(quote_identifier, self.node.keys))
        partition = f"PARTITION BY {groups} " if groups else ""
        last = (
            f'SELECT * FROM {lives} QUALIFY row_number() OVER ({partition}ORDER BY "_t" DESC) = 1'  # noqa: S608
        )
        sql = result_sql(self.node, last, is_final=False)
        return self.engine.run(sql, tables).cast(self._empty.schema)

    def merge_partials(self, rows: pa.Table) -> pa.Table:
        """Merge partial rows into one per life of a group."""
        merged = self.engine.run_prepared(_lives_sql(self.node, _ROWS), rows)
        return merged.cast(self.node.partial_schema)

    @property
    def _ttl_us(self) -> int:
        ttl_us = self.node.windows.ttl_us
        if ttl_us is None:
            raise ValueError("an aggregate over windows has no ttl")
        return ttl_us


def _lives_sql(node: AggregateNode, source: str) -> str:
    keys = ", ".join(map(quote_identifier, node.keys))
    groups, partition = (f"{keys}, ", f"PARTITION BY {keys} ") if keys else ("", "")
    order = f'{partition}ORDER BY "_b", "_t"'
    before = f'max("_t") OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)'
    is_same = f'"_b" - {before} <= {node.windows.ttl_us}'
    numbered = f'SELECT *, CASE WHEN {is_same} THEN 0 ELSE 1 END AS "_new" FROM {source}'  # noqa: S608
    count = f'sum("_new") OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)'
    rows = f'SELECT *, {count} AS "_life" FROM ({numbered})'  # noqa: S608
    return (
        f'SELECT max("_t") AS "_t", {groups}{select_list_sql(node.merges)} FROM ({rows}) '  # noqa: S608
        f'GROUP BY {groups}"_life"'
    )
