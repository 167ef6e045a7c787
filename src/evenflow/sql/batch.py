"""What a batch does: new rows flow up the tree of nodes, each node is computed once."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.sql.engine import ROWS_TABLE
from evenflow.sql.query_plan import AggregateNode, PlanNode, SelectNode, UnionNode, source_stream
from evenflow.sql.rows import valid_time_mask
from evenflow.sql.types import physical_schema, quote_identifier

if TYPE_CHECKING:
    from evenflow.sql.tasks.query_task import QueryTask


class NodeEvaluator:
    """One pass over the tree: each node's new rows, computed once."""

    def __init__(self, task: "QueryTask", rows: Mapping[str, pa.Table], watermark_us: int) -> None:
        self.task = task
        self.watermark_us = watermark_us
        self.late: dict[str, int] = {}
        self.poison: dict[str, int] = {}
        self.grouped_rows: tuple[AggregateNode, pa.Table] | None = (
            None  # by the one aggregate over the stream
        )
        self._rows = dict(rows)
        self._results: dict[int, pa.Table] = {}
        self._tables = task.engine_tables()
        if task.is_stateful:
            for stream, column in task.program.time_columns.items():
                self._drop_poison_rows(stream, column)

    def evaluate(self, node: PlanNode) -> pa.Table:
        """Give a node's new rows."""
        if node.id not in self._results:
            if isinstance(node, UnionNode):
                schema = physical_schema(node.relation.schema)
                parts = [self.evaluate(p).rename_columns(schema.names) for p in node.parts]
                self._results[node.id] = pa.concat_tables([p.cast(schema) for p in parts])
            elif isinstance(node, AggregateNode):
                self._results[node.id] = self._evaluate_aggregate(node)
            else:
                self._results[node.id] = self._evaluate_select(node)
        return self._results[node.id]

    def _drop_poison_rows(self, stream: str, column: str) -> None:
        """Drop rows without a sane time: they belong to no window and would never be forgotten."""
        rows = self._rows.get(stream)
        if rows is None or not len(rows):
            return
        good = valid_time_mask(rows.column(column))
        bad = len(rows) - int(pc.sum(good).as_py())
        if bad:
            self.poison[stream] = bad
            self._rows[stream] = rows.filter(good)

    def _evaluate_aggregate(self, node: AggregateNode) -> pa.Table:
        panes = self.task.pane_states[node.id]
        clock = self.watermark_us - node.windows.lag_us
        straight = [source_stream(feed) for feed in node.feeds]
        # Rows straight from a stream cannot belong to a window the watermark completes: those that
        # would are late. Rows of nodes below can, and come first.
        below = [f for f, stream in zip(node.feeds, straight, strict=True) if stream is None]
        for feed in below:
            panes.add_partials(self.evaluate(feed), clock, may_be_late=False)
        answers = panes.emit_due_windows(clock)
        for feed, stream in zip(node.feeds, straight, strict=True):
            if stream is not None:
                late = panes.add_partials(self.evaluate(feed), clock, may_be_late=True)
                if late:
                    self.late[stream] = max(self.late.get(stream, 0), late)
        panes.store.compact()
        feed = node.feeds[0]
        is_only = len(self.task.pane_states) == len(node.feeds) == len(feed.inputs) == 1
        if is_only and isinstance(feed.inputs[0].feed, str) and not feed.references:
            self.grouped_rows = node, self.evaluate(feed)
        return answers

    def _evaluate_select(self, node: SelectNode) -> pa.Table:
        if node.probes:
            return self._evaluate_join(node)
        rows = self._input_rows(node.inputs[0].feed, node.inputs[0].drops_late_rows)
        if rows is None or not len(rows):
            return self._empty_result(node)
        alias = node.inputs[0].alias
        if node.references:
            sql = select_sql(node, {alias: "_rows"}, self._tables, self.task.row_filters(node))
            return self._cast_result(node, self.task.engine.run(sql, {"_rows": rows}))
        sql = select_sql(node, {alias: ROWS_TABLE}, {})
        return self._cast_result(node, self.task.engine.run_prepared(sql, rows))

    def _evaluate_join(self, node: SelectNode) -> pa.Table:
        join = self.task.join_states[node.id]
        for item in node.inputs:
            join.add_rows(item.alias, self._input_rows(item.feed, item.drops_late_rows))
        parts: list[str] = []
        tables: dict[str, pa.Table] = {}
        for at, term in enumerate(join.delta_terms()):
            named = {alias: f"_{at}_{place}" for place, alias in enumerate(term)}
            tables |= {named[alias]: rows for alias, rows in term.items()}
            parts.append(select_sql(node, named, self._tables, self.task.row_filters(node)))
        made = self._empty_result(node)
        if parts:
            sql = " UNION ALL ".join(f"({part})" for part in parts)
            made = self._cast_result(node, self.task.engine.run(sql, tables))
        join.end_batch(self.watermark_us)
        return made

    def _cast_result(self, node: SelectNode, made: pa.Table) -> pa.Table:
        return made if node.preaggregates else made.cast(physical_schema(node.relation.schema))

    def _empty_result(self, node: SelectNode) -> pa.Table:
        if node.preaggregates:
            return pa.table({})
        return physical_schema(node.relation.schema).empty_table()

    def _input_rows(self, feed: str | PlanNode, strict: bool) -> pa.Table | None:
        if not isinstance(feed, str):
            return self.evaluate(feed)
        rows = self._rows.get(feed)
        if rows is None or not strict or not len(rows):
            return rows
        times = rows.column(self.task.program.time_columns[feed])
        timely = pc.greater_equal(times.cast(pa.int64()), self.watermark_us)
        late = len(rows) - int(pc.sum(timely).as_py())
        if late:
            self.late[feed] = max(self.late.get(feed, 0), late)
            rows = rows.filter(timely)
        return rows


def select_sql(
    node: SelectNode,
    rows: Mapping[str, str],
    tables: Mapping[str, str],
    limits: tuple[str, ...] = (),
) -> str:
    """Write the SELECT of a block over tables of the given names."""
    select = ", ".join(f"{sql} AS {quote_identifier(c)}" for c, sql in node.select)
    parts = [
        f"{quote_identifier(table)} AS {quote_identifier(alias)}" for alias, table in rows.items()
    ]
    parts += [
        f"{quote_identifier(tables[r.table])} AS {quote_identifier(r.alias)}"
        for r in node.references
        if r.on is None
    ]
    source = " CROSS JOIN ".join(parts)
    for r in node.references:
        if r.on is not None:
            source += f" LEFT JOIN {quote_identifier(tables[r.table])} AS {quote_identifier(r.alias)} ON {r.on}"
    conditions = (*node.where, *limits)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    ending = " GROUP BY ALL" if node.preaggregates else ""
    return f"SELECT {select} FROM {source}{where}{ending}"  # noqa: S608
