"""The select node of a FROM and WHERE."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from evenflow.sql.compile.context import CompileContext
from evenflow.sql.compile.from_clause import FromClause
from evenflow.sql.compile.joins import ColumnPair, add_join_buffers
from evenflow.sql.query_plan import (
    SUBSCRIPTIONS_ALIAS,
    ParameterBound,
    PlanNode,
    SelectNode,
    SqlColumns,
    UnionNode,
)
from evenflow.sql.relation import ColumnRef, Relation
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast, TypedExpr
from evenflow.sql.types import duckdb_name, is_number, is_timestamp

_COMPARISONS: dict[type, str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def build_block(
    context: CompileContext,
    source: FromClause,
    where: list[TypedExpr],
    select: SqlColumns,
    relation: Relation,
    lineage: Mapping[str, ColumnRef],
    *,
    preaggregates: bool = False,
) -> PlanNode:
    """Build the node of a FROM and WHERE; over a union it is a union of select nodes."""
    inputs, translate = tuple(source.inputs), source.translator
    node = SelectNode(
        id=next(context.node_ids),
        inputs=inputs,
        references=tuple(source.references),
        laterals=tuple(source.laterals),
        subquery_tables=tuple(sorted(source.read_tables)),
        where=tuple(condition.sql for condition in where),
        select=select,
        preaggregates=preaggregates,
        relation=relation,
        lineage=lineage,
        equal_columns=_equal_column_pairs(source.join_conjuncts, source.join_translator),
        parameter_bounds=(
            _parameter_bounds(source.conjuncts, translate) if source.joins_subscriptions else ()
        ),
    )
    if len(inputs) > 1:
        return add_join_buffers(node, source, where)
    feed = inputs[0].feed
    if isinstance(feed, UnionNode):
        parts = tuple(
            replace(node, id=next(context.node_ids), inputs=(replace(inputs[0], feed=part),))
            for part in feed.parts
        )
        return UnionNode(next(context.node_ids), parts, relation)
    return node


def _equal_column_pairs(conjuncts: Sequence[Ast], translate: Translator) -> tuple[ColumnPair, ...]:
    """List the pairs of plain columns that a condition makes equal."""
    pairs = []
    for node in conjuncts:
        if isinstance(node, exp.EQ):
            left, right = translate(node.left), translate(node.right)
            if left.column and right.column:
                pairs.append((left.column, right.column))
    return tuple(pairs)


def _parameter_bounds(
    conjuncts: Sequence[Ast], translate: Translator
) -> tuple[ParameterBound, ...]:
    """List the comparisons of a plain column with a parameter of its type.

    Rows beyond the extreme of a parameter match no subscription, so they can be dropped before the
    join. Other expressions might fail on rows that another condition would have dropped.
    """
    bounds = []
    for node in conjuncts:
        comparison = _COMPARISONS.get(type(node))
        if comparison is None:
            continue
        left, right = translate.translate_operands(node)
        if left.type != right.type or not (is_number(left.type) or is_timestamp(left.type)):
            continue
        for value, parameter, operator in (
            (left, right, comparison),
            (right, left, _MIRRORED[comparison]),
        ):
            is_bound = parameter.inputs == {SUBSCRIPTIONS_ALIAS} != value.inputs
            if is_bound and value.column and parameter.column:
                kind = duckdb_name(parameter.type)
                bounds.append(ParameterBound(value.sql, operator, parameter.column[1], kind))
    return tuple(bounds)
