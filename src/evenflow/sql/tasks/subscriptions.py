"""The subscriptions of a template on one worker: parameter values that events are joined with."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import InputError
from evenflow.sql.engine import Engine
from evenflow.sql.query_plan import ParameterBound
from evenflow.sql.tasks.segments import SegmentStore, SortedRun
from evenflow.sql.types import physical_schema, quote_identifier, quote_string


class SubscriptionTable:
    """Rows of `schema` (name and parameters), and their copy in the engine, updated on use."""

    def __init__(self, schema: pa.Schema, engine: Engine, key: tuple[str, ...] | None) -> None:
        self.schema = schema
        self.store = SegmentStore(key)
        self._engine = engine
        self._engine_table = ""
        self._copied_runs: list[SortedRun] | None = None
        self._row_filters: dict[ParameterBound, str] = {}

    def subscribe(self, rows: pa.Table) -> None:
        """Add subscriptions; existing ones get the new parameters."""
        missing = [name for name in self.schema.names if name not in rows.schema.names]
        if missing:
            raise InputError(
                f"a subscription needs {', '.join(self.schema.names)}; {missing[0]!r} is missing"
            )
        try:
            rows = rows.select(self.schema.names).cast(self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            columns = ", ".join(f"{field.name} {field.type}" for field in self.schema)
            raise InputError(f"subscriptions do not match ({columns}): {error}") from None
        names = rows.column("subscription")
        if names.null_count:
            raise InputError("a subscription has no name; name each one")
        if pc.count_distinct(names).as_py() != len(names):
            raise InputError("two subscriptions of one call have the same name; rename one")
        self.unsubscribe(names)
        rows = rows.cast(physical_schema(self.schema))
        times = pa.array(np.zeros(len(rows), dtype=np.int64))  # the store orders rows by time
        self.store.append(rows.append_column("_t", times))

    def unsubscribe(self, names: pa.Array) -> None:
        """Remove subscriptions; unknown names are ignored."""
        value_set = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
        self.store.remove_rows(
            lambda rows: pc.is_in(rows.column("subscription"), value_set=value_set).to_numpy()
        )

    def engine_table(self) -> str:
        """Update the copy in the engine if rows have changed, and return its name."""
        self.store.compact()
        if self._copied_runs is None or self._copied_runs != self.store.runs:
            self.close()
            empty = physical_schema(self.schema).empty_table()
            parts = [run.live_rows.drop_columns(["_t"]) for run in self.store.runs]
            self._engine_table = self._engine.create_table(pa.concat_tables([empty, *parts]))
            self._copied_runs = list(self.store.runs)
        return self._engine_table

    def row_filter_sql(self, bound: ParameterBound) -> str:
        """Return a condition that holds for every row that a subscription of the copy matches."""
        if bound not in self._row_filters:
            extreme_sql = f"{bound.extreme_function}({quote_identifier(bound.parameter)})::VARCHAR"
            sql = f"SELECT {extreme_sql} FROM {self.engine_table()}"  # noqa: S608 - no user text
            extreme = self._engine.run(sql, {})[0][0].as_py()
            value = "NULL" if extreme is None else quote_string(extreme)
            self._row_filters[bound] = (
                f"{bound.value_sql} {bound.comparison} CAST({value} AS {bound.duckdb_type})"
            )
        return self._row_filters[bound]

    def close(self) -> None:
        """Drop the copy in the engine; the rows stay."""
        if self._engine_table:
            self._engine.drop_table(self._engine_table)
        self._engine_table, self._copied_runs = "", None
        self._row_filters.clear()
