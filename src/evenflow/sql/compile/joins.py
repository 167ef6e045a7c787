"""Joins of streams: what is buffered of each input, and how matching rows are found."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.compile.from_clause import FromClause
from evenflow.sql.compile.time_bounds import TimeBounds
from evenflow.sql.query_plan import ROW_ALIAS, JoinBuffer, JoinProbe, OuterJoin, SelectNode
from evenflow.sql.relation import ColumnRef, Relation
from evenflow.sql.translate.translator import widen
from evenflow.sql.translate.typed_expr import TypedExpr
from evenflow.sql.types import column_sql, hash_compatible, physical_schema, quote_identifier

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"\.?""")
ColumnPair = tuple[ColumnRef, ColumnRef]


def add_join_buffers(
    block: SelectNode, source: FromClause, where: Sequence[TypedExpr]
) -> SelectNode:
    """Add to a join the buffer of each input, and the probes that start from its new rows."""
    bounds, outer = source.time_bounds, source.outer
    edges, computed = _equality_edges(source)
    aliases = [i.alias for i in block.inputs]
    conditions = [*where] if outer is None else [*outer.on, *where]
    rest = conditions
    if outer is None:  # conditions on one input hold for all buffered rows
        rest = [c for c in conditions if len(c.inputs) != 1 or not c.inputs <= set(aliases)]
    on = [r.on for r in block.references if r.on is not None]
    on += [view.sql for view in block.laterals]
    used_sql = " ".join([*(sql for _, sql in block.select), *(c.sql for c in rest), *on])
    equal = {column for pair in (*edges, *block.equal_columns) for column in pair}
    inputs, schemas = [], {}
    for item in block.inputs:
        alias = item.alias
        relation = source.relations.get(alias) or source.hidden[alias]
        used = [
            f
            for f in relation.fields
            if column_sql(alias, f.name) in used_sql or (alias, f.name) in equal
        ]
        columns = [(f.name, column_sql(alias, f.name)) for f in used]
        columns += [(name, sql) for (owner, name), sql in computed.items() if owner == alias]
        columns.append(("_t", _clock_sql(alias, relation, bounds)))
        schemas[alias] = physical_schema(pa.schema([(f.name, f.type) for f in used]))
        if outer is None:
            prefilters = [w for w in where if w.inputs == {alias}]
        else:
            prefilters = outer.prefilters(alias, list(where))
        tests = [c.sql for c in prefilters]
        if outer is None or alias not in outer.kept:
            for side in dict.fromkeys(s for pair in edges for s in pair if s[0] == alias):
                tests.append(f"({computed.get(side, column_sql(*side))} IS NOT NULL)")
        buffer = JoinBuffer(
            select=tuple((n, replace_alias(sql, alias, ROW_ALIAS)) for n, sql in columns),
            where=tuple(replace_alias(c, alias, ROW_ALIAS) for c in dict.fromkeys(tests)),
            retention_us=outer.retention_us(alias, bounds) if outer else bounds.retention_us(alias),
            settle_us=outer.settle_us(alias, bounds) if outer else None,
        )
        inputs.append(replace(item, buffer=buffer))
    probes = tuple(_probe_order(alias, aliases, edges, bounds) for alias in aliases)
    node = replace(block, inputs=tuple(inputs), where=tuple(c.sql for c in rest), probes=probes)
    if outer is None:
        return node
    kind = outer.kind if outer.kind in ("SEMI", "ANTI") else "OUTER"
    settled = OuterJoin(kind, tuple(c.sql for c in outer.on), tuple(c.sql for c in where), schemas)
    return replace(node, outer=settled, lineage=outer.lineage(node.lineage))


def replace_alias(sql: str, alias: str, other: str) -> str:
    """Replace the alias of columns, but not inside strings.

    >>> replace_alias('"a"."x" = \\'"a".\\'', "a", "r")
    '"r"."x" = \\'"a".\\''
    """
    old, new = f"{quote_identifier(alias)}.", f"{quote_identifier(other)}."
    return _TOKEN.sub(lambda m: new if m[0] == old else m[0], sql)


def _clock_sql(alias: str, relation: Relation, bounds: TimeBounds) -> str:
    """Write the clock of an input's row in microseconds."""
    clock = bounds.clocks[alias].split("\0", 1)[1]
    for column in relation.fields:
        if column.time is not None and column.time.clock == clock:
            sql = column_sql(alias, column.name)
            if column.time.width_us is not None:
                sql = f"struct_extract({sql}, 'start')"
            return f"(epoch_us({sql}) - {column.time.offset_us})"
    raise InputError(f"{alias!r} does not select an event time; select it in the subquery")


def _equality_edges(source: FromClause) -> tuple[list[ColumnPair], Mapping[ColumnRef, str]]:
    """List the equalities between inputs, and the SQL of sides that are not plain columns."""
    edges: list[ColumnPair] = []
    computed: dict[ColumnRef, str] = {}
    aliases = {i.alias for i in source.inputs}
    translate = source.join_translator
    for node in source.join_conjuncts:
        if not isinstance(node, exp.EQ):
            continue
        values = translate(node.left), translate(node.right)
        if any(len(v.inputs) != 1 or not v.inputs <= aliases for v in values):
            continue
        if values[0].inputs == values[1].inputs:
            continue
        widened = widen(node, *values)
        if pa.types.is_nested(widened[0].type) and not pa.types.is_struct(widened[0].type):
            continue
        sides = []
        is_hashable_as_is = hash_compatible(values[0].type, values[1].type)
        for value, wide in zip(values, widened, strict=True):
            if value.column is not None and is_hashable_as_is:
                sides.append(value.column)
            else:
                (alias,) = value.inputs
                side = (alias, f"_e{len(computed)}")
                computed[side] = wide.sql
                sides.append(side)
        edges.append((sides[0], sides[1]))
    return edges, computed


def _probe_order(
    start: str, aliases: Sequence[str], edges: Sequence[ColumnPair], bounds: TimeBounds
) -> tuple[JoinProbe, ...]:
    """Order the probes from one input to all others, those with the most equalities first."""
    between: dict[tuple[str, str], list[ColumnPair]] = {}  # inputs -> columns that are equal
    for a, b in edges:
        between.setdefault((a[0], b[0]), []).append((a, b))
        between.setdefault((b[0], a[0]), []).append((b, a))
    reached, probes = [start], []
    while len(reached) < len(aliases):
        best: tuple[str, str, list[ColumnPair]] | None = None
        for target in aliases:
            if target in reached:
                continue
            for source in reached:
                pairs = between.get((source, target), [])
                if pairs and (best is None or len(pairs) > len(best[2])):
                    best = (source, target, pairs)
        if best is None:
            other = next(a for a in aliases if a not in reached)
            raise InputError(
                f"no column of {other} must be equal to one of {' or '.join(reached)}; "
                f"add a condition such as {reached[0]}.key = {other}.key"
            )
        source, target, pairs = best
        low_us, high_us = bounds.difference_range_us(source, target)
        source_columns = tuple(column for (_, column), _ in pairs)
        target_columns = tuple(column for _, (_, column) in pairs)
        probes.append(JoinProbe(source, target, source_columns, target_columns, low_us, high_us))
        reached.append(target)
    return tuple(probes)
