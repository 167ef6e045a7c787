"""The statements that a select node runs over the new rows of its inputs."""

from collections.abc import Mapping, Sequence

from evenflow.sql.query_plan import SelectNode, marked_table
from evenflow.sql.types import quote_identifier, select_list_sql

_MATCHED = quote_identifier("\x01matched")  # no column has a control character


def select_sql(
    node: SelectNode,
    inputs: Mapping[str, str],
    tables: Mapping[str, str],
    row_filters: tuple[str, ...] = (),
) -> str:
    """Write the SELECT of a node, given the engine's names of its inputs and reference tables."""
    source = " CROSS JOIN ".join(_alias_sql(name, alias) for alias, name in inputs.items())
    return _write(node, source, (*node.where, *row_filters), tables)


def settled_sql(node: SelectNode, inputs: Mapping[str, str], tables: Mapping[str, str]) -> str:
    """Write what a join returns of settled rows; `inputs` are theirs and those that can match."""
    if node.outer is None:
        raise ValueError("only an outer join settles rows")
    (alias, name), (other, candidates) = inputs.items()
    kind, where = node.outer.kind, list(node.outer.where)
    matching = _alias_sql(candidates, other)
    if kind == "OUTER":
        kind, where = "LEFT", [f"{quote_identifier(other)}.{_MATCHED} IS NULL", *where]
        marked = f"(SELECT *, TRUE AS {_MATCHED} FROM {quote_identifier(candidates)})"  # noqa: S608
        matching = f"{marked} AS {quote_identifier(other)}"
    on = " AND ".join(node.outer.on)
    source = f"{_alias_sql(name, alias)} {kind} JOIN {matching} ON {on}"
    return _write(node, source, where, tables)


def _write(
    node: SelectNode, source: str, conditions: Sequence[str], tables: Mapping[str, str]
) -> str:
    for r in node.references:
        if r.on is None:
            source += f" CROSS JOIN {_alias_sql(tables[r.table], r.alias)}"
    for r in node.references:
        if r.on is not None:
            source += f" {r.kind} JOIN {_alias_sql(tables[r.table], r.alias)} ON {r.on}"
    for view in node.laterals:
        kind, on = ("LEFT JOIN", " ON TRUE") if view.is_outer else ("CROSS JOIN", "")
        source += f" {kind} LATERAL ({view.sql}) AS {quote_identifier(view.alias)}{on}"
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    ending = " GROUP BY ALL" if node.preaggregates else ""
    sql = f"SELECT {select_list_sql(node.select)} FROM {source}{where}{ending}"  # noqa: S608
    for name in node.subquery_tables:
        sql = sql.replace(marked_table(name), tables[name])
    return sql


def _alias_sql(table: str, alias: str) -> str:
    return f"{quote_identifier(table)} AS {quote_identifier(alias)}"
