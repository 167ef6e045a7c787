"""Turn a Spark SQL expression into a DuckDB expression of the same value and Spark's type.

The text that reaches DuckDB is written piece by piece from an allow-list: a node that no rule here
or in `functions` knows is refused. Nothing of the user's text is passed on unread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.translate.typed_expr import Ast, Relation, TypedExpr

Override = Callable[[Ast], TypedExpr | None]
ParameterTypes = dict[str, pa.DataType | None]  # of a template; None until a type is found
SUBSCRIPTIONS_ALIAS = "_subscriptions"  # the alias of a template's rows of parameters
SUBSCRIPTION_COLUMN = TypedExpr(
    f'{types.quote_identifier(SUBSCRIPTIONS_ALIAS)}."subscription"',
    types.STRING,
    frozenset([(SUBSCRIPTIONS_ALIAS, "subscription")]),
    (SUBSCRIPTIONS_ALIAS, "subscription"),
)


def quote_sql(node: Ast) -> str:
    """Quote a piece of the query for a message, cut where it is long."""
    sql = " ".join(node.sql("spark").split())
    return f"`{sql}`" if len(sql) <= 80 else f"`{sql[:77]}...`"


def output_column_name(node: Ast) -> str:
    """Return the name of a result column; an expression needs one."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Dot):
        return str(node.expression.name)
    raise InputError(f"{quote_sql(node)} needs a name; write {node.sql('spark')[:60]} AS name")


@dataclass(frozen=True)
class Translator:
    """Translate expressions over the given inputs; `override` may answer for a node first.

    `resolved_columns` gathers every column that was looked up, as (input, column).
    """

    inputs: Mapping[str, Relation]
    override: Override | None = None
    parameters: "ParameterTypes | None" = None
    resolved_columns: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, node: Ast) -> TypedExpr:
        """Translate one expression."""
        if self.override is not None and (answer := self.override(node)) is not None:
            return answer
        rule = RULES.get(type(node))
        if rule is not None:
            return rule(self, node)
        from evenflow.sql.translate.functions import (
            find_rule,  # which is made of rules that call us
        )

        return find_rule(self, node)

    def boolean(self, node: Ast) -> TypedExpr:
        """Translate a condition."""
        value = self(node)
        if value.type not in (types.BOOLEAN, types.NULL):
            raise InputError(
                f"{quote_sql(node)} is {types.spark_name(value.type)} where a condition is needed; "
                "compare it with something"
            )
        return value.cast(types.BOOLEAN)

    def resolve_column(self, node: Ast) -> TypedExpr:
        """Resolve `a.b`, `b`, and fields of structs after them."""
        parts = [part.name for part in node.parts]
        if len(parts) > 1 and (alias := self._match_alias(parts[0])) is not None:
            relation = self.inputs[alias]
            if relation.find(parts[1]) is None:
                raise InputError(
                    f"{alias} has no column {parts[1]!r}; it has "
                    f"{', '.join(f.name for f in relation.fields)}"
                )
            return self._struct_fields(self._relation_column(alias, parts[1]), parts[2:])
        owners = [alias for alias, relation in self.inputs.items() if relation.find(parts[0])]
        if not owners:
            known = sorted({f.name for r in self.inputs.values() for f in r.fields})
            raise InputError(f"there is no column {parts[0]!r}; there are {', '.join(known)}")
        if len(owners) > 1:
            raise InputError(
                f"column {parts[0]!r} is in {' and in '.join(owners)}; "
                f"write {owners[0]}.{parts[0]} or {owners[1]}.{parts[0]}"
            )
        return self._struct_fields(self._relation_column(owners[0], parts[0]), parts[1:])

    def struct_field(self, value: TypedExpr, name: str) -> TypedExpr:
        """Take a field of a struct."""
        if not pa.types.is_struct(value.type):
            raise InputError(f"{types.spark_name(value.type)} has no field {name!r}")
        for entry in value.type:
            if entry.name.lower() == name.lower():
                sql = f"struct_extract({value.sql}, {types.quote_string(entry.name)})"
                time = value.time.window_field(entry.name.lower()) if value.time else None
                return TypedExpr(sql, entry.type, value.columns, time=time)
        raise InputError(
            f"there is no field {name!r}; there are {', '.join(f.name for f in value.type)}"
        )

    def infer_parameter_type(self, node: Ast, kind: pa.DataType) -> None:
        """Give a parameter the type of what it is compared with."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Placeholder) and self.parameters is not None:
            name = str(node.this or "")
            if name in self.parameters and self.parameters[name] is None:
                self.parameters[name] = kind

    def translate_operands(self, node: Ast) -> tuple[TypedExpr, TypedExpr]:
        """Translate both sides; a parameter takes the type of the other side."""
        if isinstance(node.left, exp.Placeholder):
            right = self(node.right)
            self.infer_parameter_type(node.left, right.type)
            return self(node.left), right
        left = self(node.left)
        self.infer_parameter_type(node.right, left.type)
        return left, self(node.right)

    def widen_operands(
        self, node: Ast, left: TypedExpr, right: TypedExpr
    ) -> tuple[TypedExpr, TypedExpr]:
        """Widen two sides to Spark's common type."""
        kind = types.common_type(left.type, right.type)
        if kind is None:
            raise InputError(
                f"{quote_sql(node)} mixes {types.spark_name(left.type)} and "
                f"{types.spark_name(right.type)}; cast one side to the other's type"
            )
        return left.cast(kind), right.cast(kind)

    def _match_alias(self, name: str) -> str | None:
        return next((alias for alias in self.inputs if alias.lower() == name.lower()), None)

    def _relation_column(self, alias: str, name: str) -> TypedExpr:
        entry = self.inputs[alias].find(name)
        assert entry is not None  # noqa: S101 - callers looked it up
        column = (alias, entry.name)
        self.resolved_columns.add(column)
        return TypedExpr(
            f"{types.quote_identifier(alias)}.{types.quote_identifier(entry.name)}",
            entry.type,
            frozenset([column]),
            column,
            entry.time.qualified(alias) if entry.time else None,
        )

    def _struct_fields(self, value: TypedExpr, names: list[str]) -> TypedExpr:
        for name in names:
            value = self.struct_field(value, name)
        return value


Rule = Callable[[Translator, Ast], TypedExpr]


def compose_expr(sql: str, kind: pa.DataType, *values: TypedExpr) -> TypedExpr:
    """Make an expression of others."""
    columns = frozenset[tuple[str, str]]().union(*(v.columns for v in values))
    return TypedExpr(sql, kind, columns)


def _parameter(translate: Translator, node: Ast) -> TypedExpr:
    name = str(node.this or "")
    if translate.parameters is None or name not in translate.parameters:
        raise InputError(
            f"{quote_sql(node)} is a parameter; parameters belong in WHERE of a template"
        )
    kind = translate.parameters[name]
    if kind is None:
        raise InputError(
            f"the type of parameter :{name} is not known; compare it with a column, "
            f"or write CAST(:{name} AS DOUBLE)"
        )
    column = (SUBSCRIPTIONS_ALIAS, name)
    sql = f"{types.quote_identifier(SUBSCRIPTIONS_ALIAS)}.{types.quote_identifier(name)}"
    return TypedExpr(sql, kind, frozenset([column]), column)


RULES: dict[type, Rule] = {
    exp.Column: lambda t, n: t.resolve_column(n),
    exp.Dot: lambda t, n: t.struct_field(t(n.this), n.expression.name),
    exp.Paren: lambda t, n: t(n.this),
    exp.Placeholder: _parameter,
}
