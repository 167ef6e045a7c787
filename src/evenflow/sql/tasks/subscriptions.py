"""The subscriptions of a template on one worker: rows of parameters, joined with events as one."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import InputError
from evenflow.sql.compile.parameter_bounds import ParameterBound
from evenflow.sql.engine import Engine
from evenflow.sql.tasks.segments import SegmentStore, SortedRun
from evenflow.sql.types import physical_schema, quote_identifier, quote_string


class SubscriptionTable:
    """Rows of `schema` (subscription, parameters), copied into the engine when they change."""

    def __init__(self, schema: pa.Schema, engine: Engine, key: tuple[str, ...] | None) -> None:
        self.schema = schema
        self.store = SegmentStore(key)
        self._engine = engine
        self._engine_table = ""
        self._copied_runs: list[SortedRun] | None = None
        self._row_filters: dict[ParameterBound, str] = {}

    def subscribe(self, rows: pa.Table) -> None:
        """Add subscriptions; one that exists takes the new parameters."""
        missing = [name for name in self.schema.names if name not in rows.schema.names]
        if missing:
            raise InputError(
                f"a subscription needs {', '.join(self.schema.names)}; {missing[0]!r} is missing"
            )
        try:
            rows = rows.select(self.schema.names).cast(self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"subscriptions must be {self.schema.to_string()!r}: {error}"
            ) from None
        names = rows.column("subscription")
        if names.null_count:
            raise InputError("a subscription has no name; give each a text of its own")
        if pc.count_distinct(names).as_py() != len(names):
            raise InputError("two subscriptions of one call have one name; rename one")
        self.unsubscribe(names)
        rows = rows.cast(physical_schema(self.schema))
        self.store.append(rows.append_column("_t", pa.array(np.zeros(len(rows), dtype=np.int64))))

    def unsubscribe(self, names: pa.Array) -> None:
        """End subscriptions; unknown names are ignored."""
        wanted = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
        self.store.remove_rows(
            lambda rows: pc.is_in(rows.column("subscription"), value_set=wanted).to_numpy()
        )

    def engine_table(self) -> str:
        """Return the name under which the engine keeps them."""
        self.store.compact()
        if self._copied_runs is None or self._copied_runs != self.store.runs:
            self.close()
            empty = physical_schema(self.schema).empty_table()
            parts = [run.live_rows.drop_columns(["_t"]) for run in self.store.runs]
            self._engine_table = self._engine.create_table(pa.concat_tables([empty, *parts]))
            self._copied_runs = list(self.store.runs)
        return self._engine_table

    def row_filter_sql(self, limit: ParameterBound) -> str:
        """Write the condition that a row must fulfil for any subscription of the copy."""
        if limit not in self._row_filters:
            asked = f"{limit.extreme_function}({quote_identifier(limit.parameter)})::VARCHAR"
            sql = f"SELECT {asked} FROM {self.engine_table()}"  # noqa: S608 - names we made
            extreme = self._engine.run(sql, {})[0][0].as_py()
            value = "NULL" if extreme is None else quote_string(extreme)
            self._row_filters[limit] = (
                f"{limit.value_sql} {limit.comparison} CAST({value} AS {limit.duckdb_type})"
            )
        return self._row_filters[limit]

    def close(self) -> None:
        """Give the copy back."""
        if self._engine_table:
            self._engine.drop_table(self._engine_table)
        self._engine_table, self._copied_runs = "", None
        self._row_filters.clear()
