"""A query on its way into the registry: checked, compiled, placed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evenflow.durations import check_name
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.spark import border
from evenflow.spark.programs import Compiled, catalog_of, compiled
from evenflow.spark.registry import Columns, Hosted, Registry, StreamSpec, listed

Names = str | list[str] | tuple[str, ...]
Key = Names | Mapping[str, Names]


@dataclass(frozen=True, slots=True)
class Submission:
    """A query as a user asks for it; called with a registry and a plan it returns the next ones.

    `form` is query, template or operator; `text` is SQL or where the operator's class is.
    """

    form: str
    name: str
    text: str
    key: Columns | None = None
    publish: bool = False
    worker: int | None = None
    over: tuple[str, ...] = ()

    def __call__(self, registry: Registry, plan: Plan) -> tuple[Registry, Plan]:
        """Add the query, or refuse it."""
        check_free(self.name, self.form, registry)
        if self.worker is not None and self.key is not None:
            raise InputError(f"{self.name!r} is keyed and runs on all workers; leave worker out")
        if self.worker is not None and not 0 <= self.worker < plan.workers:
            raise InputError(
                f"{self.name!r} is to run on worker {self.worker}; there are 0..{plan.workers - 1}"
            )
        catalog = catalog_of(registry)
        program = compiled(self.form, self.name, self.text, catalog, key=self.key, over=self.over)
        query = self._hosted(program, registry)
        stream = self._stream(program) if self.publish else None
        return registry.with_query(query, stream), border.place(plan, query, self.worker)

    def same_as(self, query: Hosted) -> bool:
        """Tell whether a hosted query was asked for with the same words."""
        mine = (self.form, self.text, self.key, self.publish, self.over or query.streams)
        return mine == (query.form, query.text, query.key, query.publish, query.streams)

    def _hosted(self, program: Compiled, registry: Registry) -> Hosted:
        return Hosted(
            name=self.name,
            uid=f"{self.name}@{registry.version + 1}",
            form=self.form,
            text=self.text,
            kind=program.kind,
            streams=program.streams,
            schema=program.schema,
            key=self.key,
            keys=program.key if self.key is not None else None,
            inferred=program.key,
            publish=self.publish,
            pin=self.worker,
            parameters=program.parameters,
            subscription_key=program.subscription_key if self.key is not None else None,
            reads=program.reads,
        )

    def _stream(self, program: Compiled) -> StreamSpec:
        if program.time is None:
            raise InputError(
                f"{self.name!r} cannot be published: its result has no event-time column; "
                "select the time of a stream, or the window's start or end"
            )
        return StreamSpec(program.schema, program.time, program.lag_us, derived=True)


def columns(key: Key | None) -> Columns | None:
    """Return a key as tuples of columns: one for all streams, or one for each by name."""
    if key is None:
        return None
    if isinstance(key, Mapping):
        return {stream: _tuple(names) for stream, names in sorted(key.items())}
    return _tuple(key)


def _tuple(names: Names) -> tuple[str, ...]:
    found = (names,) if isinstance(names, str) else tuple(names)
    if not found:
        raise InputError("a key needs at least one column, got none")
    return found


def check_free(name: str, what: str, registry: Registry) -> None:
    """Refuse a name that cannot be used or is taken."""
    check_name(name, what)
    taken = {known.lower() for known in (*registry.streams, *registry.tables, *registry.queries)}
    if name.lower() in taken:
        raise InputError(f"{name!r} is taken; there are {listed(taken)}")


def subscriptions(query: Hosted, rows: Any) -> pa.Table:
    """Bring a mapping, a list of mappings, an Arrow table or a DataFrame to a template's rows.

    Each row has the column `subscription` and one for each parameter.
    """
    schema = _parameters(query)
    if isinstance(rows, Mapping):
        rows = [rows]
    if isinstance(rows, list):
        table = _from_list(rows, schema)
    else:
        table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise InputError(
            f"a subscription of {query.name!r} needs {listed(schema.names)}; "
            f"{listed(missing)} is missing"
        )
    try:
        table = table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"a subscription of {query.name!r} has a wrong type: {error}") from None
    names = table.column("subscription")
    if names.null_count:
        raise InputError(f"a subscription of {query.name!r} has no name; give each one")
    if len(names.unique()) != len(names):
        raise InputError(f"two subscriptions of {query.name!r} have one name; rename one")
    return table.combine_chunks()


def _parameters(query: Hosted) -> pa.Schema:
    if query.parameters is None:
        raise InputError(f"{query.name!r} is no template, so it has no subscriptions")
    return query.parameters


def _from_list(rows: list[Any], schema: pa.Schema) -> pa.Table:
    for row in rows:
        missing = [name for name in schema.names if name not in row]
        if missing:
            raise InputError(
                f"the subscription {dict(row)} lacks {listed(missing)}; give {listed(schema.names)}"
            )
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"a subscription has a wrong type: {error}") from None
