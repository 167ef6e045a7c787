"""From a parsed SELECT to a tree of nodes: names resolved, types found, bounds checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import grouping, joining, types
from evenflow.sql.catalog import Catalog
from evenflow.sql.expressions import SUBSCRIPTION, Parameters, Translator, output_name, said
from evenflow.sql.limits import limits
from evenflow.sql.parsing import query
from evenflow.sql.plan import Block, Node, Union
from evenflow.sql.sources import Ctes, From
from evenflow.sql.typed import Ast, Field, Relation, Typed
from evenflow.sql.uniting import unite

MAX_INPUTS = 64


@dataclass
class Compiler:
    """Compile the parts of one query; `parameters` are those of a template.

    `reads` gathers the columns of each stream that the query names anywhere.
    """

    catalog: Catalog
    parameters: Parameters | None = None
    ids: "count[int]" = field(default_factory=count)
    known: dict[tuple[int, bool], tuple[Node, int]] = field(default_factory=dict)
    inputs: int = 0
    reads: dict[str, set[str]] = field(default_factory=dict)

    def query(self, node: Ast, ctes: Ctes, strict: bool) -> Node:
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

    def _with(self, node: Ast, ctes: Ctes) -> Ctes:
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

    def _union(self, node: Ast, ctes: Ctes, strict: bool) -> Node:
        sides = [self.query(side, ctes, strict) for side in (node.left, node.right)]
        parts = [p for side in sides for p in (side.parts if isinstance(side, Union) else [side])]
        return unite(self.ids, parts)

    def _select(self, select: Ast, ctes: Ctes, strict: bool) -> Node:
        source = From.read(self, select, ctes, strict)
        made = self._selected(select, source)
        for item in source.inputs:
            if isinstance(item.feed, str):
                named = {column for alias, column in source.named if alias == item.alias}
                self.reads.setdefault(item.feed, set()).update(named)
        return made

    def _selected(self, select: Ast, source: From) -> Node:
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
        source: From,
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
            limits=limits(source.conjuncts, source.translate) if source.subscribed else (),
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


def _outputs(
    columns: list[tuple[str, Typed]],
) -> tuple[Relation, tuple[tuple[str, str], ...], Mapping[str, tuple[str, str]]]:
    types.check_names(name for name, _ in columns)
    fields = tuple(Field(name, value.type, value.time) for name, value in columns)
    lineage = {name: value.column for name, value in columns if value.column}
    return Relation(fields), tuple((n, v.sql) for n, v in columns), lineage


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
