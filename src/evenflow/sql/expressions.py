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
from evenflow.sql.typed import Ast, Relation, Typed

Hook = Callable[[Ast], Typed | None]
Parameters = dict[str, pa.DataType | None]  # of a template; None until a type is found
SUBSCRIPTIONS = "_subscriptions"  # the alias of a template's rows of parameters
SUBSCRIPTION = Typed(
    f'{types.name(SUBSCRIPTIONS)}."subscription"',
    types.STRING,
    frozenset([(SUBSCRIPTIONS, "subscription")]),
    (SUBSCRIPTIONS, "subscription"),
)


def said(node: Ast) -> str:
    """Quote a piece of the query for a message, cut where it is long."""
    sql = " ".join(node.sql("spark").split())
    return f"`{sql}`" if len(sql) <= 80 else f"`{sql[:77]}...`"


def output_name(node: Ast) -> str:
    """Return the name of a result column; an expression needs one."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Dot):
        return str(node.expression.name)
    raise InputError(f"{said(node)} needs a name; write {node.sql('spark')[:60]} AS name")


@dataclass(frozen=True)
class Translator:
    """Translate expressions over the given inputs; `hook` may answer for a node first.

    `named` gathers every column that was looked up, as (input, column).
    """

    inputs: Mapping[str, Relation]
    hook: Hook | None = None
    parameters: "Parameters | None" = None
    named: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, node: Ast) -> Typed:
        """Translate one expression."""
        if self.hook is not None and (answer := self.hook(node)) is not None:
            return answer
        rule = _RULES.get(type(node))
        if rule is not None:
            return rule(self, node)
        from evenflow.sql.functions import call  # which is made of rules that call us

        return call(self, node)

    def boolean(self, node: Ast) -> Typed:
        """Translate a condition."""
        value = self(node)
        if value.type not in (types.BOOLEAN, types.NULL):
            raise InputError(
                f"{said(node)} is {types.spark_name(value.type)} where a condition is needed; "
                "compare it with something"
            )
        return value.cast(types.BOOLEAN)

    def column(self, node: Ast) -> Typed:
        """Resolve `a.b`, `b`, and fields of structs after them."""
        parts = [part.name for part in node.parts]
        if len(parts) > 1 and (alias := self._alias(parts[0])) is not None:
            relation = self.inputs[alias]
            if relation.find(parts[1]) is None:
                raise InputError(
                    f"{alias} has no column {parts[1]!r}; it has "
                    f"{', '.join(f.name for f in relation.fields)}"
                )
            return self._fields(self._column(alias, parts[1]), parts[2:])
        owners = [alias for alias, relation in self.inputs.items() if relation.find(parts[0])]
        if not owners:
            known = sorted({f.name for r in self.inputs.values() for f in r.fields})
            raise InputError(f"there is no column {parts[0]!r}; there are {', '.join(known)}")
        if len(owners) > 1:
            raise InputError(
                f"column {parts[0]!r} is in {' and in '.join(owners)}; "
                f"write {owners[0]}.{parts[0]} or {owners[1]}.{parts[0]}"
            )
        return self._fields(self._column(owners[0], parts[0]), parts[1:])

    def field(self, value: Typed, name: str) -> Typed:
        """Take a field of a struct."""
        if not pa.types.is_struct(value.type):
            raise InputError(f"{types.spark_name(value.type)} has no field {name!r}")
        for entry in value.type:
            if entry.name.lower() == name.lower():
                sql = f"struct_extract({value.sql}, {types.text(entry.name)})"
                time = value.time.field(entry.name.lower()) if value.time else None
                return Typed(sql, entry.type, value.columns, time=time)
        raise InputError(
            f"there is no field {name!r}; there are {', '.join(f.name for f in value.type)}"
        )

    def learn(self, node: Ast, kind: pa.DataType) -> None:
        """Give a parameter the type of what it is compared with."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Placeholder) and self.parameters is not None:
            name = str(node.this or "")
            if name in self.parameters and self.parameters[name] is None:
                self.parameters[name] = kind

    def sides(self, node: Ast) -> tuple[Typed, Typed]:
        """Translate both sides; a parameter takes the type of the other side."""
        if isinstance(node.left, exp.Placeholder):
            right = self(node.right)
            self.learn(node.left, right.type)
            return self(node.left), right
        left = self(node.left)
        self.learn(node.right, left.type)
        return left, self(node.right)

    def pair(self, node: Ast, left: Typed, right: Typed) -> tuple[Typed, Typed]:
        """Widen two sides to Spark's common type."""
        kind = types.common(left.type, right.type)
        if kind is None:
            raise InputError(
                f"{said(node)} mixes {types.spark_name(left.type)} and "
                f"{types.spark_name(right.type)}; cast one side to the other's type"
            )
        return left.cast(kind), right.cast(kind)

    def _alias(self, name: str) -> str | None:
        return next((alias for alias in self.inputs if alias.lower() == name.lower()), None)

    def _column(self, alias: str, name: str) -> Typed:
        entry = self.inputs[alias].find(name)
        assert entry is not None  # noqa: S101 - callers looked it up
        column = (alias, entry.name)
        self.named.add(column)
        return Typed(
            f"{types.name(alias)}.{types.name(entry.name)}",
            entry.type,
            frozenset([column]),
            column,
            entry.time.of(alias) if entry.time else None,
        )

    def _fields(self, value: Typed, names: list[str]) -> Typed:
        for name in names:
            value = self.field(value, name)
        return value


Rule = Callable[[Translator, Ast], Typed]


def combined(sql: str, kind: pa.DataType, *values: Typed) -> Typed:
    """Make an expression of others."""
    columns = frozenset[tuple[str, str]]().union(*(v.columns for v in values))
    return Typed(sql, kind, columns)


def _parameter(translate: Translator, node: Ast) -> Typed:
    name = str(node.this or "")
    if translate.parameters is None or name not in translate.parameters:
        raise InputError(f"{said(node)} is a parameter; parameters belong in WHERE of a template")
    kind = translate.parameters[name]
    if kind is None:
        raise InputError(
            f"the type of parameter :{name} is not known; compare it with a column, "
            f"or write CAST(:{name} AS DOUBLE)"
        )
    column = (SUBSCRIPTIONS, name)
    sql = f"{types.name(SUBSCRIPTIONS)}.{types.name(name)}"
    return Typed(sql, kind, frozenset([column]), column)


_RULES: dict[type, Rule] = {
    exp.Column: lambda t, n: t.column(n),
    exp.Dot: lambda t, n: t.field(t(n.this), n.expression.name),
    exp.Paren: lambda t, n: t(n.this),
    exp.Placeholder: _parameter,
}
