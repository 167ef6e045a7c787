"""How a batch flows through the plan of a query: the new rows of each node, computed once."""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.time import event_times_us, valid_time_mask
from evenflow.sql import types
from evenflow.sql.engine import ROWS_TABLE, Engine
from evenflow.sql.query_plan import (
    AggregateNode,
    AnalyticNode,
    NodeInput,
    PlanNode,
    QueryPlan,
    SelectNode,
    UnionNode,
    source_stream,
)
from evenflow.sql.tasks.join_state import JoinState
from evenflow.sql.tasks.pane_state import PaneState
from evenflow.sql.tasks.row_state import RowState
from evenflow.sql.tasks.select_sql import select_sql, settled_sql
from evenflow.sql.tasks.split_keys import TaskSplits
from evenflow.sql.tasks.split_rules import SplitRules
from evenflow.sql.tasks.task import NO_PARTIALS, PartialRows, filter_and_count


class EvaluatedTask(Protocol):
    """What an evaluator reads of a task: its plan and its state."""

    plan: QueryPlan
    engine: Engine
    splits: TaskSplits
    split_rules: SplitRules
    pane_states: dict[int, PaneState]
    join_states: dict[int, JoinState]
    row_states: dict[int, RowState]

    @property
    def is_stateful(self) -> bool: ...  # noqa: D102 - see QueryTask

    def engine_tables(self) -> Mapping[str, str]: ...  # noqa: D102

    def row_filters(self, node: SelectNode) -> tuple[str, ...]: ...  # noqa: D102


class NodeEvaluator:
    """Evaluates the plan of a task for one batch: the new rows of each node, computed once."""

    def __init__(
        self,
        task: EvaluatedTask,
        rows: Mapping[str, pa.Table],
        watermark_us: int,
        partials: PartialRows = NO_PARTIALS,
    ) -> None:
        self.task = task
        self.watermark_us = watermark_us
        self.partials = partials
        self.late: dict[str, int] = {}
        self.poison: dict[str, int] = {}
        self.grouped_rows: tuple[AggregateNode, pa.Table] | None = None  # see _evaluate_aggregate
        self._results: dict[int, pa.Table] = {}
        self._tables = task.engine_tables()
        self._rows = {stream: types.to_physical_types(table) for stream, table in rows.items()}
        if not task.is_stateful:
            return
        # Rows without a valid time belong to no window and would never be dropped from a buffer.
        for stream, column in task.plan.time_columns.items():
            if len(table := self._rows.get(stream, ())):
                valid = valid_time_mask(event_times_us(table.column(column)))
                self._rows[stream] = filter_and_count(table, valid, stream, self.poison)

    def evaluate(self, node: PlanNode) -> pa.Table:
        """Return the new rows of a node."""
        if node.id not in self._results:
            if isinstance(node, UnionNode):
                schema = types.physical_schema(node.relation.schema)
                parts = [self.evaluate(p).rename_columns(schema.names) for p in node.parts]
                self._results[node.id] = pa.concat_tables([p.cast(schema) for p in parts])
            elif isinstance(node, AggregateNode):
                self._results[node.id] = self._evaluate_aggregate(node)
            elif isinstance(node, AnalyticNode):
                rows = self.task.row_states[node.id]
                rows.add(self.evaluate(node.feed))
                self._results[node.id] = rows.take_complete(self.watermark_us)
            else:
                self._results[node.id] = self._with_partials(node, self._evaluate_select(node))
        return self._results[node.id]

    def _with_partials(self, node: SelectNode, rows: pa.Table) -> pa.Table:
        partial = self.partials.get(node.id)
        if partial is None or not len(partial):
            return rows
        return pa.concat_tables([rows, partial]) if len(rows) else partial

    def _evaluate_aggregate(self, node: AggregateNode) -> pa.Table:
        panes = self.task.pane_states[node.id]
        clock_us = self.watermark_us - node.windows.lag_us
        leaving = self.task.splits.leaving_hashes
        streams = [source_stream(feed) for feed in node.feeds]
        # Rows of nodes below can belong to a window that the watermark completes, so they are added
        # before it is emitted. Rows directly from a stream cannot: those that do are late.
        for feed, stream in zip(node.feeds, streams, strict=True):
            if stream is None:
                panes.add_partials(
                    self.evaluate(feed), clock_us, may_be_late=False, leaving=leaving
                )
        results = panes.emit_due_windows(clock_us)
        for feed, stream in zip(node.feeds, streams, strict=True):
            if stream is not None:
                late = panes.add_partials(
                    self.evaluate(feed), clock_us, may_be_late=True, leaving=leaving
                )
                if late:
                    self.late[stream] = max(self.late.get(stream, 0), late)
        if node.updates:
            results = pa.concat_tables([results, panes.emit_early(clock_us)])
        panes.store.compact()
        # The rows of the only aggregate, directly over a stream, give the row counts of its keys.
        feed = node.feeds[0]
        is_only = len(self.task.pane_states) == len(node.feeds) == len(feed.inputs) == 1
        makes_rows = feed.needs_tables or feed.laterals
        if is_only and isinstance(feed.inputs[0].feed, str) and not makes_rows:
            self.grouped_rows = node, self.evaluate(feed)
        return results

    def _evaluate_select(self, node: SelectNode) -> pa.Table:
        if node.probes:
            return self._evaluate_join(node)
        rows = self._input_rows(node.inputs[0])
        if rows is None or not len(rows):
            return _empty_result(node)
        alias = node.inputs[0].alias
        if node.needs_tables or node.laterals:
            sql = select_sql(node, {alias: "_rows"}, self._tables, self.task.row_filters(node))
            return _cast_result(node, self.task.engine.run(sql, {"_rows": rows}))
        sql = select_sql(node, {alias: ROWS_TABLE}, {})
        return _cast_result(node, self.task.engine.run_prepared(sql, rows))

    def _evaluate_join(self, node: SelectNode) -> pa.Table:
        join = self.task.join_states[node.id]
        for item in node.inputs:
            join.add_rows(item.alias, self._input_rows(item))
        parts: list[str] = []
        tables: dict[str, pa.Table] = {}
        splits = self.task.splits
        roles = self.task.split_rules.roles(node, splits)
        for i, term in enumerate(join.delta_terms(roles, splits.worker)):
            names = {alias: f"_{i}_{n}" for n, alias in enumerate(term)}
            tables |= {names[alias]: rows for alias, rows in term.items()}
            sql = select_sql(node, names, self._tables, self.task.row_filters(node))
            parts.append(f"({sql})")
        for i, term in enumerate(join.settled_terms(roles, splits.worker, self.watermark_us)):
            names = {alias: f"_settled_{i}_{n}" for n, alias in enumerate(term)}
            tables |= {names[alias]: rows for alias, rows in term.items()}
            parts.append(f"({settled_sql(node, names, self._tables)})")
        result = _empty_result(node)
        if parts:
            result = _cast_result(node, self.task.engine.run(" UNION ALL ".join(parts), tables))
        join.end_batch(self.watermark_us)
        return result

    def _input_rows(self, item: NodeInput) -> pa.Table | None:
        feed = item.feed
        if not isinstance(feed, str):
            return self.evaluate(feed)
        rows = self._rows.get(feed)
        if rows is None or not len(rows) or not (item.drops_late_rows or item.late_us is not None):
            return rows
        times_us = event_times_us(rows.column(self.task.plan.time_columns[feed]))
        if item.late_us is not None:
            return rows.filter(late_mask(times_us, item.late_us, self.watermark_us))
        timely = pc.greater_equal(times_us, self.watermark_us)
        return filter_and_count(rows, timely, feed, self.late)


def late_mask(times_us: pa.ChunkedArray, size_us: int, watermark_us: int) -> pa.Array:
    """Tell which rows come after the watermark has passed the end of their window.

    >>> late_mask(pa.chunked_array([[4, 9, None, 12]]), 10, 11).to_pylist()
    [True, True, False, False]
    """
    times = pc.fill_null(times_us, watermark_us).to_numpy()
    ends = times - times % size_us + size_us if size_us else times + 1
    return pa.array(ends <= watermark_us)


def _cast_result(node: SelectNode, result: pa.Table) -> pa.Table:
    return (
        result if node.preaggregates else result.cast(types.physical_schema(node.relation.schema))
    )


def _empty_result(node: SelectNode) -> pa.Table:
    if node.preaggregates:
        return pa.table({})
    return types.physical_schema(node.relation.schema).empty_table()
