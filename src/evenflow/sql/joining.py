"""A join of streams: what each input keeps, by which columns partners are found."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.bounds import Bounds
from evenflow.sql.expressions import Translator
from evenflow.sql.plan import Block, Buffer, Input, Probe
from evenflow.sql.typed import Ast, Relation, Typed

if TYPE_CHECKING:
    from evenflow.sql.sources import From

ROW = "_r"
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"\.?""")
Pair = tuple[tuple[str, str], tuple[str, str]]


def conjuncts(node: Ast) -> list[Ast]:
    """Split a condition at its ANDs; BETWEEN is two conditions."""
    if isinstance(node, exp.Paren):
        return conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*conjuncts(node.left), *conjuncts(node.right)]
    if isinstance(node, exp.Between):
        return [
            exp.GTE(this=node.this, expression=node.args["low"]),
            exp.LTE(this=node.this, expression=node.args["high"]),
        ]
    return [node]


def equal_columns(nodes: Sequence[Ast], translate: Translator) -> tuple[Pair, ...]:
    """List the pairs of plain columns that a condition makes equal."""
    found = []
    for node in nodes:
        if isinstance(node, exp.EQ):
            left, right = translate(node.left), translate(node.right)
            if left.column and right.column:
                found.append((left.column, right.column))
    return tuple(found)


def bounds(source: "From") -> Bounds:
    """Read the bounds on the times of a join."""
    flowing = {i.alias: source.relations[i.alias] for i in source.inputs}
    return Bounds.of(flowing, source.conjuncts, source.translate)


def buffered(block: Block, source: "From", where: Sequence[Typed]) -> Block:
    """Give each input of a join its buffer, and each set of new rows its way to partners."""
    limits = bounds(source)
    edges, computed = _edges(source)
    aliases = {i.alias for i in block.inputs}
    rest = [w for w in where if len(w.inputs) != 1 or not w.inputs <= aliases]
    on = tuple(r.on for r in block.references if r.on is not None)
    wanted = " ".join([*(sql for _, sql in block.select), *(w.sql for w in rest), *on])
    inputs = []
    for item in block.inputs:
        alone = [w.sql for w in where if w.inputs == {item.alias}]
        columns = _kept(item, source.relations[item.alias], wanted, [*edges, *block.equal])
        columns += [(n, sql) for (a, n), sql in computed.items() if a == item.alias]
        columns.append(("_t", _clock(item.alias, source.relations[item.alias], limits)))
        sides = dict.fromkeys(e for pair in edges for e in pair if e[0] == item.alias)
        for alias, column in sides:
            sql = computed.get((alias, column), f"{types.name(alias)}.{types.name(column)}")
            alone.append(f"({sql} IS NOT NULL)")
        buffer = Buffer(
            tuple((n, realias(sql, item.alias, ROW)) for n, sql in columns),
            tuple(realias(sql, item.alias, ROW) for sql in dict.fromkeys(alone)),
            limits.keep_us(item.alias),
        )
        inputs.append(replace(item, buffer=buffer))
    probes = tuple(_probes(item.alias, [i.alias for i in inputs], edges, limits) for item in inputs)
    return replace(block, inputs=tuple(inputs), where=tuple(w.sql for w in rest), probes=probes)


def realias(sql: str, alias: str, other: str) -> str:
    """Let an expression read a row under another alias.

    >>> realias('"a"."x" = \\'"a".\\'', "a", "r")
    '"r"."x" = \\'"a".\\''
    """
    old, new = f"{types.name(alias)}.", f"{types.name(other)}."
    return _TOKEN.sub(lambda m: new if m[0] == old else m[0], sql)


def _kept(
    item: Input, relation: Relation, wanted: str, edges: Sequence[Pair]
) -> list[tuple[str, str]]:
    """Choose the columns of a row that anything above reads."""
    sides = {e for pair in edges for e in pair}
    found = []
    for entry in relation.fields:
        sql = f"{types.name(item.alias)}.{types.name(entry.name)}"
        if sql in wanted or (item.alias, entry.name) in sides:
            found.append((entry.name, sql))
    return found


def _clock(alias: str, relation: Relation, limits: Bounds) -> str:
    """Write the clock of an input's row in microseconds."""
    wanted = limits.clocks[alias].split("\0", 1)[1]
    for entry in relation.fields:
        if entry.time is not None and entry.time.base == wanted:
            sql = f"{types.name(alias)}.{types.name(entry.name)}"
            if entry.time.width_us is not None:
                sql = f"struct_extract({sql}, 'start')"
            return f"(epoch_us({sql}) - {entry.time.offset_us})"
    raise InputError(f"{alias!r} passes no event time on; select it in the subquery")


def _edges(source: "From") -> tuple[list[Pair], Mapping[tuple[str, str], str]]:
    """List the equalities between inputs; a side that is no plain column is computed once."""
    edges: list[Pair] = []
    computed: dict[tuple[str, str], str] = {}
    flowing = {i.alias for i in source.inputs}
    translate = source.translate
    for node in source.conjuncts:
        if not isinstance(node, exp.EQ):
            continue
        raw = translate(node.left), translate(node.right)
        if any(len(v.inputs) != 1 or not v.inputs <= flowing for v in raw):
            continue
        if raw[0].inputs == raw[1].inputs:
            continue
        cast = translate.pair(node, *raw)
        if pa.types.is_nested(cast[0].type) and not pa.types.is_struct(cast[0].type):
            continue
        sides = []
        alike = types.hash_alike(raw[0].type, raw[1].type)
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


def _probes(
    start: str, aliases: Sequence[str], edges: Sequence[Pair], limits: Bounds
) -> tuple[Probe, ...]:
    """Reach every other input from one by equalities, by as many at a time as there are."""
    reached, found = [start], []
    while len(reached) < len(aliases):
        best: tuple[str, str, list[Pair]] | None = None
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
        low, high = limits.between(source, target)
        mine = tuple(column for (_, column), _ in pairs)
        theirs = tuple(column for _, (_, column) in pairs)
        found.append(Probe(source, target, mine, theirs, low, high))
        reached.append(target)
    return tuple(found)
