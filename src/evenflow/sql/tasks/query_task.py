"""The state of one SQL query on one worker, and how a batch flows through its plan."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.arrays import Floats, Hashes, Indices
from evenflow.model.time import NO_WATERMARK_US, event_times_us, valid_time_mask
from evenflow.sql import types
from evenflow.sql.engine import ROWS_TABLE, Engine
from evenflow.sql.query_plan import (
    SUBSCRIPTIONS_ALIAS,
    SUBSCRIPTIONS_STORE,
    AggregateNode,
    PlanNode,
    QueryPlan,
    SelectNode,
    UnionNode,
    combined_feeds,
    nodes_bottom_up,
    source_stream,
)
from evenflow.sql.split_plan import SplitPolicy
from evenflow.sql.tasks.join_state import JoinState
from evenflow.sql.tasks.pane_state import PaneState
from evenflow.sql.tasks.segments import SegmentStore
from evenflow.sql.tasks.split_rules import SplitRules
from evenflow.sql.tasks.subscriptions import SubscriptionTable
from evenflow.sql.tasks.task import (
    NO_PARTIALS,
    PartialRows,
    StepOutput,
    Task,
    filter_and_count,
)


class QueryTask(Task):
    """The panes of aggregates, the buffers of joins, and the subscriptions of a template."""

    def __init__(self, plan: QueryPlan, engine: Engine, tables: Mapping[str, pa.Table]) -> None:
        self.plan = plan
        self.engine = engine
        self._schema = plan.root.relation.schema
        self._tables = {name: engine.share_table(table) for name, table in tables.items()}
        keys, nodes = plan.store_keys, nodes_bottom_up(plan.root)
        self.pane_states = {
            node.id: PaneState(node, engine, keys.get((node.id, "")))
            for node in nodes
            if isinstance(node, AggregateNode)
        }
        self.join_states = {
            node.id: JoinState(
                node, engine, {i.alias: keys[node.id, i.alias] for i in node.inputs if keys}
            )
            for node in nodes
            if isinstance(node, SelectNode) and node.probes
        }
        self.last_grouped_rows: tuple[AggregateNode, pa.Table] | None = None
        self._combined_feeds = combined_feeds(plan)
        self._partial_row_count = 0
        self.split_rules = SplitRules(plan.root, self.join_states)
        self.subscriptions: SubscriptionTable | None = None
        if plan.parameters is not None:
            key = keys.get(SUBSCRIPTIONS_STORE)
            self.subscriptions = SubscriptionTable(plan.parameters, engine, key)

    def step(
        self, rows: Mapping[str, pa.Table], watermark_us: int, partials: PartialRows = NO_PARTIALS
    ) -> StepOutput:
        """Process a batch: new rows of each stream, and the watermark known before the batch."""
        watermark_us = max(self.watermark_us, watermark_us)
        if self.is_stateful:  # otherwise the state stays the same and is saved only once
            self.watermark_us = watermark_us
        evaluator = NodeEvaluator(self, rows, watermark_us, partials)
        result = evaluator.evaluate(self.plan.root)
        self.last_grouped_rows = evaluator.grouped_rows
        self._partial_row_count = sum(len(evaluator.evaluate(c.feed)) for c in self._combined_feeds)
        result = types.to_result_types(result, self._schema)
        return StepOutput(result, evaluator.late, evaluator.poison)

    def combine(self, stream: str, rows: pa.Table) -> PartialRows:
        """Sum up rows of a stream per pane and group, for the `step` of another task of the query.

        Neither reads nor changes the state. Only for a plan with `combined_feeds`.
        """
        evaluator = NodeEvaluator(self, {stream: rows}, NO_WATERMARK_US)
        feeds = [item.feed for item in self._combined_feeds if item.stream == stream]
        return {feed.id: evaluator.evaluate(feed) for feed in feeds}

    def partial_row_count(self) -> int:
        """Return how many partial rows the last step added, 0 if rows cannot be combined."""
        return self._partial_row_count

    def reset_watermark(self, watermark_us: int) -> None:
        """Set the watermark back, so that rows after it count again."""
        super().reset_watermark(watermark_us)
        for panes in self.pane_states.values():
            clock_us = watermark_us - panes.node.windows.lag_us
            panes.emitted_until_us = min(panes.emitted_until_us, clock_us)

    def subscribe(self, rows: pa.Table) -> None:
        """Add subscriptions of a template, or change the parameters of existing ones."""
        self._require_subscriptions().subscribe(rows)

    def unsubscribe(self, names: pa.Array) -> None:
        """Remove subscriptions."""
        self._require_subscriptions().unsubscribe(names)

    def _require_subscriptions(self) -> SubscriptionTable:
        if self.subscriptions is None:
            raise ValueError("only a template has subscriptions; this task runs a query")
        return self.subscriptions

    @property
    def is_stateful(self) -> bool:
        """Whether results depend on earlier rows."""
        return bool(self.pane_states or self.join_states)

    @property
    def next_due_us(self) -> int | None:
        """The watermark at which the next window is complete, if there is one."""
        dues = []
        for panes in self.pane_states.values():
            if (end := panes.next_due_us()) is not None:
                dues.append(end + panes.node.windows.lag_us)
        return min(dues, default=None)

    def grouped_row_counts(self, rows: int) -> tuple[list[pa.Array], Indices] | None:
        """Return the new rows of each group, if an aggregate directly over the stream has them."""
        if self.last_grouped_rows is None:
            return None
        node, partial = self.last_grouped_rows
        key = self.pane_states[node.id].store.key_columns
        if not key or not len(partial):
            return None
        counts: Indices = partial.column("_n").to_numpy()
        if counts.sum() != rows:  # a condition dropped some
            return None
        return [partial.column(name).combine_chunks() for name in key], counts

    def examined_pairs(
        self, keys: Hashes, stored_rows: Mapping[str, Indices], new_rows: Mapping[str, Indices]
    ) -> Floats:
        """Count the pairs of new and stored rows of two inputs, for each join."""
        if not self.join_states:
            return super().examined_pairs(keys, stored_rows, new_rows)
        return self.split_rules.examined_pairs(keys, stored_rows, new_rows, self.splits)

    def engine_tables(self) -> Mapping[str, str]:
        """Return the names in the engine of reference tables and subscriptions."""
        if self.subscriptions is None:
            return self._tables
        return {**self._tables, SUBSCRIPTIONS_ALIAS: self.subscriptions.engine_table()}

    def row_filters(self, node: SelectNode) -> tuple[str, ...]:
        """Return conditions that drop rows which match no subscription."""
        if self.subscriptions is None:
            return ()
        return tuple(self.subscriptions.row_filter_sql(bound) for bound in node.parameter_bounds)

    def stores(self) -> Mapping[str, SegmentStore]:
        """Return the stores of the state by their labels in a manifest."""
        stores = {f"panes:{i}": panes.store for i, panes in self.pane_states.items()}
        for i, join in self.join_states.items():
            stores |= {f"join:{i}:{n}": side.store for n, side in enumerate(join.distinct_sides())}
        if self.subscriptions is not None:
            stores["subscriptions"] = self.subscriptions.store
        return stores

    def outgoing(self) -> Mapping[str, SegmentStore]:
        """Return the partial rows of the last step that the homes of split keys merge."""
        return {f"panes:{i}": panes.outgoing for i, panes in self.pane_states.items()}

    def split_policy(self, label: str, stream: str) -> SplitPolicy:
        """Return where a store has the rows of a key that is split by a stream."""
        return self.split_rules.policy(label, stream)

    def emitted_until_us(self) -> Mapping[str, int]:
        """Return the event time up to which the windows of each aggregate have been emitted."""
        return {f"panes:{i}": panes.emitted_until_us for i, panes in self.pane_states.items()}

    def restore_emitted_until(self, saved: Mapping[str, int]) -> None:
        """Restore what `emitted_until_us` returned when the state was saved."""
        for i, panes in self.pane_states.items():
            panes.emitted_until_us = saved[f"panes:{i}"]

    def close(self) -> None:
        """Free memory and the task's tables in the engine now, not when Python collects it."""
        for store in self.stores().values():
            store.runs = []
        for table in self._tables.values():
            self.engine.drop_table(table)
        if self.subscriptions is not None:
            self.subscriptions.close()


class NodeEvaluator:
    """Evaluates the plan of a task for one batch: the new rows of each node, computed once."""

    def __init__(
        self,
        task: QueryTask,
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
        panes.store.compact()
        # The rows of the only aggregate, directly over a stream, give the row counts of its keys.
        feed = node.feeds[0]
        is_only = len(self.task.pane_states) == len(node.feeds) == len(feed.inputs) == 1
        if is_only and isinstance(feed.inputs[0].feed, str) and not feed.references:
            self.grouped_rows = node, self.evaluate(feed)
        return results

    def _evaluate_select(self, node: SelectNode) -> pa.Table:
        if node.probes:
            return self._evaluate_join(node)
        rows = self._input_rows(node.inputs[0].feed, node.inputs[0].drops_late_rows)
        if rows is None or not len(rows):
            return _empty_result(node)
        alias = node.inputs[0].alias
        if node.references:
            sql = _select_sql(node, {alias: "_rows"}, self._tables, self.task.row_filters(node))
            return _cast_result(node, self.task.engine.run(sql, {"_rows": rows}))
        sql = _select_sql(node, {alias: ROWS_TABLE}, {})
        return _cast_result(node, self.task.engine.run_prepared(sql, rows))

    def _evaluate_join(self, node: SelectNode) -> pa.Table:
        join = self.task.join_states[node.id]
        for item in node.inputs:
            join.add_rows(item.alias, self._input_rows(item.feed, item.drops_late_rows))
        parts: list[str] = []
        tables: dict[str, pa.Table] = {}
        splits = self.task.splits
        roles = self.task.split_rules.roles(node, splits)
        for i, term in enumerate(join.delta_terms(roles, splits.worker)):
            names = {alias: f"_{i}_{n}" for n, alias in enumerate(term)}
            tables |= {names[alias]: rows for alias, rows in term.items()}
            sql = _select_sql(node, names, self._tables, self.task.row_filters(node))
            parts.append(f"({sql})")
        result = _empty_result(node)
        if parts:
            result = _cast_result(node, self.task.engine.run(" UNION ALL ".join(parts), tables))
        join.end_batch(self.watermark_us)
        return result

    def _input_rows(self, feed: str | PlanNode, drops_late_rows: bool) -> pa.Table | None:
        if not isinstance(feed, str):
            return self.evaluate(feed)
        rows = self._rows.get(feed)
        if rows is None or not drops_late_rows or not len(rows):
            return rows
        times_us = event_times_us(rows.column(self.task.plan.time_columns[feed]))
        timely = pc.greater_equal(times_us, self.watermark_us)
        return filter_and_count(rows, timely, feed, self.late)


def _cast_result(node: SelectNode, result: pa.Table) -> pa.Table:
    return (
        result if node.preaggregates else result.cast(types.physical_schema(node.relation.schema))
    )


def _empty_result(node: SelectNode) -> pa.Table:
    if node.preaggregates:
        return pa.table({})
    return types.physical_schema(node.relation.schema).empty_table()


def _alias_sql(table: str, alias: str) -> str:
    return f"{types.quote_identifier(table)} AS {types.quote_identifier(alias)}"


def _select_sql(
    node: SelectNode,
    inputs: Mapping[str, str],
    tables: Mapping[str, str],
    row_filters: tuple[str, ...] = (),
) -> str:
    """Write the SELECT of a node, given the engine's names of its inputs and reference tables."""
    crossed = [_alias_sql(name, alias) for alias, name in inputs.items()]
    crossed += [_alias_sql(tables[r.table], r.alias) for r in node.references if r.on is None]
    source = " CROSS JOIN ".join(crossed)
    for r in node.references:
        if r.on is not None:
            source += f" LEFT JOIN {_alias_sql(tables[r.table], r.alias)} ON {r.on}"
    conditions = (*node.where, *row_filters)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    ending = " GROUP BY ALL" if node.preaggregates else ""
    return f"SELECT {types.select_list_sql(node.select)} FROM {source}{where}{ending}"  # noqa: S608
