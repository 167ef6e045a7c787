"""What a batch does: new rows flow up the tree of nodes, each node is computed once."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.sql.engine import ROWS
from evenflow.sql.plan import Block, Group, Node, Union, origin
from evenflow.sql.rows import sane
from evenflow.sql.types import name, physical_schema

if TYPE_CHECKING:
    from evenflow.sql.task import QueryTask


class Batch:
    """One pass over the tree: each node's new rows, computed once."""

    def __init__(self, task: "QueryTask", rows: Mapping[str, pa.Table], watermark_us: int) -> None:
        self.task = task
        self.watermark_us = watermark_us
        self.late: dict[str, int] = {}
        self.poison: dict[str, int] = {}
        self.grouped: tuple[Group, pa.Table] | None = None  # by the one aggregate over the stream
        self._rows = dict(rows)
        self._done: dict[int, pa.Table] = {}
        self._tables = task.tables()
        if task.is_stateful:
            for stream, column in task.program.times.items():
                self._set_aside(stream, column)

    def rows_of(self, node: Node) -> pa.Table:
        """Give a node's new rows."""
        if node.id not in self._done:
            if isinstance(node, Union):
                schema = physical_schema(node.relation.schema)
                parts = [self.rows_of(p).rename_columns(schema.names) for p in node.parts]
                self._done[node.id] = pa.concat_tables([p.cast(schema) for p in parts])
            elif isinstance(node, Group):
                self._done[node.id] = self._group(node)
            else:
                self._done[node.id] = self._block(node)
        return self._done[node.id]

    def _set_aside(self, stream: str, column: str) -> None:
        """Drop rows without a sane time: they belong to no window and would never be forgotten."""
        rows = self._rows.get(stream)
        if rows is None or not len(rows):
            return
        good = sane(rows.column(column))
        bad = len(rows) - int(pc.sum(good).as_py())
        if bad:
            self.poison[stream] = bad
            self._rows[stream] = rows.filter(good)

    def _group(self, node: Group) -> pa.Table:
        panes = self.task.panes[node.id]
        clock = self.watermark_us - node.windows.lag_us
        straight = [origin(feed) for feed in node.feeds]
        # Rows straight from a stream cannot belong to a window the watermark completes: those that
        # would are late. Rows of nodes below can, and come first.
        below = [f for f, stream in zip(node.feeds, straight, strict=True) if stream is None]
        for feed in below:
            panes.take(self.rows_of(feed), clock, may_be_late=False)
        answers = panes.answer(clock)
        for feed, stream in zip(node.feeds, straight, strict=True):
            if stream is not None:
                late = panes.take(self.rows_of(feed), clock, may_be_late=True)
                if late:
                    self.late[stream] = max(self.late.get(stream, 0), late)
        panes.store.compact()
        feed = node.feeds[0]
        is_only = len(self.task.panes) == len(node.feeds) == len(feed.inputs) == 1
        if is_only and isinstance(feed.inputs[0].feed, str) and not feed.references:
            self.grouped = node, self.rows_of(feed)
        return answers

    def _block(self, node: Block) -> pa.Table:
        if node.probes:
            return self._join(node)
        rows = self._input(node.inputs[0].feed, node.inputs[0].strict)
        if rows is None or not len(rows):
            return self._empty(node)
        alias = node.inputs[0].alias
        if node.references:
            sql = block_sql(node, {alias: "_rows"}, self._tables, self.task.limits(node))
            return self._typed(node, self.task.engine.run(sql, {"_rows": rows}))
        sql = block_sql(node, {alias: ROWS}, {})
        return self._typed(node, self.task.engine.run_again(sql, rows))

    def _join(self, node: Block) -> pa.Table:
        join = self.task.joins[node.id]
        for item in node.inputs:
            join.admit(item.alias, self._input(item.feed, item.strict))
        parts: list[str] = []
        tables: dict[str, pa.Table] = {}
        for at, term in enumerate(join.terms()):
            named = {alias: f"_{at}_{place}" for place, alias in enumerate(term)}
            tables |= {named[alias]: rows for alias, rows in term.items()}
            parts.append(block_sql(node, named, self._tables, self.task.limits(node)))
        made = self._empty(node)
        if parts:
            sql = " UNION ALL ".join(f"({part})" for part in parts)
            made = self._typed(node, self.task.engine.run(sql, tables))
        join.settle(self.watermark_us)
        return made

    def _typed(self, node: Block, made: pa.Table) -> pa.Table:
        return made if node.grouped else made.cast(physical_schema(node.relation.schema))

    def _empty(self, node: Block) -> pa.Table:
        if node.grouped:
            return pa.table({})
        return physical_schema(node.relation.schema).empty_table()

    def _input(self, feed: str | Node, strict: bool) -> pa.Table | None:
        if not isinstance(feed, str):
            return self.rows_of(feed)
        rows = self._rows.get(feed)
        if rows is None or not strict or not len(rows):
            return rows
        times = rows.column(self.task.program.times[feed])
        timely = pc.greater_equal(times.cast(pa.int64()), self.watermark_us)
        late = len(rows) - int(pc.sum(timely).as_py())
        if late:
            self.late[feed] = max(self.late.get(feed, 0), late)
            rows = rows.filter(timely)
        return rows


def block_sql(
    node: Block, rows: Mapping[str, str], tables: Mapping[str, str], limits: tuple[str, ...] = ()
) -> str:
    """Write the SELECT of a block over tables of the given names."""
    select = ", ".join(f"{sql} AS {name(c)}" for c, sql in node.select)
    parts = [f"{name(table)} AS {name(alias)}" for alias, table in rows.items()]
    parts += [
        f"{name(tables[r.table])} AS {name(r.alias)}" for r in node.references if r.on is None
    ]
    source = " CROSS JOIN ".join(parts)
    for r in node.references:
        if r.on is not None:
            source += f" LEFT JOIN {name(tables[r.table])} AS {name(r.alias)} ON {r.on}"
    conditions = (*node.where, *limits)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    ending = " GROUP BY ALL" if node.grouped else ""
    return f"SELECT {select} FROM {source}{where}{ending}"  # noqa: S608
