"""The subscriptions of a template on one worker: rows of parameters, joined with events as one."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import InputError
from evenflow.sql.engine import Engine
from evenflow.sql.limits import Limit
from evenflow.sql.store import Run, Store
from evenflow.sql.types import name, physical_schema, text


class Subscriptions:
    """Rows of `schema` (subscription, parameters), copied into the engine when they change."""

    def __init__(self, schema: pa.Schema, engine: Engine, key: tuple[str, ...] | None) -> None:
        self.schema = schema
        self.store = Store(key)
        self._engine = engine
        self._kept = ""
        self._runs: list[Run] | None = None
        self._limits: dict[Limit, str] = {}

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
        self.store.take_out(
            lambda rows: pc.is_in(rows.column("subscription"), value_set=wanted).to_numpy()
        )

    def kept(self) -> str:
        """Return the name under which the engine keeps them."""
        self.store.compact()
        if self._runs is None or self._runs != self.store.runs:
            self.close()
            empty = physical_schema(self.schema).empty_table()
            parts = [run.live.drop_columns(["_t"]) for run in self.store.runs]
            self._kept = self._engine.keep(pa.concat_tables([empty, *parts]))
            self._runs = list(self.store.runs)
        return self._kept

    def beyond(self, limit: Limit) -> str:
        """Write the condition that a row must fulfil for any subscription of the copy."""
        if limit not in self._limits:
            asked = f"{limit.extreme}({name(limit.parameter)})::VARCHAR"
            extreme = self._engine.run(f"SELECT {asked} FROM {self.kept()}", {})[0][0].as_py()  # noqa: S608
            value = "NULL" if extreme is None else text(extreme)
            self._limits[limit] = f"{limit.value} {limit.sign} CAST({value} AS {limit.type})"
        return self._limits[limit]

    def close(self) -> None:
        """Give the copy back."""
        if self._kept:
            self._engine.drop(self._kept)
        self._kept, self._runs = "", None
        self._limits.clear()
