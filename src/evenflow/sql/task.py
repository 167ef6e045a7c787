"""The state of one SQL query on one worker."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.model.arrays import Indices
from evenflow.sql.batch import Batch
from evenflow.sql.engine import Engine
from evenflow.sql.expressions import SUBSCRIPTIONS
from evenflow.sql.keeping import Output, Task
from evenflow.sql.matching import Matching
from evenflow.sql.panes import Panes
from evenflow.sql.plan import Block, Group, walk
from evenflow.sql.rows import finished, plain
from evenflow.sql.store import Store
from evenflow.sql.subscriptions import Subscriptions

if TYPE_CHECKING:
    from evenflow.sql.program import Program


class QueryTask(Task):
    """Panes of aggregates, kept rows of joins, and for a template its subscriptions."""

    def __init__(self, program: "Program", engine: Engine, tables: Mapping[str, pa.Table]) -> None:
        self.program = program
        self.engine = engine
        self._tables = {n: engine.share(table) for n, table in tables.items()}
        split = program.store_keys
        nodes = walk(program.root)
        self.panes = {
            node.id: Panes(node, engine, split.get((node.id, "")))
            for node in nodes
            if isinstance(node, Group)
        }
        self.joins = {
            node.id: Matching(
                node, engine, {i.alias: split[node.id, i.alias] for i in node.inputs if split}
            )
            for node in nodes
            if isinstance(node, Block) and node.probes
        }
        self.grouped: tuple[Group, pa.Table] | None = None  # new rows of the last step
        self.subscriptions: Subscriptions | None = None
        if program.parameters is not None:
            key = split.get((-1, ""))
            self.subscriptions = Subscriptions(program.parameters, engine, key)

    def step(self, rows: Mapping[str, pa.Table], watermark_us: int) -> Output:
        """Take a batch's new rows of each stream, and give the results they and the time bring."""
        mark = max(self.watermark_us, watermark_us)
        if self.is_stateful:  # else a state that is the same after every batch is saved only once
            self.watermark_us = mark
        batch = Batch(self, {s: plain(t) for s, t in rows.items()}, mark)
        result = batch.rows_of(self.program.root)
        self.grouped = batch.grouped
        return Output(finished(result, self.program.schema), batch.late, batch.poison)

    def subscribe(self, rows: pa.Table) -> None:
        """Add subscriptions of a template, or change those that exist."""
        self._template().subscribe(rows)

    def unsubscribe(self, names: pa.Array) -> None:
        """End subscriptions."""
        self._template().unsubscribe(names)

    @property
    def is_stateful(self) -> bool:
        """Whether answers depend on earlier rows."""
        return bool(self.panes or self.joins)

    @property
    def next_due_us(self) -> int | None:
        """The watermark that will bring results without new rows, if any will."""
        dues = []
        for panes in self.panes.values():
            if (end := panes.next_due_us()) is not None:
                dues.append(end + panes.node.windows.lag_us)
        return min(dues, default=None)

    def tallied(self, rows: int) -> tuple[list[pa.Array], Indices] | None:
        """Return how many new rows each group of an aggregate straight over a stream has."""
        if self.grouped is None:
            return None
        node, partial = self.grouped
        key = self.panes[node.id].store.key
        if not key or not len(partial):
            return None
        numbers: Indices = partial.column("_n").to_numpy()
        if numbers.sum() != rows:  # a condition has left some out
            return None
        return [partial.column(name).combine_chunks() for name in key], numbers

    def tables(self) -> Mapping[str, str]:
        """Say under which names the engine keeps tables and subscriptions."""
        if self.subscriptions is None:
            return self._tables
        return {**self._tables, SUBSCRIPTIONS: self.subscriptions.kept()}

    def limits(self, node: Block) -> tuple[str, ...]:
        """Say what rows must fulfil for any subscription."""
        if self.subscriptions is None:
            return ()
        return tuple(self.subscriptions.beyond(limit) for limit in node.limits)

    def stores(self) -> Mapping[str, Store]:
        """Name what is kept."""
        found = {f"panes:{i}": panes.store for i, panes in self.panes.items()}
        for i, join in self.joins.items():
            found |= {f"join:{i}:{at}": side.store for at, side in enumerate(join.distinct())}
        if self.subscriptions is not None:
            found["subscriptions"] = self.subscriptions.store
        return found

    def answered(self) -> Mapping[str, int]:
        """Say up to which clock each aggregate has been answered for."""
        return {f"panes:{i}": panes.answered_us for i, panes in self.panes.items()}

    def recall(self, answered: Mapping[str, int]) -> None:
        """Take on what `answered` said when the state was saved."""
        for i, panes in self.panes.items():
            panes.answered_us = answered[f"panes:{i}"]

    def close(self) -> None:
        """Give back what the task holds, without waiting for Python's collector."""
        for store in self.stores().values():
            store.runs = []
        for kept in self._tables.values():
            self.engine.drop(kept)
        if self.subscriptions is not None:
            self.subscriptions.close()

    def _template(self) -> Subscriptions:
        if self.subscriptions is None:
            raise ValueError(f"query {self.program.name!r} is no template")
        return self.subscriptions
