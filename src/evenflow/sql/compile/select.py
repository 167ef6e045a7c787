"""From a parsed query to a tree of nodes: names resolved, types inferred, bounds checked."""

from dataclasses import dataclass, field

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.compile.blocks import build_block
from evenflow.sql.compile.context import CompileContext, CteScope
from evenflow.sql.compile.from_clause import FromClause
from evenflow.sql.compile.group_by import compile_group_by
from evenflow.sql.compile.parse import check_query
from evenflow.sql.compile.union_all import compile_union_all
from evenflow.sql.query_plan import PlanNode, UnionNode
from evenflow.sql.relation import Field, Relation
from evenflow.sql.translate.conditions import guard_conditions
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import SUBSCRIPTION_COLUMN, output_column_name
from evenflow.sql.translate.typed_expr import Ast
from evenflow.sql.types import check_column_names


@dataclass
class Compiler(CompileContext):
    """Compiles one query; a WITH query that is read twice is compiled and computed once."""

    compiled_queries: dict[tuple[int, bool], tuple[PlanNode, int]] = field(default_factory=dict)

    def compile(self, query: Ast, ctes: CteScope, *, drop_late: bool) -> PlanNode:
        """Compile a query or a subquery; `drop_late` drops late rows of its streams."""
        cache_key = (id(query), drop_late)
        if cache_key in self.compiled_queries:
            node, inputs = self.compiled_queries[cache_key]
            self.count_inputs(inputs)
            return node
        inputs_before = self.input_count
        parsed = check_query(query)
        scope = _cte_scope(parsed, ctes)
        if isinstance(parsed, exp.Union):
            node = self._compile_union(parsed, scope, drop_late)
        else:
            node = self._compile_select(parsed, scope, drop_late)
        self.compiled_queries[cache_key] = (node, self.input_count - inputs_before)
        return node

    def _compile_union(self, union: Ast, ctes: CteScope, drop_late: bool) -> PlanNode:
        sides = [self.compile(s, ctes, drop_late=drop_late) for s in (union.left, union.right)]
        parts = [p for s in sides for p in (s.parts if isinstance(s, UnionNode) else [s])]
        return compile_union_all(self.node_ids, parts)

    def _compile_select(self, select: Ast, ctes: CteScope, drop_late: bool) -> PlanNode:
        source = FromClause.resolve(self, select, ctes, drop_late=drop_late)
        node = self._compile_body(select, source)
        for item in source.inputs:
            if isinstance(item.feed, str):
                columns = {
                    column for alias, column in source.resolved_columns if alias == item.alias
                }
                self.reads.setdefault(item.feed, set()).update(columns)
        return node

    def _compile_body(self, select: Ast, source: FromClause) -> PlanNode:
        translate = source.translator
        where = guard_conditions([translate.boolean(c) for c in source.conjuncts])
        expressions = _expand_stars(select, source)
        if select.args.get("group") or any(e.find(exp.AggFunc) for e in expressions):
            return compile_group_by(self, select, expressions, source, where)
        columns = []
        for item in expressions:
            value = translate(item.this if isinstance(item, exp.Alias) else item)
            columns.append((output_column_name(item), value))
        if source.joins_subscriptions:
            columns.insert(0, ("subscription", SUBSCRIPTION_COLUMN))
        check_column_names(name for name, _ in columns)
        fields = tuple(Field(name, value.type, value.time) for name, value in columns)
        selected = tuple((name, value.sql) for name, value in columns)
        lineage = {name: value.column for name, value in columns if value.column}
        relation = Relation(fields, source.output_lags_us())
        return build_block(self, source, where, selected, relation, lineage)


def _cte_scope(query: Ast, ctes: CteScope) -> CteScope:
    """Add the WITH queries of a query to the names it can use."""
    clause = query.args.get("with_")
    if clause is None:
        return ctes
    if clause.args.get("recursive"):
        raise InputError("WITH RECURSIVE is refused; write the steps as queries")
    scope = dict(ctes)
    for cte in clause.expressions:
        if cte.args["alias"].args.get("columns"):
            raise InputError(f"WITH {cte.alias}(...): name the columns inside, with AS")
        scope[cte.alias.lower()] = (cte.this, dict(scope))
    return scope


def _expand_stars(select: Ast, source: FromClause) -> list[Ast]:
    """Replace * and a.* by columns."""
    expressions: list[Ast] = []
    for node in select.expressions:
        if not node.is_star or node.find(exp.AggFunc):
            expressions.append(node)
            continue
        if any(v for k, v in node.args.items() if k in ("except_", "replace", "rename")):
            raise refusal(node, "is not supported; name the columns instead of * EXCEPT")
        table = node.table if isinstance(node, exp.Column) else ""
        aliases = [a for a in source.relations if not table or a.lower() == table.lower()]
        for alias in aliases:
            expressions += [exp.column(f.name, alias) for f in source.relations[alias].fields]
        if not aliases:
            raise refusal(node, f"names {table!r}, which is not in FROM")
    return expressions
