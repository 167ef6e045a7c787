"""IN (SELECT ...), EXISTS and scalar subqueries over reference tables.

A subquery can read columns of the query around it. Its tables are written as marked names, which a
task replaces by those of its engine.
"""

from dataclasses import dataclass, field

from sqlglot import exp

from evenflow.sql.query_plan import marked_table
from evenflow.sql.relation import Field, Relation
from evenflow.sql.translate.aggregates import read_aggregate
from evenflow.sql.translate.conditions import guard_conditions
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import (
    RULES,
    TranslationMemo,
    Translator,
    register,
    widen,
)
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr
from evenflow.sql.types import BOOLEAN, canonical_type, quote_identifier

_CLAUSES = {"expressions", "distinct", "from_", "joins", "where", "group", "having"}


@dataclass
class _Subquery:
    """One SELECT over reference tables inside an expression of `outer`."""

    outer: Translator
    select: Ast
    relations: dict[str, Relation] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    conditions: list[Ast] = field(default_factory=list)
    values: list[TypedExpr] = field(default_factory=list)  # all that was translated

    def __post_init__(self) -> None:
        extra = [k for k, v in self.select.args.items() if v and k not in _CLAUSES]
        if not isinstance(self.select, exp.Select) or extra:
            raise refusal(self.select, "is not supported; write SELECT x FROM table WHERE ...")
        if self.select.args.get("from_") is None:
            raise refusal(self.select, "reads no reference table")
        self._add_table(self.select.args["from_"].this)
        for join in self.select.args.get("joins") or ():
            kind = f"{join.args.get('side') or ''}{join.args.get('kind') or ''}"
            if kind not in ("", "INNER", "CROSS") or join.args.get("using"):
                raise refusal(join, "is not supported in a subquery; write JOIN ... ON")
            self._add_table(join.this)
            self.conditions += [join.args["on"]] if join.args.get("on") else []
        where = self.select.args.get("where")
        self.conditions += [where.this] if where is not None else []
        self.translate = Translator(
            self.relations,
            self._resolve,
            resolved_columns=set(),
            memo=TranslationMemo(self.outer.memo.budget, self.outer.memo.functions),
        )

    def _add_table(self, item: Ast) -> None:
        schemas = self.outer.tables or {}
        names = {name.lower(): name for name in schemas}
        if not isinstance(item, exp.Table) or item.name.lower() not in names or item.db:
            raise refusal(
                item, "is not a reference table; a subquery in an expression reads only those"
            )
        name = names[item.name.lower()]
        self.outer.read_tables.add(name)
        self.tables.append(name)
        fields = (Field(column.name, canonical_type(column.type)) for column in schemas[name])
        self.relations[item.alias_or_name] = Relation(tuple(fields))

    def _resolve(self, node: Ast) -> TypedExpr | None:
        if isinstance(node, exp.Column):
            first = node.parts[0].name.lower()
            is_own = any(
                alias.lower() == first or relation.find(first) is not None
                for alias, relation in self.relations.items()
            )
            return None if is_own else self.outer(node)
        found = read_aggregate(self.translate, node)
        if found is None:
            return None
        return TypedExpr(found.final.format(*(p.update for p in found.partials)), found.type)

    def value(self, node: Ast) -> TypedExpr:
        """Translate an expression of the subquery."""
        self.values.append(self.translate(node))
        return self.values[-1]

    def item(self) -> TypedExpr:
        """Translate the only expression that is selected."""
        if len(self.select.expressions) != 1:
            raise refusal(self.select, "selects several columns; select one")
        return self.value(self.select.expressions[0].unalias())

    def write(self, selected: str) -> str:
        """Write the subquery."""
        named = zip(self.tables, self.relations, strict=True)
        source = " CROSS JOIN ".join(
            f"{marked_table(table)} AS {quote_identifier(alias)}" for table, alias in named
        )
        conditions = [self.translate.boolean(condition) for condition in self.conditions]
        self.values += conditions
        tests = [condition.sql for condition in guard_conditions(conditions)]
        sql = f"SELECT {selected} FROM {source}"  # noqa: S608 - written by rules
        sql += f" WHERE {' AND '.join(tests)}" if tests else ""
        group, having = self.select.args.get("group"), self.select.args.get("having")
        if group is not None:
            sql += f" GROUP BY {', '.join(self.value(e).sql for e in group.expressions)}"
        if having is not None:
            sql += f" HAVING {self.translate.boolean(having.this).sql}"
        return sql

    def outer_columns(self) -> TypedExpr:
        """Return the columns of the query around it that it reads, as an operand."""
        columns = frozenset[tuple[str, str]]().union(*(value.columns for value in self.values))
        outer = frozenset(column for column in columns if column[0] not in self.relations)
        return TypedExpr("", BOOLEAN, outer, can_fail=any(v.can_fail for v in self.values))


def _in_subquery(translate: Translator, node: Ast) -> TypedExpr:
    subquery = _Subquery(translate, node.args["query"].unnest())
    value, item = widen(node, translate(node.this), subquery.item())
    sql = f"({value.sql} IN ({subquery.write(item.sql)}))"
    return compose_expr(sql, BOOLEAN, value, subquery.outer_columns())


def _exists(translate: Translator, node: Ast) -> TypedExpr:
    subquery = _Subquery(translate, node.this)
    sql = f"EXISTS ({subquery.write('1')})"
    return compose_expr(sql, BOOLEAN, subquery.outer_columns())


def _scalar(translate: Translator, node: Ast) -> TypedExpr:
    subquery = _Subquery(translate, node.unnest())
    item = subquery.item()
    distinct = "DISTINCT " if subquery.select.args.get("distinct") else ""
    sql = f"({subquery.write(distinct + item.sql)})"
    return compose_expr(sql, item.type, subquery.outer_columns(), can_fail=True)


_in_list = RULES[exp.In]


def _in(translate: Translator, node: Ast) -> TypedExpr:
    is_subquery = node.args.get("query") is not None
    return _in_subquery(translate, node) if is_subquery else _in_list(translate, node)


RULES[exp.In] = _in
RULES[exp.Subquery] = _scalar
register("this", {exp.Exists: _exists})
