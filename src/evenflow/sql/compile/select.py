"""From a parsed SELECT to a tree of nodes: names resolved, types found, bounds checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.catalog import Catalog
from evenflow.sql.compile import group_by, joins
from evenflow.sql.compile.from_clause import CteScope, FromClause
from evenflow.sql.compile.parameter_bounds import find_parameter_bounds
from evenflow.sql.compile.parse import check_query
from evenflow.sql.compile.union_all import compile_union_all
from evenflow.sql.query_plan import PlanNode, SelectNode, UnionNode
from evenflow.sql.translate.translator import (
    SUBSCRIPTION_COLUMN,
    ParameterTypes,
    Translator,
    output_column_name,
    quote_sql,
)
from evenflow.sql.translate.typed_expr import Ast, Field, Relation, TypedExpr

MAX_INPUTS = 64


@dataclass
class Compiler:
    """Compile the parts of one query; `parameters` are those of a template.

    `reads` gathers the columns of each stream that the query names anywhere.
    """

    catalog: Catalog
    parameters: ParameterTypes | None = None
    node_ids: "count[int]" = field(default_factory=count)
    compiled_queries: dict[tuple[int, bool], tuple[PlanNode, int]] = field(default_factory=dict)
    input_count: int = 0
    reads: dict[str, set[str]] = field(default_factory=dict)

    def compile(self, node: Ast, ctes: CteScope, strict: bool) -> PlanNode:
        """Compile a query or a subquery; a WITH query that is read twice is computed once."""
        key = (id(node), strict)
        if key in self.compiled_queries:
            made, size = self.compiled_queries[key]
            self.count_inputs(size)
            return made
        before = self.input_count
        parsed = check_query(node)
        inner = self._cte_scope(parsed, ctes)
        if isinstance(parsed, exp.Union):
            made = self._compile_union(parsed, inner, strict)
        else:
            made = self._compile_select(parsed, inner, strict)
        self.compiled_queries[key] = (made, self.input_count - before)
        return made

    def count_inputs(self, inputs: int) -> None:
        """Count what is read; a query read twice counts twice, so nesting cannot explode."""
        self.input_count += inputs
        if self.input_count > MAX_INPUTS:
            raise InputError(f"the query reads more than {MAX_INPUTS} relations; split it")

    def _cte_scope(self, node: Ast, ctes: CteScope) -> CteScope:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise InputError("WITH RECURSIVE is refused; write the steps as queries")
        named = dict(ctes)
        for cte in clause.expressions:
            if cte.args["alias"].args.get("columns"):
                raise InputError(f"WITH {cte.alias}(...): name the columns inside, with AS")
            named[cte.alias.lower()] = (cte.this, dict(named))
        return named

    def _compile_union(self, node: Ast, ctes: CteScope, strict: bool) -> PlanNode:
        sides = [self.compile(side, ctes, strict) for side in (node.left, node.right)]
        parts = [
            p for side in sides for p in (side.parts if isinstance(side, UnionNode) else [side])
        ]
        return compile_union_all(self.node_ids, parts)

    def _compile_select(self, select: Ast, ctes: CteScope, strict: bool) -> PlanNode:
        source = FromClause.resolve(self, select, ctes, strict)
        made = self._compile_body(select, source)
        for item in source.inputs:
            if isinstance(item.feed, str):
                named = {column for alias, column in source.resolved_columns if alias == item.alias}
                self.reads.setdefault(item.feed, set()).update(named)
        return made

    def _compile_body(self, select: Ast, source: FromClause) -> PlanNode:
        translate = source.translator
        where = [translate.boolean(node) for node in source.conjuncts]
        expressions = _expand_stars(select, source)
        if select.args.get("group") or any(e.find(exp.AggFunc) for e in expressions):
            return group_by.compile_group_by(self, select, expressions, source, where)
        columns = [self._output_column(translate, node) for node in expressions]
        if source.joins_subscriptions:
            columns.insert(0, ("subscription", SUBSCRIPTION_COLUMN))
        relation, selected, lineage = _output_relation(columns)
        relation = replace(relation, lags_us=source.output_lags_us())
        return self.build_block(source, where, selected, relation, lineage)

    def build_block(
        self,
        source: FromClause,
        where: list[TypedExpr],
        select: tuple[tuple[str, str], ...],
        relation: Relation,
        lineage: Mapping[str, tuple[str, str]],
        *,
        grouped: bool = False,
    ) -> PlanNode:
        """Make the node of a FROM and WHERE; over a union it becomes a union of blocks."""
        inputs = tuple(source.inputs)
        made = SelectNode(
            next(self.node_ids),
            inputs,
            tuple(source.references),
            tuple(w.sql for w in where),
            select,
            grouped,
            relation,
            lineage,
            joins.equal_column_pairs(source.conjuncts, source.translator),
            parameter_bounds=find_parameter_bounds(source.conjuncts, source.translator)
            if source.joins_subscriptions
            else (),
        )
        if len(inputs) > 1:
            return joins.add_join_buffers(made, source, where)
        feed = inputs[0].feed
        if isinstance(feed, UnionNode):
            parts = tuple(
                replace(made, id=next(self.node_ids), inputs=(replace(inputs[0], feed=part),))
                for part in feed.parts
            )
            return UnionNode(next(self.node_ids), parts, relation)
        return made

    def _output_column(self, translate: Translator, node: Ast) -> tuple[str, TypedExpr]:
        value = translate(node.this if isinstance(node, exp.Alias) else node)
        return output_column_name(node), value


def _output_relation(
    columns: list[tuple[str, TypedExpr]],
) -> tuple[Relation, tuple[tuple[str, str], ...], Mapping[str, tuple[str, str]]]:
    types.check_column_names(name for name, _ in columns)
    fields = tuple(Field(name, value.type, value.time) for name, value in columns)
    lineage = {name: value.column for name, value in columns if value.column}
    return Relation(fields), tuple((n, v.sql) for n, v in columns), lineage


def _expand_stars(select: Ast, source: FromClause) -> list[Ast]:
    """Replace * and a.* by columns."""
    found: list[Ast] = []
    for node in select.expressions:
        if not node.is_star or node.find(exp.AggFunc):
            found.append(node)
            continue
        if any(v for k, v in node.args.items() if k in ("except_", "replace", "rename")):
            raise InputError(f"{quote_sql(node)}: name the columns instead of * EXCEPT")
        wanted = node.table if isinstance(node, exp.Column) else ""
        aliases = [a for a in source.relations if not wanted or a.lower() == wanted.lower()]
        for alias in aliases:
            found += [exp.column(f.name, alias) for f in source.relations[alias].fields]
        if not aliases:
            raise InputError(f"{quote_sql(node)}: there is no {wanted!r} in FROM")
    return found
