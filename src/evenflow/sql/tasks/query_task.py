"""The state of one SQL query on one worker."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.model.arrays import Indices
from evenflow.sql.batch import NodeEvaluator
from evenflow.sql.engine import Engine
from evenflow.sql.query_plan import AggregateNode, SelectNode, nodes_bottom_up
from evenflow.sql.rows import to_physical_types, to_result_types
from evenflow.sql.tasks.join_state import JoinState
from evenflow.sql.tasks.pane_state import PaneState
from evenflow.sql.tasks.segments import SegmentStore
from evenflow.sql.tasks.subscriptions import SubscriptionTable
from evenflow.sql.tasks.task import StepOutput, Task
from evenflow.sql.translate.translator import SUBSCRIPTIONS_ALIAS

if TYPE_CHECKING:
    from evenflow.sql.program import Program


class QueryTask(Task):
    """Panes of aggregates, kept rows of joins, and for a template its subscriptions."""

    def __init__(self, program: "Program", engine: Engine, tables: Mapping[str, pa.Table]) -> None:
        self.program = program
        self.engine = engine
        self._tables = {n: engine.share_table(table) for n, table in tables.items()}
        split = program.store_keys
        nodes = nodes_bottom_up(program.root)
        self.pane_states = {
            node.id: PaneState(node, engine, split.get((node.id, "")))
            for node in nodes
            if isinstance(node, AggregateNode)
        }
        self.join_states = {
            node.id: JoinState(
                node, engine, {i.alias: split[node.id, i.alias] for i in node.inputs if split}
            )
            for node in nodes
            if isinstance(node, SelectNode) and node.probes
        }
        self.last_grouped_rows: tuple[AggregateNode, pa.Table] | None = (
            None  # new rows of the last step
        )
        self.subscriptions: SubscriptionTable | None = None
        if program.parameters is not None:
            key = split.get((-1, ""))
            self.subscriptions = SubscriptionTable(program.parameters, engine, key)

    def step(self, rows: Mapping[str, pa.Table], watermark_us: int) -> StepOutput:
        """Take a batch's new rows of each stream, and give the results they and the time bring."""
        mark = max(self.watermark_us, watermark_us)
        if self.is_stateful:  # else a state that is the same after every batch is saved only once
            self.watermark_us = mark
        batch = NodeEvaluator(self, {s: to_physical_types(t) for s, t in rows.items()}, mark)
        result = batch.evaluate(self.program.root)
        self.last_grouped_rows = batch.grouped_rows
        return StepOutput(to_result_types(result, self.program.schema), batch.late, batch.poison)

    def subscribe(self, rows: pa.Table) -> None:
        """Add subscriptions of a template, or change those that exist."""
        self._require_subscriptions().subscribe(rows)

    def unsubscribe(self, names: pa.Array) -> None:
        """End subscriptions."""
        self._require_subscriptions().unsubscribe(names)

    @property
    def is_stateful(self) -> bool:
        """Whether answers depend on earlier rows."""
        return bool(self.pane_states or self.join_states)

    @property
    def next_due_us(self) -> int | None:
        """The watermark that will bring results without new rows, if any will."""
        dues = []
        for panes in self.pane_states.values():
            if (end := panes.next_due_us()) is not None:
                dues.append(end + panes.node.windows.lag_us)
        return min(dues, default=None)

    def grouped_row_counts(self, rows: int) -> tuple[list[pa.Array], Indices] | None:
        """Return how many new rows each group of an aggregate straight over a stream has."""
        if self.last_grouped_rows is None:
            return None
        node, partial = self.last_grouped_rows
        key = self.pane_states[node.id].store.key_columns
        if not key or not len(partial):
            return None
        numbers: Indices = partial.column("_n").to_numpy()
        if numbers.sum() != rows:  # a condition has left some out
            return None
        return [partial.column(name).combine_chunks() for name in key], numbers

    def engine_tables(self) -> Mapping[str, str]:
        """Say under which names the engine keeps tables and subscriptions."""
        if self.subscriptions is None:
            return self._tables
        return {**self._tables, SUBSCRIPTIONS_ALIAS: self.subscriptions.engine_table()}

    def row_filters(self, node: SelectNode) -> tuple[str, ...]:
        """Say what rows must fulfil for any subscription."""
        if self.subscriptions is None:
            return ()
        return tuple(self.subscriptions.row_filter_sql(limit) for limit in node.parameter_bounds)

    def stores(self) -> Mapping[str, SegmentStore]:
        """Name what is kept."""
        found = {f"panes:{i}": panes.store for i, panes in self.pane_states.items()}
        for i, join in self.join_states.items():
            found |= {f"join:{i}:{at}": side.store for at, side in enumerate(join.distinct_sides())}
        if self.subscriptions is not None:
            found["subscriptions"] = self.subscriptions.store
        return found

    def emitted_until_us(self) -> Mapping[str, int]:
        """Say up to which clock each aggregate has been answered for."""
        return {f"panes:{i}": panes.emitted_until_us for i, panes in self.pane_states.items()}

    def restore_emitted_until(self, answered: Mapping[str, int]) -> None:
        """Take on what `emitted_until_us` said when the state was saved."""
        for i, panes in self.pane_states.items():
            panes.emitted_until_us = answered[f"panes:{i}"]

    def close(self) -> None:
        """Give back what the task holds, without waiting for Python's collector."""
        for store in self.stores().values():
            store.runs = []
        for kept in self._tables.values():
            self.engine.drop_table(kept)
        if self.subscriptions is not None:
            self.subscriptions.close()

    def _require_subscriptions(self) -> SubscriptionTable:
        if self.subscriptions is None:
            raise ValueError(f"query {self.program.name!r} is no template")
        return self.subscriptions
