"""The state of one SQL query on one worker."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from evenflow.model.arrays import Floats, Hashes, Indices
from evenflow.model.time import NO_WATERMARK_US
from evenflow.sql import types
from evenflow.sql.engine import ROWS_TABLE, Engine
from evenflow.sql.query_plan import (
    SUBSCRIPTIONS_ALIAS,
    SUBSCRIPTIONS_STORE,
    AggregateNode,
    AnalyticNode,
    QueryPlan,
    SelectNode,
    combined_feeds,
    nodes_bottom_up,
)
from evenflow.sql.split_plan import SplitPolicy
from evenflow.sql.tasks.early_results import GroupState, UpdateState
from evenflow.sql.tasks.join_state import JoinState
from evenflow.sql.tasks.node_evaluator import NodeEvaluator
from evenflow.sql.tasks.pane_state import PaneState
from evenflow.sql.tasks.row_state import RowState
from evenflow.sql.tasks.segments import SegmentStore
from evenflow.sql.tasks.session_state import SessionState
from evenflow.sql.tasks.split_rules import SplitRules
from evenflow.sql.tasks.subscriptions import SubscriptionTable
from evenflow.sql.tasks.task import (
    NO_PARTIALS,
    PartialRows,
    StepOutput,
    Task,
)


def _state_class(node: AggregateNode) -> type[PaneState]:
    if node.updates:
        return UpdateState if node.windows.ttl_us is None else GroupState
    return SessionState if node.windows.is_session else PaneState


class QueryTask(Task):
    """The panes of aggregates, the buffers of joins, and the subscriptions of a template."""

    def __init__(self, plan: QueryPlan, engine: Engine, tables: Mapping[str, pa.Table]) -> None:
        self.plan = plan
        self.engine = engine
        self._schema = plan.root.relation.schema
        for call in plan.functions:
            engine.add_function(call)
        self._tables = {name: engine.share_table(table) for name, table in tables.items()}
        keys, nodes = plan.store_keys, nodes_bottom_up(plan.root)
        self.pane_states: dict[int, PaneState] = {
            node.id: _state_class(node)(node, engine, keys.get((node.id, "")))
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
        self.row_states = {
            node.id: RowState(node, engine, keys.get((node.id, "")))
            for node in nodes
            if isinstance(node, AnalyticNode)
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
        if self.plan.upsert_key is not None:
            at = self._schema.get_field_index("version")
            versions = pa.array(np.full(len(result), self.batch, np.int64))
            result = result.set_column(at, "version", versions)
        result = types.to_result_types(self.in_result_order(result), self._schema)
        return StepOutput(result, evaluator.late, evaluator.poison)

    def in_result_order(self, rows: pa.Table) -> pa.Table:
        """Return results in the order that the query gives them."""
        if not self.plan.order or len(rows) < 2:
            return rows
        order = ", ".join(self.plan.order)
        sql = f"SELECT * FROM {types.quote_identifier(ROWS_TABLE)} ORDER BY {order}"  # noqa: S608
        return self.engine.run_prepared(sql, rows).cast(rows.schema)

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
        for join in self.join_states.values():
            join.reset_settled(watermark_us)

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
        return bool(self.pane_states or self.join_states or self.row_states)

    @property
    def next_due_us(self) -> int | None:
        """The watermark at which the next window or row is complete, if there is one."""
        dues = []
        for panes in self.pane_states.values():
            if (end := panes.next_due_us()) is not None:
                dues.append(end + panes.node.windows.lag_us)
        for join in self.join_states.values():
            dues += join.dues_us()
        for rows in self.row_states.values():
            dues += rows.dues_us()
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
        stores |= {f"rows:{i}": rows.store for i, rows in self.row_states.items()}
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
        """Return the event time up to which windows were emitted, or rows settled, by store."""
        emitted = {f"panes:{i}": panes.emitted_until_us for i, panes in self.pane_states.items()}
        for i, join in self.join_states.items():
            sides = enumerate(join.distinct_sides())
            emitted |= {f"join:{i}:{n}": side.settled_until_us for n, side in sides}
        return emitted

    def restore_emitted_until(self, saved: Mapping[str, int]) -> None:
        """Restore what `emitted_until_us` returned when the state was saved."""
        for i, panes in self.pane_states.items():
            panes.emitted_until_us = saved[f"panes:{i}"]
        for i, join in self.join_states.items():
            for n, side in enumerate(join.distinct_sides()):
                side.settled_until_us = saved.get(f"join:{i}:{n}", NO_WATERMARK_US)

    def close(self) -> None:
        """Free memory and the task's tables in the engine now, not when Python collects it."""
        for store in self.stores().values():
            store.runs = []
        self.waiting.close()
        for table in self._tables.values():
            self.engine.drop_table(table)
        if self.subscriptions is not None:
            self.subscriptions.close()
