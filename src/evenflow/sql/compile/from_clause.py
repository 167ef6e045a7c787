"""The FROM clause: resolves names to streams, tables and subqueries, and collects conditions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.catalog import Catalog
from evenflow.sql.compile.context import MAX_JOINED_STREAMS, CompileContext, CteScope
from evenflow.sql.compile.hints import read_hints
from evenflow.sql.compile.lateral_views import compile_lateral
from evenflow.sql.compile.outer_joins import OuterClause, check_join, join_kind
from evenflow.sql.compile.parse import split_conjuncts
from evenflow.sql.compile.time_bounds import TimeBounds
from evenflow.sql.query_plan import SUBSCRIPTIONS_ALIAS, LateralView, NodeInput, TableReference
from evenflow.sql.relation import ColumnRef, EventTime, Field, Relation
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import ParameterTypes, TranslationMemo, Translator
from evenflow.sql.translate.typed_expr import Ast
from evenflow.sql.types import canonical_type


@dataclass
class FromClause:
    """Items of FROM by alias; `conjuncts` are the conditions of inner joins and of WHERE.

    `outer` is the outer, semi or anti join of two streams, if FROM has one; `hidden` are relations
    that only conditions of joins can name.
    """

    inputs: list[NodeInput] = field(default_factory=list)
    references: list[TableReference] = field(default_factory=list)
    relations: dict[str, Relation] = field(default_factory=dict)
    hidden: dict[str, Relation] = field(default_factory=dict)
    conjuncts: list[Ast] = field(default_factory=list)
    outer: OuterClause | None = None
    laterals: list[LateralView] = field(default_factory=list)
    tables: Mapping[str, pa.Schema] | None = None  # that subqueries in expressions can read
    read_tables: set[str] = field(default_factory=set)
    merged: dict[str, str] = field(default_factory=dict)  # column of USING -> alias it means
    parameters: ParameterTypes | None = None
    resolved_columns: set[ColumnRef] = field(default_factory=set)
    memo: TranslationMemo = field(default_factory=TranslationMemo)

    @property
    def joins_subscriptions(self) -> bool:
        """Whether this SELECT joins rows with the subscriptions of a template."""
        return any(r.table == SUBSCRIPTIONS_ALIAS for r in self.references)

    @property
    def translator(self) -> Translator:
        """The translator of expressions over the items of FROM."""
        return Translator(
            self.relations,
            parameters=self.parameters,
            resolved_columns=self.resolved_columns,
            memo=self.memo,
            tables=self.tables if len(self.inputs) < 2 else None,
            read_tables=self.read_tables,
            merged=self.merged,
        )

    @property
    def join_translator(self) -> Translator:
        """The translator of the conditions of joins."""
        return replace(self.translator, inputs={**self.relations, **self.hidden})

    @property
    def join_conjuncts(self) -> list[Ast]:
        """The conditions that decide whether rows of streams match."""
        return self.conjuncts if self.outer is None else self.outer.conjuncts

    @classmethod
    def resolve(
        cls, context: CompileContext, select: Ast, ctes: CteScope, *, drop_late: bool
    ) -> "FromClause":
        """Resolve every item of FROM; `drop_late` drops late rows of its streams."""
        joins = select.args.get("joins") or []
        for join in joins:
            check_join(join)
        items = [select.args["from_"].this, *(join.this for join in joins)]
        are_streaming = [_is_streaming(context.catalog, item, ctes) for item in items]
        if sum(are_streaming) > MAX_JOINED_STREAMS:
            raise InputError(
                f"one SELECT joins {sum(are_streaming)} streams, at most {MAX_JOINED_STREAMS} are "
                "possible; publish a part of the join as a query of its own"
            )
        is_grouped = select.args.get("group") is not None  # its windows can still take late rows
        drop_late = (drop_late and not is_grouped) or sum(are_streaming) > 1
        drop_late = drop_late or read_hints(select).ttl_us is not None
        memo, tables = context.new_memo(), context.catalog.tables
        clause = cls(parameters=context.parameters, memo=memo, tables=tables)
        for item, join, streaming in zip(items, [None, *joins], are_streaming, strict=True):
            context.count_inputs(1)
            clause._add_item(context, item, ctes, drop_late, streaming)
            if join is not None:
                clause._add_join_condition(join, streaming)
        if clause.outer is not None:
            context.refuse_template("outer joins of streams")
            clause._check_outer()
        if not any(are_streaming):
            raise InputError("the query reads reference tables only; add a stream to FROM")
        for lateral in select.args.get("laterals") or ():
            context.count_inputs(1)
            clause._add_lateral(lateral)
        where = select.args.get("where")
        clause.conjuncts += split_conjuncts(where.this) if where is not None else []
        if context.parameters is not None and _is_outermost(select):
            clause.references.insert(0, TableReference(SUBSCRIPTIONS_ALIAS, SUBSCRIPTIONS_ALIAS))
        else:
            clause.parameters = None
        return clause

    @cached_property
    def time_bounds(self) -> TimeBounds:
        """The bounds between the times of a join's inputs."""
        known = {**self.relations, **self.hidden}
        relations = {i.alias: known[i.alias] for i in self.inputs}
        return TimeBounds.from_conditions(relations, self.join_conjuncts, self.join_translator)

    def output_lags_us(self) -> dict[str, int]:
        """Return how far each clock of the inputs can lag behind the watermark in the output."""
        if self.outer is not None:
            clocks = [self.time_bounds.clocks[alias] for alias in self.outer.sole_kept]
            return {c: lag for c, lag in self.time_bounds.output_lags_us().items() if c in clocks}
        if len(self.inputs) > 1:
            return self.time_bounds.output_lags_us()
        alias = self.inputs[0].alias
        lags_us = self.relations[alias].lags_us
        return {EventTime(clock).qualified(alias).clock: lag for clock, lag in lags_us.items()}

    def _add_item(
        self, context: CompileContext, item: Ast, ctes: CteScope, drop_late: bool, streaming: bool
    ) -> None:
        alias = self._new_alias(item.alias_or_name)
        catalog, subquery = context.catalog, _subquery(item, ctes)
        if subquery is not None:
            node = context.compile(*subquery, drop_late=drop_late)
            self.inputs.append(NodeInput(alias, node))
            self.relations[alias] = node.relation
        elif streaming:
            stream = _match_ignoring_case(catalog.streams, item.name)
            self.inputs.append(NodeInput(alias, stream, drop_late))
            self.relations[alias] = _stream_relation(catalog, stream)
        else:
            table = _match_ignoring_case(catalog.tables, item.name)
            fields = (Field(f.name, canonical_type(f.type)) for f in catalog.tables[table])
            self.references.append(TableReference(alias, table))
            self.relations[alias] = Relation(tuple(fields))

    def _add_join_condition(self, join: Ast, streaming: bool) -> None:
        kind, alias = join_kind(join), list(self.relations)[-1]
        condition = join.args.get("on") or self._using_condition(join, kind, alias)
        if kind == "INNER":
            self.conjuncts += split_conjuncts(condition) if condition is not None else []
            return
        if condition is None:
            raise InputError(f"{kind} JOIN {alias}: add ON with the conditions of a match")
        if streaming:
            kept = {"RIGHT": (alias,), "FULL": tuple(self.relations)}
            kept_aliases = kept.get(kind, tuple(self.relations)[:1])
            if self.outer is not None:
                raise _too_many_joins()
            self.outer = OuterClause(kind, kept_aliases, split_conjuncts(condition))
        elif kind in ("RIGHT", "FULL"):
            raise InputError(
                f"{kind} JOIN {alias}: a reference table has rows without a time, which would "
                "never be complete; write LEFT JOIN"
            )
        else:
            on_sql = self.join_translator.boolean(condition).sql
            self.references[-1] = replace(self.references[-1], on=on_sql, kind=kind)
        if kind in ("SEMI", "ANTI"):
            self.hidden[alias] = self.relations.pop(alias)

    def _using_condition(self, join: Ast, kind: str, alias: str) -> Ast | None:
        """Write USING (a, b) as equalities; a name then means the column that is never NULL."""
        equalities: list[Ast] = []
        meant: dict[str, str] = {}
        for item in join.args.get("using") or ():
            name = item.name.lower()
            owners = [owner for owner, relation in self.relations.items() if relation.find(name)]
            if name in self.merged and alias in owners:
                owners = [self.merged[name], alias]
            if len(owners) != 2 or owners[1] != alias:
                raise InputError(f"USING ({name}): the column must be once on each side; write ON")
            left, right = (exp.column(name, owner, quoted=True) for owner in owners)
            equalities.append(exp.EQ(this=left, expression=right))
            meant[name] = owners[kind == "RIGHT"]
        self.merged = {**meant, **{n: a for n, a in self.merged.items() if n not in meant}}
        return exp.and_(*equalities, copy=False) if equalities else None

    def _add_lateral(self, lateral: Ast) -> None:
        alias = self._new_alias(lateral.args["alias"].name)
        view, self.relations[alias] = compile_lateral(self.translator, lateral, alias)
        self.laterals.append(view)

    def _new_alias(self, name: str) -> str:
        alias = name or f"_subquery{len(self.relations)}"
        if alias.lower() in {known.lower() for known in self.relations}:
            raise InputError(f"{alias!r} appears twice in FROM; rename one with AS")
        return alias

    def _check_outer(self) -> None:
        if len(self.inputs) != 2:
            raise _too_many_joins()
        if self.references and self.references[0].alias == next(iter(self.relations)):
            raise InputError("name the streams of an outer join first, then reference tables")


def _too_many_joins() -> InputError:
    return InputError(
        "LEFT, RIGHT, FULL, SEMI and ANTI JOIN take two streams; join two of them in a subquery, "
        "and name a reference table after them"
    )


def _is_outermost(select: Ast) -> bool:
    """Return whether a SELECT is not in a subquery; it can be a part of a UNION."""
    parent = select.parent
    while isinstance(parent, exp.Union):
        parent = parent.parent
    return parent is None


def _stream_relation(catalog: Catalog, name: str) -> Relation:
    """Return a stream as a relation with one clock, its event time."""
    stream = catalog.streams[name]
    fields = (
        Field(f.name, canonical_type(f.type), EventTime("t") if f.name == stream.time else None)
        for f in stream.schema
    )
    return Relation(tuple(fields), {"t": 0})


def _match_ignoring_case(names: Mapping[str, object], name: str) -> str:
    return next(known for known in names if known.lower() == name.lower())


def _subquery(item: Ast, ctes: CteScope) -> tuple[Ast, CteScope] | None:
    """Return the query behind an item of FROM with the CTEs that it can use; None for a name."""
    if isinstance(item, exp.Subquery):
        return item.this, ctes
    if isinstance(item, exp.Table) and not item.db:
        return ctes.get(item.name.lower())
    return None


def _is_streaming(catalog: Catalog, item: Ast, ctes: CteScope) -> bool:
    """Return whether an item of FROM is a stream or a subquery, not a reference table."""
    extra = [k for k, v in item.args.items() if v and k not in ("this", "alias", "db", "catalog")]
    alias = item.args.get("alias")
    if extra or (alias is not None and alias.args.get("columns")):
        raise refusal(item, "cannot be used in FROM; write a name or (SELECT ...), then AS alias")
    if _subquery(item, ctes) is not None:
        return True
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier) or item.db:
        raise refusal(item, "cannot be used in FROM; name a stream, a table or a subquery")
    name = item.name.lower()
    if name in {s.lower() for s in catalog.streams}:
        return True
    if name in {t.lower() for t in catalog.tables}:
        return False
    known = sorted([*catalog.streams, *catalog.tables])
    raise InputError(f"there is no stream or table {item.name!r}; there are {', '.join(known)}")
