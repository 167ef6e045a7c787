"""A join of streams: what each input keeps, by which columns partners are found."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.compile.time_bounds import TimeBounds
from evenflow.sql.query_plan import JoinBuffer, JoinProbe, NodeInput, SelectNode
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast, Relation, TypedExpr

if TYPE_CHECKING:
    from evenflow.sql.compile.from_clause import FromClause

ROW_ALIAS = "_r"
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"\.?""")
ColumnPair = tuple[tuple[str, str], tuple[str, str]]


def split_conjuncts(node: Ast) -> list[Ast]:
    """Split a condition at its ANDs; BETWEEN is two conditions."""
    if isinstance(node, exp.Paren):
        return split_conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*split_conjuncts(node.left), *split_conjuncts(node.right)]
    if isinstance(node, exp.Between):
        return [
            exp.GTE(this=node.this, expression=node.args["low"]),
            exp.LTE(this=node.this, expression=node.args["high"]),
        ]
    return [node]


def equal_column_pairs(nodes: Sequence[Ast], translate: Translator) -> tuple[ColumnPair, ...]:
    """List the pairs of plain columns that a condition makes equal."""
    found = []
    for node in nodes:
        if isinstance(node, exp.EQ):
            left, right = translate(node.left), translate(node.right)
            if left.column and right.column:
                found.append((left.column, right.column))
    return tuple(found)


def time_bounds(source: "FromClause") -> TimeBounds:
    """Read the bounds on the times of a join."""
    flowing = {i.alias: source.relations[i.alias] for i in source.inputs}
    return TimeBounds.from_conditions(flowing, source.conjuncts, source.translator)


def add_join_buffers(
    block: SelectNode, source: "FromClause", where: Sequence[TypedExpr]
) -> SelectNode:
    """Give each input of a join its buffer, and each set of new rows its way to partners."""
    limits = time_bounds(source)
    edges, computed = _equality_edges(source)
    aliases = {i.alias for i in block.inputs}
    rest = [w for w in where if len(w.inputs) != 1 or not w.inputs <= aliases]
    on = tuple(r.on for r in block.references if r.on is not None)
    wanted = " ".join([*(sql for _, sql in block.select), *(w.sql for w in rest), *on])
    inputs = []
    for item in block.inputs:
        alone = [w.sql for w in where if w.inputs == {item.alias}]
        columns = _buffered_columns(
            item, source.relations[item.alias], wanted, [*edges, *block.equal_columns]
        )
        columns += [(n, sql) for (a, n), sql in computed.items() if a == item.alias]
        columns.append(("_t", _clock_sql(item.alias, source.relations[item.alias], limits)))
        sides = dict.fromkeys(e for pair in edges for e in pair if e[0] == item.alias)
        for alias, column in sides:
            sql = computed.get(
                (alias, column), f"{types.quote_identifier(alias)}.{types.quote_identifier(column)}"
            )
            alone.append(f"({sql} IS NOT NULL)")
        buffer = JoinBuffer(
            tuple((n, replace_alias(sql, item.alias, ROW_ALIAS)) for n, sql in columns),
            tuple(replace_alias(sql, item.alias, ROW_ALIAS) for sql in dict.fromkeys(alone)),
            limits.retention_us(item.alias),
        )
        inputs.append(replace(item, buffer=buffer))
    probes = tuple(
        _probe_order(item.alias, [i.alias for i in inputs], edges, limits) for item in inputs
    )
    return replace(block, inputs=tuple(inputs), where=tuple(w.sql for w in rest), probes=probes)


def replace_alias(sql: str, alias: str, other: str) -> str:
    """Let an expression read a row under another alias.

    >>> replace_alias('"a"."x" = \\'"a".\\'', "a", "r")
    '"r"."x" = \\'"a".\\''
    """
    old, new = f"{types.quote_identifier(alias)}.", f"{types.quote_identifier(other)}."
    return _TOKEN.sub(lambda m: new if m[0] == old else m[0], sql)


def _buffered_columns(
    item: NodeInput, relation: Relation, wanted: str, edges: Sequence[ColumnPair]
) -> list[tuple[str, str]]:
    """Choose the columns of a row that anything above reads."""
    sides = {e for pair in edges for e in pair}
    found = []
    for entry in relation.fields:
        sql = f"{types.quote_identifier(item.alias)}.{types.quote_identifier(entry.name)}"
        if sql in wanted or (item.alias, entry.name) in sides:
            found.append((entry.name, sql))
    return found


def _clock_sql(alias: str, relation: Relation, limits: TimeBounds) -> str:
    """Write the clock of an input's row in microseconds."""
    wanted = limits.clocks[alias].split("\0", 1)[1]
    for entry in relation.fields:
        if entry.time is not None and entry.time.clock == wanted:
            sql = f"{types.quote_identifier(alias)}.{types.quote_identifier(entry.name)}"
            if entry.time.width_us is not None:
                sql = f"struct_extract({sql}, 'start')"
            return f"(epoch_us({sql}) - {entry.time.offset_us})"
    raise InputError(f"{alias!r} passes no event time on; select it in the subquery")


def _equality_edges(source: "FromClause") -> tuple[list[ColumnPair], Mapping[tuple[str, str], str]]:
    """List the equalities between inputs; a side that is no plain column is computed once."""
    edges: list[ColumnPair] = []
    computed: dict[tuple[str, str], str] = {}
    flowing = {i.alias for i in source.inputs}
    translate = source.translator
    for node in source.conjuncts:
        if not isinstance(node, exp.EQ):
            continue
        raw = translate(node.left), translate(node.right)
        if any(len(v.inputs) != 1 or not v.inputs <= flowing for v in raw):
            continue
        if raw[0].inputs == raw[1].inputs:
            continue
        cast = translate.widen_operands(node, *raw)
        if pa.types.is_nested(cast[0].type) and not pa.types.is_struct(cast[0].type):
            continue
        sides = []
        alike = types.hash_compatible(raw[0].type, raw[1].type)
        for value, wide in zip(raw, cast, strict=True):
            (alias,) = value.inputs
            if value.column is not None and alike:
                sides.append(value.column)
            else:
                name = f"_e{len(computed)}"
                computed[alias, name] = wide.sql
                sides.append((alias, name))
        edges.append((sides[0], sides[1]))
    return edges, computed


def _probe_order(
    start: str, aliases: Sequence[str], edges: Sequence[ColumnPair], limits: TimeBounds
) -> tuple[JoinProbe, ...]:
    """Reach every other input from one by equalities, by as many at a time as there are."""
    reached, found = [start], []
    while len(reached) < len(aliases):
        best: tuple[str, str, list[ColumnPair]] | None = None
        for target in aliases:
            if target in reached:
                continue
            for source in reached:
                pairs = [
                    (a, b) if a[0] == source else (b, a)
                    for a, b in edges
                    if {a[0], b[0]} == {source, target}
                ]
                if pairs and (best is None or len(pairs) > len(best[2])):
                    best = (source, target, pairs)
        if best is None:
            other = next(a for a in aliases if a not in reached)
            raise InputError(
                f"nothing in {other} must be equal to anything in {' or '.join(reached)}; "
                f"add a condition such as {reached[0]}.key = {other}.key"
            )
        source, target, pairs = best
        low, high = limits.difference_range_us(source, target)
        mine = tuple(column for (_, column), _ in pairs)
        theirs = tuple(column for _, (_, column) in pairs)
        found.append(JoinProbe(source, target, mine, theirs, low, high))
        reached.append(target)
    return tuple(found)
