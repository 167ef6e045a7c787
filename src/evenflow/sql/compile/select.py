"""From a parsed query to a tree of nodes: names resolved, types inferred, bounds checked."""

from dataclasses import dataclass, field

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.compile.analytics import compile_analytics, has_over
from evenflow.sql.compile.blocks import build_block
from evenflow.sql.compile.context import CompileContext, CteScope
from evenflow.sql.compile.distinct import group_by_all, without_duplicates
from evenflow.sql.compile.from_clause import FromClause
from evenflow.sql.compile.group_by import compile_group_by
from evenflow.sql.compile.grouping_sets import expand_grouping_sets
from evenflow.sql.compile.lateral_views import with_laterals
from evenflow.sql.compile.parse import check_query
from evenflow.sql.compile.problems import ProblemList
from evenflow.sql.compile.rewrites import (
    is_helper_column,
    select_where,
    with_column_names,
    with_plain_clauses,
    without_qualify,
)
from evenflow.sql.compile.union_all import compile_union_all
from evenflow.sql.query_plan import PlanNode, UnionNode
from evenflow.sql.relation import Field, Relation
from evenflow.sql.translate.aggregates import has_aggregate
from evenflow.sql.translate.column_names import output_column_name
from evenflow.sql.translate.conditions import guard_conditions
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import SUBSCRIPTION_COLUMN
from evenflow.sql.translate.typed_expr import Ast, TypedExpr
from evenflow.sql.types import check_column_names


@dataclass
class Compiler(CompileContext):
    """Compiles one query; a WITH query that is read twice is compiled and computed once."""

    compiled_queries: dict[tuple[int, bool], tuple[Ast, PlanNode, int]] = field(
        default_factory=dict
    )

    def compile(self, query: Ast, ctes: CteScope, *, drop_late: bool) -> PlanNode:
        """Compile a query or a subquery; `drop_late` drops late rows of its streams."""
        cache_key = (id(query), drop_late)
        if cache_key in self.compiled_queries:
            _, node, inputs = self.compiled_queries[cache_key]
            self.count_inputs(inputs)
            return node
        inputs_before = self.input_count
        parsed = check_query(query)
        scope = _cte_scope(parsed, ctes)
        if isinstance(parsed, exp.Union):
            node = self._compile_union(parsed, scope, drop_late)
        else:
            node = self._compile_select(parsed, scope, drop_late)
        inputs = self.input_count - inputs_before
        self.compiled_queries[cache_key] = (
            query,
            node,
            inputs,
        )  # holds the query: the id stays valid
        return node

    def _compile_union(self, union: Ast, ctes: CteScope, drop_late: bool) -> PlanNode:
        if union.args.get("distinct"):
            return self._compile_distinct(without_duplicates(union), ctes, drop_late)
        queries = (union.left, with_column_names(union.right))  # the first names the columns
        sides = [self.compile(query, ctes, drop_late=drop_late) for query in queries]
        parts = [p for s in sides for p in (s.parts if isinstance(s, UnionNode) else [s])]
        return compile_union_all(self.node_ids, parts)

    def _compile_distinct(self, query: Ast, ctes: CteScope, drop_late: bool) -> PlanNode:
        """Compile SELECT DISTINCT and UNION as GROUP BY all columns of a query."""
        self.refuse_template("DISTINCT and UNION")
        inputs_before = self.input_count
        relation = self.compile(query, ctes, drop_late=False).relation
        self.input_count = inputs_before  # the query that groups it counts them
        grouped = group_by_all(query, relation.schema.names)
        if not any(field.time for field in relation.fields):
            raise InputError(
                "DISTINCT would keep all rows forever; select the event time, its date_trunc(...) "
                "or window(time, '10 seconds') too"
            )
        return self._compile_select(grouped, ctes, drop_late)

    def _compile_select(self, select: Ast, ctes: CteScope, drop_late: bool) -> PlanNode:
        if select.args.get("distinct"):
            return self._compile_distinct(without_duplicates(select), ctes, drop_late)
        if select.args.get("qualify"):
            return self._compile_qualify(select, ctes, drop_late)
        select = with_plain_clauses(select)
        if (made := with_laterals(select)) is not None:
            return self._compile_select(made, ctes, drop_late)
        if has_over(select):
            return compile_analytics(self, select, ctes)
        if sets := expand_grouping_sets(select):
            sides = [self._compile_select(one, ctes, drop_late) for one in sets]
            return compile_union_all(self.node_ids, sides)
        source = FromClause.resolve(self, select, ctes, drop_late=drop_late)
        node = self._compile_body(select, source)
        for item in source.inputs:
            if isinstance(item.feed, str):
                columns = {
                    column for alias, column in source.resolved_columns if alias == item.alias
                }
                self.reads.setdefault(item.feed, set()).update(columns)
        return node

    def _compile_qualify(self, select: Ast, ctes: CteScope, drop_late: bool) -> PlanNode:
        """Compile QUALIFY as WHERE around the query that computes its functions."""
        self.refuse_template("QUALIFY")
        inputs_before = self.input_count
        inner, condition = without_qualify(select, use_aliases=False)
        try:
            relation = self.compile(inner, ctes, drop_late=drop_late).relation
        except InputError as problem:
            inner, condition = without_qualify(select, use_aliases=True)
            try:
                relation = self.compile(inner, ctes, drop_late=drop_late).relation
            except InputError:
                raise problem from None
        self.input_count = inputs_before  # the query around it counts them
        names = [name for name in relation.schema.names if not is_helper_column(name)]
        return self._compile_select(select_where(inner, names, condition), ctes, drop_late)

    def _compile_body(self, select: Ast, source: FromClause) -> PlanNode:
        translate = source.translator
        problems = ProblemList(self.catalog.functions)
        conditions = [problems.attempt(translate.boolean, c) for c in source.conjuncts]
        if source.outer is not None:
            on = source.join_translator.boolean
            matches = [problems.attempt(on, c) for c in source.outer.conjuncts]
            source.outer.on = guard_conditions([c for c in matches if c is not None])
        expressions = _expand_stars(select, source)
        is_grouped = select.args.get("group") or any(map(has_aggregate, expressions))
        values = []
        if not is_grouped:
            plain = [e.this if isinstance(e, exp.Alias) else e for e in expressions]
            values = [problems.attempt(translate, e) for e in plain]
        if problems.found:
            problems.raise_found()
        where = guard_conditions([c for c in conditions if c is not None])
        if is_grouped:
            return compile_group_by(self, select, expressions, source, where)
        columns = [
            (output_column_name(item), value)
            for item, value in zip(expressions, values, strict=True)
            if value is not None
        ]
        if source.joins_subscriptions:
            columns.insert(0, ("subscription", SUBSCRIPTION_COLUMN))
        check_column_names(name for name, _ in columns)
        relation = _relation(columns, source.output_lags_us())
        selected = tuple((name, value.sql) for name, value in columns)
        lineage = {name: value.column for name, value in columns if value.column}
        return build_block(self, source, where, selected, relation, lineage)


def _relation(columns: list[tuple[str, TypedExpr]], lags_us: dict[str, int]) -> Relation:
    """Return the columns of a result; a time that can be NULL, or lag forever, is a plain value."""
    fields = []
    for name, value in columns:
        time = value.time
        lag_us = time.lag_us(lags_us) if time is not None else None
        if time is not None and lag_us is not None:
            lags_us = {**lags_us, time.clock: lag_us}
        fields.append(Field(name, value.type, None if lag_us is None else time))
    return Relation(tuple(fields), lags_us)


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
        if not node.is_star or has_aggregate(node):
            expressions.append(node)
            continue
        star = node.this if isinstance(node, exp.Column) else node
        if star.args.get("replace") or star.args.get("rename"):
            raise refusal(node, "is not supported; name the columns")
        left_out = {column.name.lower() for column in star.args.get("except_") or ()}
        known = {f.name.lower() for r in source.relations.values() for f in r.fields}
        if unknown := left_out - known:
            raise refusal(node, f"leaves out {min(unknown)!r}, which is not a column")
        table = node.table if isinstance(node, exp.Column) else ""
        expanded = len(expressions)
        aliases = [a for a in source.relations if not table or a.lower() == table.lower()]
        merged = {} if table else source.merged
        for name, alias in merged.items():
            column = source.relations[alias].find(name)
            expressions.append(exp.column(column.name if column else name, alias))
        for alias in aliases:
            names = [field.name for field in source.relations[alias].fields]
            expressions += [exp.column(n, alias) for n in names if n.lower() not in merged]
        if not aliases:
            raise refusal(node, f"names {table!r}, which is not in FROM")
        kept = [e for e in expressions[expanded:] if e.name.lower() not in left_out]
        expressions[expanded:] = kept
    return expressions
