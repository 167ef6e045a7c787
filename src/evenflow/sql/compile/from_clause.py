"""The FROM clause: names become streams, tables and subqueries, joins become conditions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.catalog import Catalog
from evenflow.sql.compile.joins import split_conjuncts, time_bounds
from evenflow.sql.query_plan import NodeInput, TableReference
from evenflow.sql.translate.translator import (
    SUBSCRIPTIONS_ALIAS,
    ParameterTypes,
    Translator,
    quote_sql,
)
from evenflow.sql.translate.typed_expr import Ast, EventTime, Field, Relation

if TYPE_CHECKING:
    from evenflow.sql.compile.select import Compiler

CteScope = Mapping[
    str, tuple[Ast, "CteScope"]
]  # WITH queries, each with the names known where it stands


@dataclass
class FromClause:
    """The FROM clause: inputs, reference tables, and all conditions of inner joins and WHERE."""

    inputs: list[NodeInput]
    references: list[TableReference]
    relations: dict[str, Relation]
    conjuncts: list[Ast]
    parameters: ParameterTypes | None = None
    resolved_columns: set[tuple[str, str]] = field(default_factory=set)

    @property
    def joins_subscriptions(self) -> bool:
        """Whether rows meet the subscriptions of a template here."""
        return any(r.table == SUBSCRIPTIONS_ALIAS for r in self.references)

    @property
    def translator(self) -> Translator:
        """The translator of expressions over this FROM."""
        return Translator(
            self.relations, parameters=self.parameters, resolved_columns=self.resolved_columns
        )

    @classmethod
    def resolve(
        cls,
        compiler: "Compiler",
        select: Ast,
        ctes: "CteScope",
        strict: bool,
    ) -> "FromClause":
        """Resolve every item of FROM."""
        items = [select.args["from_"].this]
        joins = select.args.get("joins") or []
        for join in joins:
            _check_join(join)
            items.append(join.this)
        streams = [_is_streaming(compiler, item, ctes) for item in items]
        joined = sum(streams) > 1
        grouped = select.args.get("group") is not None
        inner = (strict and not grouped) or joined
        made = cls([], [], {}, [], compiler.parameters)
        for at, (item, flows) in enumerate(zip(items, streams, strict=True)):
            compiler.count_inputs(1)
            made._add_item(compiler, item, ctes, inner, flows)
            if at:
                made._add_join_condition(joins[at - 1], flows)
        if not any(streams):
            raise InputError("the query reads reference tables only; put a stream into FROM")
        where = select.args.get("where")
        made.conjuncts += split_conjuncts(where.this) if where is not None else []
        if compiler.parameters is not None and _is_outermost(select):
            made.references.insert(0, TableReference(SUBSCRIPTIONS_ALIAS, SUBSCRIPTIONS_ALIAS))
        elif compiler.parameters is not None:
            made.parameters = None
        return made

    def output_lags_us(self) -> dict[str, int]:
        """Say how far each clock of the inputs lags behind the watermark in the output."""
        if len(self.inputs) == 1:
            alias = self.inputs[0].alias
            return {
                EventTime(b).qualified(alias).clock: lag
                for b, lag in self.relations[alias].lags_us.items()
            }
        return time_bounds(self).output_lags_us()

    def _add_item(
        self,
        compiler: "Compiler",
        item: Ast,
        ctes: "CteScope",
        strict: bool,
        flows: bool,
    ) -> None:
        alias = item.alias_or_name or f"_subquery{len(self.relations)}"
        if alias.lower() in {known.lower() for known in self.relations}:
            raise InputError(f"{alias!r} is twice in FROM; give one another name with AS")
        body = _subquery(item, ctes)
        if body is not None:
            node = compiler.compile(*body, strict)
            self.inputs.append(NodeInput(alias, node))
            self.relations[alias] = node.relation
            return
        name = item.name
        if not flows:
            table = _match_name(compiler.catalog.tables, name)
            fields = (
                Field(f.name, types.canonical_type(f.type)) for f in compiler.catalog.tables[table]
            )
            self.references.append(TableReference(alias, table))
            self.relations[alias] = Relation(tuple(fields), is_table=True)
            return
        stream = _match_name(compiler.catalog.streams, name)
        self.inputs.append(NodeInput(alias, stream, strict))
        self.relations[alias] = stream_relation(compiler.catalog, stream)

    def _add_join_condition(self, join: Ast, flows: bool) -> None:
        condition = join.args.get("on")
        if join.args.get("side") == "LEFT":
            alias = join.this.alias_or_name
            if flows or condition is None:
                raise InputError(
                    f"LEFT JOIN {alias}: only a reference table can be LEFT JOINed; "
                    "between streams write JOIN"
                )
            on = self.translator.boolean(condition)
            self.references[-1] = replace(self.references[-1], on=on.sql)
            return
        if condition is not None:
            self.conjuncts += split_conjuncts(condition)


def _is_outermost(select: Ast) -> bool:
    """Tell the SELECTs that give a template's result from those inside them."""
    at = select.parent
    while isinstance(at, exp.Union):
        at = at.parent
    return at is None


def stream_relation(catalog: Catalog, name: str) -> Relation:
    """Describe a stream as a relation with one clock, which is the watermark's own."""
    stream = catalog.streams[name]
    fields = tuple(
        Field(
            f.name, types.canonical_type(f.type), EventTime("t") if f.name == stream.time else None
        )
        for f in stream.schema
    )
    return Relation(fields, {"t": 0})


def _match_name(names: Mapping[str, object], wanted: str) -> str:
    return next(name for name in names if name.lower() == wanted.lower())


def _subquery(item: Ast, ctes: "CteScope") -> "tuple[Ast, CteScope] | None":
    """Return the query behind an item of FROM, with the names it may use."""
    if isinstance(item, exp.Subquery):
        return item.this, ctes
    if isinstance(item, exp.Table) and not item.db and item.name.lower() in ctes:
        return ctes[item.name.lower()]
    return None


def _is_streaming(compiler: "Compiler", item: Ast, ctes: "CteScope") -> bool:
    """Tell whether an item of FROM flows; subqueries do, reference tables do not."""
    extra = [k for k, v in item.args.items() if v and k not in ("this", "alias", "db", "catalog")]
    alias = item.args.get("alias")
    if extra or (alias is not None and alias.args.get("columns")):
        raise InputError(f"{quote_sql(item)}: in FROM write a name or (SELECT ...), then AS alias")
    if _subquery(item, ctes) is not None:
        return True
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier) or item.db:
        raise InputError(
            f"{quote_sql(item)} cannot stand in FROM; name a stream, a table or a subquery"
        )
    name = item.name.lower()
    if name in {s.lower() for s in compiler.catalog.streams}:
        return True
    if name in {t.lower() for t in compiler.catalog.tables}:
        return False
    known = sorted([*compiler.catalog.streams, *compiler.catalog.tables])
    raise InputError(f"there is no stream or table {item.name!r}; there are {', '.join(known)}")


def _check_join(join: Ast) -> None:
    side, kind = join.args.get("side") or "", join.args.get("kind") or ""
    if join.args.get("using"):
        raise InputError("JOIN ... USING is not supported; write ON a.column = b.column")
    if join.args.get("method") or kind not in ("", "INNER", "CROSS") or side not in ("", "LEFT"):
        words = " ".join(w for w in (join.args.get("method"), side, kind) if w)
        raise InputError(
            f"{words} JOIN is not supported; write JOIN, or LEFT JOIN with a reference table"
        )
