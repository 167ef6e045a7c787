"""From a parsed SELECT to a tree of nodes: names resolved, types found, bounds checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import grouping, joining, types
from evenflow.sql.catalog import Catalog
from evenflow.sql.expressions import SUBSCRIPTIONS, Parameters, Translator, said
from evenflow.sql.parsing import query
from evenflow.sql.plan import Block, Input, Node, Reference, Union
from evenflow.sql.typed import Ast, Field, Relation, Time, Typed

MAX_INPUTS = 64
Ctes = Mapping[str, tuple[Ast, "Ctes"]]  # WITH queries, each with the names known where it stands
SUBSCRIPTION = Typed(
    f'{types.name(SUBSCRIPTIONS)}."subscription"',
    types.STRING,
    frozenset([(SUBSCRIPTIONS, "subscription")]),
    (SUBSCRIPTIONS, "subscription"),
)


@dataclass
class Compiler:
    """Compile the parts of one query; `parameters` are those of a template."""

    catalog: Catalog
    parameters: Parameters | None = None
    ids: "count[int]" = field(default_factory=count)
    known: dict[tuple[int, bool], tuple[Node, int]] = field(default_factory=dict)
    inputs: int = 0

    def query(self, node: Ast, ctes: "Ctes", strict: bool) -> Node:
        """Compile a query or a subquery; a WITH query that is read twice is computed once."""
        key = (id(node), strict)
        if key in self.known:
            made, size = self.known[key]
            self.count(size)
            return made
        before = self.inputs
        parsed = query(node)
        inner = self._with(parsed, ctes)
        if isinstance(parsed, exp.Union):
            made = self._union(parsed, inner, strict)
        else:
            made = self._select(parsed, inner, strict)
        self.known[key] = (made, self.inputs - before)
        return made

    def count(self, inputs: int) -> None:
        """Count what is read; a query read twice counts twice, so nesting cannot explode."""
        self.inputs += inputs
        if self.inputs > MAX_INPUTS:
            raise InputError(f"the query reads more than {MAX_INPUTS} relations; split it")

    def _with(self, node: Ast, ctes: "Ctes") -> "Ctes":
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

    def _union(self, node: Ast, ctes: "Ctes", strict: bool) -> Node:
        sides = [self.query(side, ctes, strict) for side in (node.left, node.right)]
        parts = [p for side in sides for p in (side.parts if isinstance(side, Union) else [side])]
        return unite(self, parts)

    def _select(self, select: Ast, ctes: "Ctes", strict: bool) -> Node:
        source = From.read(self, select, ctes, strict)
        translate = source.translate
        where = [translate.boolean(node) for node in source.conjuncts]
        expressions = _expand(select, source)
        if select.args.get("group") or any(e.find(exp.AggFunc) for e in expressions):
            return grouping.group(self, select, expressions, source, where)
        columns = [self._output(translate, node) for node in expressions]
        if source.subscribed:
            columns.insert(0, ("subscription", SUBSCRIPTION))
        relation, selected, lineage = _outputs(columns)
        relation = replace(relation, lags=source.lags())
        return self.block(source, where, selected, relation, lineage)

    def block(
        self,
        source: "From",
        where: list[Typed],
        select: tuple[tuple[str, str], ...],
        relation: Relation,
        lineage: Mapping[str, tuple[str, str]],
        *,
        grouped: bool = False,
    ) -> Node:
        """Make the node of a FROM and WHERE; over a union it becomes a union of blocks."""
        inputs = tuple(source.inputs)
        made = Block(
            next(self.ids),
            inputs,
            tuple(source.references),
            tuple(w.sql for w in where),
            select,
            grouped,
            relation,
            lineage,
            joining.equal_columns(source.conjuncts, source.translate),
        )
        if len(inputs) > 1:
            return joining.buffered(made, source, where)
        feed = inputs[0].feed
        if isinstance(feed, Union):
            parts = tuple(
                replace(made, id=next(self.ids), inputs=(replace(inputs[0], feed=part),))
                for part in feed.parts
            )
            return Union(next(self.ids), parts, relation)
        return made

    def _output(self, translate: Translator, node: Ast) -> tuple[str, Typed]:
        value = translate(node.this if isinstance(node, exp.Alias) else node)
        return output_name(node), value


def output_name(node: Ast) -> str:
    """Return the name of a result column; an expression needs one."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Dot):
        return str(node.expression.name)
    raise InputError(f"{said(node)} needs a name; write {node.sql('spark')[:60]} AS name")


def _outputs(
    columns: list[tuple[str, Typed]],
) -> tuple[Relation, tuple[tuple[str, str], ...], Mapping[str, tuple[str, str]]]:
    types.check_names(name for name, _ in columns)
    fields = tuple(Field(name, value.type, value.time) for name, value in columns)
    lineage = {name: value.column for name, value in columns if value.column}
    return Relation(fields), tuple((n, v.sql) for n, v in columns), lineage


def unite(compiler: Compiler, parts: list[Node]) -> Union:
    """Put parts of equal columns together; a time stays one if it is one in every part."""
    first = parts[0].relation
    fields: list[Field] = []
    lags: dict[str, int] = {}
    for at, entry in enumerate(first.fields):
        for part in parts[1:]:
            if len(part.relation.fields) != len(first.fields):
                raise InputError("the sides of UNION ALL have different numbers of columns")
            other = part.relation.fields[at]
            if other.type != entry.type:
                raise InputError(
                    f"column {at + 1} of UNION ALL is {types.spark_name(entry.type)} on one side "
                    f"and {types.spark_name(other.type)} on another; cast one"
                )
        times = [part.relation.fields[at].time for part in parts]
        time = None
        if all(t is not None and t.width_us == times[0].width_us for t in times):  # type: ignore[union-attr]
            time = Time(f"u{at}", 0, times[0].width_us)  # type: ignore[union-attr]
            lags[time.base] = max(
                part.relation.lags[t.base] - t.offset_us
                for part, t in zip(parts, times, strict=True)
                if t is not None
            )
        fields.append(Field(entry.name, entry.type, time))
    named = tuple(_renamed(compiler, part, [f.name for f in fields]) for part in parts)
    return Union(next(compiler.ids), named, Relation(tuple(fields), lags))


def _renamed(compiler: Compiler, part: Node, names: list[str]) -> Node:
    """Give a part of a union the column names of the first part."""
    old = part.relation.schema.names
    if old == names or isinstance(part, Union):
        return part
    fields = tuple(replace(f, name=n) for f, n in zip(part.relation.fields, names, strict=True))
    shared: dict[str, Any] = {
        "id": next(compiler.ids),
        "relation": replace(part.relation, fields=fields),
        "select": tuple((n, sql) for n, (_, sql) in zip(names, part.select, strict=True)),
        "lineage": {
            n: part.lineage[o] for n, o in zip(names, old, strict=True) if o in part.lineage
        },
    }
    return replace(part, **shared)


@dataclass
class From:
    """The FROM clause: inputs, reference tables, and all conditions of inner joins and WHERE."""

    inputs: list[Input]
    references: list[Reference]
    relations: dict[str, Relation]
    conjuncts: list[Ast]
    parameters: Parameters | None = None

    @property
    def subscribed(self) -> bool:
        """Whether rows meet the subscriptions of a template here."""
        return any(r.table == SUBSCRIPTIONS for r in self.references)

    @property
    def translate(self) -> Translator:
        """The translator of expressions over this FROM."""
        return Translator(self.relations, parameters=self.parameters)

    @classmethod
    def read(
        cls,
        compiler: Compiler,
        select: Ast,
        ctes: "Ctes",
        strict: bool,
    ) -> "From":
        """Resolve every item of FROM."""
        items = [select.args["from_"].this]
        joins = select.args.get("joins") or []
        for join in joins:
            _check_join(join)
            items.append(join.this)
        streams = [_is_stream(compiler, item, ctes) for item in items]
        joined = sum(streams) > 1
        grouped = select.args.get("group") is not None
        inner = (strict and not grouped) or joined
        made = cls([], [], {}, [], compiler.parameters)
        for at, (item, flows) in enumerate(zip(items, streams, strict=True)):
            compiler.count(1)
            made._add(compiler, item, ctes, inner, flows)
            if at:
                made._join(joins[at - 1], flows)
        if not any(streams):
            raise InputError("the query reads reference tables only; put a stream into FROM")
        where = select.args.get("where")
        made.conjuncts += joining.conjuncts(where.this) if where is not None else []
        if compiler.parameters is not None and _is_outer(select):
            made.references.insert(0, Reference(SUBSCRIPTIONS, SUBSCRIPTIONS))
        elif compiler.parameters is not None:
            made.parameters = None
        return made

    def lags(self) -> dict[str, int]:
        """Say how far each clock of the inputs lags behind the watermark in the output."""
        if len(self.inputs) == 1:
            alias = self.inputs[0].alias
            return {Time(b).of(alias).base: lag for b, lag in self.relations[alias].lags.items()}
        return joining.bounds(self).lags()

    def _add(
        self,
        compiler: Compiler,
        item: Ast,
        ctes: "Ctes",
        strict: bool,
        flows: bool,
    ) -> None:
        alias = item.alias_or_name or f"_subquery{len(self.relations)}"
        if alias.lower() in {known.lower() for known in self.relations}:
            raise InputError(f"{alias!r} is twice in FROM; give one another name with AS")
        body = _body(item, ctes)
        if body is not None:
            node = compiler.query(*body, strict)
            self.inputs.append(Input(alias, node))
            self.relations[alias] = node.relation
            return
        name = item.name
        if not flows:
            table = _lookup(compiler.catalog.tables, name)
            fields = (
                Field(f.name, types.from_spark(f.type)) for f in compiler.catalog.tables[table]
            )
            self.references.append(Reference(alias, table))
            self.relations[alias] = Relation(tuple(fields), is_table=True)
            return
        stream = _lookup(compiler.catalog.streams, name)
        self.inputs.append(Input(alias, stream, strict))
        self.relations[alias] = stream_relation(compiler.catalog, stream)

    def _join(self, join: Ast, flows: bool) -> None:
        condition = join.args.get("on")
        if join.args.get("side") == "LEFT":
            alias = join.this.alias_or_name
            if flows or condition is None:
                raise InputError(
                    f"LEFT JOIN {alias}: only a reference table can be LEFT JOINed; "
                    "between streams write JOIN"
                )
            on = self.translate.boolean(condition)
            self.references[-1] = replace(self.references[-1], on=on.sql)
            return
        if condition is not None:
            self.conjuncts += joining.conjuncts(condition)


def _is_outer(select: Ast) -> bool:
    """Tell the SELECTs that give a template's result from those inside them."""
    at = select.parent
    while isinstance(at, exp.Union):
        at = at.parent
    return at is None


def stream_relation(catalog: Catalog, name: str) -> Relation:
    """Describe a stream as a relation with one clock, which is the watermark's own."""
    stream = catalog.streams[name]
    fields = tuple(
        Field(f.name, types.from_spark(f.type), Time("t") if f.name == stream.time else None)
        for f in stream.schema
    )
    return Relation(fields, {"t": 0})


def _lookup(names: Mapping[str, object], wanted: str) -> str:
    return next(name for name in names if name.lower() == wanted.lower())


def _body(item: Ast, ctes: "Ctes") -> "tuple[Ast, Ctes] | None":
    """Return the query behind an item of FROM, with the names it may use."""
    if isinstance(item, exp.Subquery):
        return item.this, ctes
    if isinstance(item, exp.Table) and not item.db and item.name.lower() in ctes:
        return ctes[item.name.lower()]
    return None


def _is_stream(compiler: Compiler, item: Ast, ctes: "Ctes") -> bool:
    """Tell whether an item of FROM flows; subqueries do, reference tables do not."""
    extra = [k for k, v in item.args.items() if v and k not in ("this", "alias", "db", "catalog")]
    alias = item.args.get("alias")
    if extra or (alias is not None and alias.args.get("columns")):
        raise InputError(f"{said(item)}: in FROM write a name or (SELECT ...), then AS alias")
    if _body(item, ctes) is not None:
        return True
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier) or item.db:
        raise InputError(f"{said(item)} cannot stand in FROM; name a stream, a table or a subquery")
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


def _expand(select: Ast, source: From) -> list[Ast]:
    """Replace * and a.* by columns."""
    found: list[Ast] = []
    for node in select.expressions:
        if not node.is_star or node.find(exp.AggFunc):
            found.append(node)
            continue
        if any(v for k, v in node.args.items() if k in ("except_", "replace", "rename")):
            raise InputError(f"{said(node)}: name the columns instead of * EXCEPT")
        wanted = node.table if isinstance(node, exp.Column) else ""
        aliases = [a for a in source.relations if not wanted or a.lower() == wanted.lower()]
        for alias in aliases:
            found += [exp.column(f.name, alias) for f in source.relations[alias].fields]
        if not aliases:
            raise InputError(f"{said(node)}: there is no {wanted!r} in FROM")
    return found
