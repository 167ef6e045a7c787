"""The rows below functions with OVER, kept until the time of their partition has passed."""

import pyarrow as pa

from evenflow.model.time import NO_WATERMARK_US
from evenflow.sql.engine import ROWS_TABLE, Engine
from evenflow.sql.query_plan import AnalyticNode
from evenflow.sql.tasks.segments import SegmentStore
from evenflow.sql.types import physical_schema, quote_identifier, select_list_sql

_SOURCE = f'{quote_identifier(ROWS_TABLE)} AS "_r"'


class RowState:
    """The rows of one node that are not complete yet."""

    def __init__(self, node: AnalyticNode, engine: Engine, key: tuple[str, ...] | None) -> None:
        self.node = node
        self.store = SegmentStore(key)
        self._engine = engine

    def add(self, rows: pa.Table) -> None:
        """Keep new rows."""
        if len(rows):
            sql = f'SELECT *, {self.node.time_sql} AS "_t" FROM {_SOURCE}'  # noqa: S608
            self.store.append(self._engine.run_prepared(sql, rows))

    def take_complete(self, watermark_us: int) -> pa.Table:
        """Return the results of all rows whose time has passed, and drop these rows."""
        until_us = watermark_us - self.node.lag_us
        parts = [rows for _, rows in self.store.rows_between(NO_WATERMARK_US, until_us)]
        self.store.drop_before(until_us)
        self.store.compact()
        schema = physical_schema(self.node.relation.schema)
        if not parts:
            return schema.empty_table()
        sql = f"SELECT {select_list_sql(self.node.select)} FROM {_SOURCE}"  # noqa: S608
        return self._engine.run_prepared(sql, pa.concat_tables(parts)).cast(schema)

    def dues_us(self) -> list[int]:
        """Return the watermark at which the first rows are complete, if there are rows."""
        firsts = [int(run.times[run.first_live]) for run in self.store.runs]
        return [min(firsts) + self.node.lag_us + 1] if firsts else []
