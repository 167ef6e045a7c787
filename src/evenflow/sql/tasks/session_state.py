"""The state of an aggregate over sessions: a partial row for each session that is still open.

`_t` is the start of a session and `_e` its end: a row before it extends the session. A new row is a
session of its own; sessions of a group that overlap are merged, in any order.
"""

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.sql.engine import ROWS_TABLE
from evenflow.sql.query_plan import AggregateNode
from evenflow.sql.tasks.pane_state import PaneState
from evenflow.sql.types import quote_identifier, select_list_sql

_ROWS = quote_identifier(ROWS_TABLE)


class SessionState(PaneState):
    """Partial rows of one aggregate over sessions."""

    def merge_partials(self, rows: pa.Table) -> pa.Table:
        """Merge the sessions that overlap."""
        return self.engine.run_prepared(_merge_sql(self.node), rows).cast(self.node.partial_schema)

    def emit_due_windows(self, clock_us: int) -> pa.Table:
        """Return the results of the sessions that the clock has passed, and drop them."""
        self.emitted_until_us = max(self.emitted_until_us, clock_us)
        due_us = self.next_due_us()
        if due_us is None or due_us > clock_us:
            return self._empty
        sessions = self.merge_partials(pa.concat_tables([r.live_rows for r in self.store.runs]))
        is_due = pc.less_equal(sessions.column("_e"), clock_us)
        self.store.release(None)
        self.store.append(sessions.filter(pc.invert(is_due)))
        due = sessions.filter(is_due)
        if not len(due):
            return self._empty
        return self.engine.run_prepared(_result_sql(self.node), due).cast(self._empty.schema)

    def next_due_us(self) -> int | None:
        """Return the clock at which a session ends, unless it is merged with a later one."""
        ends = [pc.min(run.live_rows.column("_e")).as_py() for run in self.store.runs]
        return min(ends, default=None)


def _merge_sql(node: AggregateNode) -> str:
    keys = ", ".join(map(quote_identifier, node.keys))
    groups, partition = (f"{keys}, ", f"PARTITION BY {keys} ") if keys else ("", "")
    order = f'{partition}ORDER BY "_t", "_e"'
    before = f'max("_e") OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)'
    starts = f'SELECT *, CASE WHEN "_t" < {before} THEN 0 ELSE 1 END AS "_new" FROM {_ROWS}'  # noqa: S608
    rows = f'sum("_new") OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)'
    numbered = f'SELECT *, {rows} AS "_s" FROM ({starts})'  # noqa: S608
    return (
        f'SELECT min("_t") AS "_t", {groups}{select_list_sql(node.merges)} FROM ({numbered}) '  # noqa: S608
        f'GROUP BY {groups}"_s"'
    )


def _result_sql(node: AggregateNode) -> str:
    having = f" WHERE {node.having}" if node.having else ""
    sessions = f'SELECT *, "_t" AS "_ws", "_e" AS "_we" FROM {_ROWS}'  # noqa: S608
    return f"SELECT {select_list_sql(node.select)} FROM ({sessions}){having}"  # noqa: S608
