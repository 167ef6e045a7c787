"""Translate a Spark SQL expression to a DuckDB expression with Spark's type and value.

The text for DuckDB is written piece by piece by registered rules, one per type of syntax node; a
node without a rule is refused. No text of the user is passed on unread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.model.user_function import UserFunction
from evenflow.sql import types
from evenflow.sql.catalog import result_type
from evenflow.sql.query_plan import SUBSCRIPTIONS_ALIAS
from evenflow.sql.relation import ColumnRef, Relation
from evenflow.sql.translate.refusals import (
    QueryProblemError,
    find_offset,
    refusal,
    unsupported,
)
from evenflow.sql.translate.typed_expr import Ast, TypedExpr
from evenflow.sql.user_functions import UserCall

MAX_WRITTEN_CHARACTERS = 5_000_000  # of all partial texts of one query

Override = Callable[[Ast], TypedExpr | None]
ParameterTypes = dict[str, pa.DataType | None]  # of a template; None until it is inferred


@dataclass
class TextBudget:
    """Counts the characters of all partial texts of a query: a short one must not explode."""

    written: int = 0

    def spend(self, characters: int) -> None:
        """Count written text, or refuse the query."""
        self.written += characters
        if self.written > MAX_WRITTEN_CHARACTERS:
            raise InputError("the query is too large once it is written out; split it")


@dataclass
class UserFunctions:
    """The functions of the user that a query can call, and the calls that it has."""

    declared: Mapping[str, UserFunction] = field(default_factory=dict)
    calls: dict[str, UserCall] = field(default_factory=dict)  # by their names in the engine

    def find(self, name: str) -> UserFunction | None:
        """Return the function with this name; like Spark, ignore case."""
        found = (f for known, f in self.declared.items() if known.lower() == name.lower())
        return next(found, None)


@dataclass
class TranslationMemo:
    """What was translated so far; an expression that is used twice is translated once."""

    budget: TextBudget = field(default_factory=TextBudget)
    functions: UserFunctions = field(default_factory=UserFunctions)
    values: dict[int, tuple[Ast, TypedExpr | InputError]] = field(default_factory=dict)


@dataclass(frozen=True)
class Translator:
    """Translates expressions over the given inputs; `override` is tried first for every node.

    `resolved_columns` collects the columns that were used, `read_tables` those of the reference
    `tables` that subqueries read. `merged` has the columns of USING and the alias each one means.
    """

    inputs: Mapping[str, Relation]
    override: Override | None = None
    parameters: ParameterTypes | None = None
    resolved_columns: set[ColumnRef] = field(default_factory=set)
    memo: TranslationMemo = field(default_factory=TranslationMemo)
    tables: Mapping[str, pa.Schema] | None = None
    read_tables: set[str] = field(default_factory=set)
    merged: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, node: Ast) -> TypedExpr:
        """Translate one expression."""
        known = self.memo.values.get(id(node))
        if known is None:
            value: TypedExpr | InputError
            try:
                value = self._translate(node)
            except InputError as refused:
                if self.parameters is not None:  # the type of a parameter can be inferred later
                    raise
                value = refused
            known = self.memo.values[id(node)] = node, value  # holds the node: the id stays valid
        if isinstance(known[1], InputError):
            raise known[1]
        self.memo.budget.spend(len(known[1].sql))
        return known[1]

    def _translate(self, node: Ast) -> TypedExpr:
        if self.override is not None and (value := self.override(node)) is not None:
            return value
        rule = None
        if isinstance(node, exp.Anonymous):
            rule = NAMED_RULES.get(str(node.this).lower())
        rule = rule or RULES.get(type(node))
        if rule is None and isinstance(node, exp.Anonymous):
            function = self.memo.functions.find(str(node.this))
            if function is not None:
                return self._call(function, [self(argument) for argument in node.expressions], node)
        if rule is None:
            raise unsupported(node)
        return rule(self, node)

    def _call(self, function: UserFunction, arguments: list[TypedExpr], node: Ast) -> TypedExpr:
        """Write the call of a user's function."""
        if not arguments:
            raise refusal(node, "has no arguments; a function needs at least one")
        kinds = tuple(types.INT if a.type == types.NULL else a.type for a in arguments)
        call = UserCall(function.path, kinds, result_type(function))
        self.memo.functions.calls[call.engine_name] = call
        given = ", ".join(
            f"CAST({a.sql} AS {types.duckdb_name(kind)})"
            for a, kind in zip(arguments, kinds, strict=True)
        )
        columns = frozenset[ColumnRef]().union(*(a.columns for a in arguments))
        return TypedExpr(f"{call.engine_name}({given})", call.returns, columns, can_fail=True)

    def boolean(self, node: Ast) -> TypedExpr:
        """Translate a condition."""
        value = self(node)
        if value.type not in (types.BOOLEAN, types.NULL):
            kind = types.spark_name(value.type)
            raise refusal(node, f"is {kind} where a condition is needed; write a comparison")
        return value.cast(types.BOOLEAN)

    def resolve_column(self, node: Ast) -> TypedExpr:
        """Resolve `a.b`, `b`, and struct fields after them."""
        parts = [part.name for part in node.parts]
        if len(parts) > 1 and (alias := self._match_alias(parts[0])) is not None:
            relation = self.inputs[alias]
            if relation.find(parts[1]) is None:
                known = ", ".join(f.name for f in relation.fields)
                raise QueryProblemError(
                    f"{alias} has no column {parts[1]!r}; it has {known}", find_offset(node)
                )
            return self._struct_fields(self._relation_column(alias, parts[1]), parts[2:])
        owners = [alias for alias, relation in self.inputs.items() if relation.find(parts[0])]
        if (meant := self.merged.get(parts[0].lower())) in owners:
            owners = [meant] if meant is not None else owners
        if not owners:
            names = sorted({f.name for r in self.inputs.values() for f in r.fields})
            raise QueryProblemError(
                f"there is no column {parts[0]!r}; there are {', '.join(names)}",
                find_offset(node),
            )
        if len(owners) > 1:
            raise QueryProblemError(
                f"column {parts[0]!r} is in {' and in '.join(owners)}; "
                f"write {owners[0]}.{parts[0]} or {owners[1]}.{parts[0]}",
                find_offset(node),
            )
        return self._struct_fields(self._relation_column(owners[0], parts[0]), parts[1:])

    def struct_field(self, value: TypedExpr, name: str) -> TypedExpr:
        """Read a field of a struct."""
        if not pa.types.is_struct(value.type):
            raise InputError(f"{types.spark_name(value.type)} has no field {name!r}")
        for entry in value.type:
            if entry.name.lower() == name.lower():
                sql = f"struct_extract({value.sql}, {types.quote_string(entry.name)})"
                time = value.time.window_field(entry.name.lower()) if value.time else None
                return TypedExpr(sql, entry.type, value.columns, time=time)
        known = ", ".join(f.name for f in value.type)
        raise InputError(f"there is no field {name!r}; there are {known}")

    def infer_parameter_type(self, node: Ast, kind: pa.DataType) -> None:
        """Give a parameter the type of what it is compared with."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Placeholder) and self.parameters is not None:
            name = str(node.this or "")
            if name in self.parameters and self.parameters[name] is None:
                self.parameters[name] = kind

    def translate_operands(self, node: Ast) -> tuple[TypedExpr, TypedExpr]:
        """Translate both operands; a parameter gets the type of the other one."""
        if isinstance(node.left, exp.Placeholder):
            right = self(node.right)
            self.infer_parameter_type(node.left, right.type)
            return self(node.left), right
        left = self(node.left)
        self.infer_parameter_type(node.right, left.type)
        return left, self(node.right)

    def _match_alias(self, name: str) -> str | None:
        return next((alias for alias in self.inputs if alias.lower() == name.lower()), None)

    def _relation_column(self, alias: str, name: str) -> TypedExpr:
        entry = self.inputs[alias].find(name)
        assert entry is not None  # noqa: S101 - checked by the callers
        column = (alias, entry.name)
        self.resolved_columns.add(column)
        time = entry.time.qualified(alias) if entry.time else None
        return TypedExpr(types.column_sql(*column), entry.type, frozenset([column]), column, time)

    def _struct_fields(self, value: TypedExpr, names: list[str]) -> TypedExpr:
        for name in names:
            value = self.struct_field(value, name)
        return value


def widen(node: Ast, *operands: TypedExpr) -> list[TypedExpr]:
    """Cast operands to Spark's common type."""
    kind = operands[0].type
    for operand in operands[1:]:
        common = types.common_type(kind, operand.type)
        if common is None:
            names = f"{types.spark_name(kind)} and {types.spark_name(operand.type)}"
            raise refusal(node, f"mixes {names}; cast one side to the other's type")
        kind = common
    return [operand.cast(kind) for operand in operands]


def refuse_struct_order(node: Ast, value: TypedExpr) -> None:
    """Refuse to order structs and arrays: the engines place NULLs inside them differently."""
    if pa.types.is_nested(value.type) and value.type != types.WINDOW:
        kind = "STRUCT" if pa.types.is_struct(value.type) else "ARRAY"
        raise refusal(node, f"orders {kind}s, on whose NULLs the engines differ; use the fields")


def subscription_column(name: str, kind: pa.DataType) -> TypedExpr:
    """Return a column of the subscriptions of a template."""
    column = (SUBSCRIPTIONS_ALIAS, name)
    return TypedExpr(types.column_sql(*column), kind, frozenset([column]), column)


SUBSCRIPTION_COLUMN = subscription_column("subscription", types.STRING)


def _parameter(translate: Translator, node: Ast) -> TypedExpr:
    name = str(node.this or "")
    if translate.parameters is None or name not in translate.parameters:
        raise refusal(node, "is a parameter; parameters belong in WHERE of a template")
    kind = translate.parameters[name]
    if kind is None:
        raise InputError(
            f"the type of parameter :{name} is not known; compare it with a column, "
            f"or write CAST(:{name} AS DOUBLE)"
        )
    return subscription_column(name, kind)


Rule = Callable[[Translator, Ast], TypedExpr]
RULES: dict[type, Rule] = {}
NAMED_RULES: dict[str, Rule] = {}  # of functions that sqlglot does not know
ARGUMENTS: dict[type, frozenset[str]] = {}  # that are read, by type of syntax node


def declare(arguments: str, *kinds: type) -> None:
    """Name the arguments that are read of these types of node; `check_arguments` refuses others."""
    if twice := ARGUMENTS.keys() & set(kinds):
        raise ValueError(f"the arguments of {twice} are declared twice")
    ARGUMENTS.update(dict.fromkeys(kinds, frozenset(arguments.split())))


def register(arguments: str, rules: Mapping[type, Rule]) -> None:
    """Add rules by type of syntax node, with the arguments that they read."""
    declare(arguments, *rules)
    RULES.update(rules)


def undeclared_arguments(node: Ast) -> list[str]:
    """List the arguments of a node that are set but not declared."""
    declared = ARGUMENTS.get(type(node), frozenset(node.args))  # other types have no rule
    unset: tuple[object, ...] = (None, False, [])
    return [k for k, v in node.args.items() if k not in declared and v not in unset]


def check_arguments(root: Ast) -> None:
    """Refuse every argument that is not declared, so that none is ignored."""
    for node in root.walk():
        for name in undeclared_arguments(node):
            word = name.strip("_").replace("_", " ").upper()
            raise refusal(node, f"has {word}, which is not supported; leave it out")


declare("this expressions", exp.Anonymous)
declare("this quoted", exp.Identifier)
register("this table db catalog", {exp.Column: lambda t, n: t.resolve_column(n)})
register("this expression", {exp.Dot: lambda t, n: t.struct_field(t(n.this), n.expression.name)})
register("this", {exp.Paren: lambda t, n: t(n.this), exp.Placeholder: _parameter})
