"""GROUP BY of a continuous query: one time, any columns, aggregates in SELECT and HAVING."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.aggregates import aggregate
from evenflow.sql.expressions import SUBSCRIPTION, Translator, output_name, said
from evenflow.sql.plan import Block, Group, Node, Union, Windows
from evenflow.sql.typed import Ast, Field, Relation, Time, Typed
from evenflow.sql.windowing import is_window, lag_of, window_call

if TYPE_CHECKING:
    from evenflow.sql.compile import Compiler
    from evenflow.sql.sources import From

WINDOW_BASE = "w"


@dataclass
class _Grouping:
    """What is collected while the expressions are read."""

    translate: Translator
    keys: dict[str, Typed] = field(default_factory=dict)  # DuckDB text -> expression
    time_sql: str = ""  # of the pane
    moment: str = ""  # of the row
    time: Typed | None = None
    windows: Windows | None = None
    is_window_call: bool = False
    updates: list[tuple[str, str]] = field(default_factory=list)
    merges: list[tuple[str, str]] = field(default_factory=list)
    stored: list[tuple[str, pa.DataType]] = field(default_factory=list)
    having: str | None = None

    def answer(self, node: Ast) -> Typed | None:
        """Answer for a node above the grouping: a group, an aggregate, or nothing."""
        if isinstance(node, exp.Literal | exp.Null | exp.Boolean | exp.Interval | exp.Placeholder):
            return self._group(node) if isinstance(node, exp.Placeholder) else None
        if isinstance(node, exp.AggFunc | exp.Filter | exp.Anonymous):
            made = self._aggregate(node)
            if made is not None:
                return made
        if node.find(exp.AggFunc):
            return None
        if (grouped := self._group(node)) is not None:
            return grouped
        if isinstance(node, exp.Column):
            if (part := self._part(node)) is not None:
                return part
            raise InputError(
                f"{said(node)} is neither grouped nor aggregated; "
                "add it to GROUP BY or put it into an aggregate such as max(...)"
            )
        return None

    def _group(self, node: Ast) -> Typed | None:
        if self.is_window_call and self._names_window(node):
            value = self.output_time()
            for part in node.parts[1:] if isinstance(node, exp.Column) else ():
                value = self.translate.field(value, part.name)
            return value
        try:
            inner = self.translate(node)
        except InputError:
            if isinstance(node, exp.Column):
                raise
            return None
        if self.time is not None and not self.is_window_call and inner.sql == self.time.sql:
            return self.output_time()
        if inner.sql in self.keys:
            at = list(self.keys).index(inner.sql)
            return Typed(types.name(f"g{at}"), inner.type, column=("", f"g{at}"))
        return None

    def _part(self, node: Ast) -> Typed | None:
        """Answer for a field of a struct that is grouped by."""
        *before, last = node.parts
        if not before:
            return None
        whole = exp.Column(**dict(zip(("this", "table", "db"), reversed(before), strict=False)))
        try:
            value = self._group(whole)
        except InputError:
            return None
        return self.translate.field(value, last.name) if value is not None else None

    def _names_window(self, node: Ast) -> bool:
        if is_window(node):
            return window_call(self.translate, node)[1:] == self._call
        return isinstance(node, exp.Column) and node.parts[0].name.lower() == "window"

    _call: tuple[str, int, int, int] = ("", 0, 0, 0)

    def output_time(self) -> Typed:
        """Rebuild the time of a group from the start of its window."""
        assert self.windows is not None  # noqa: S101 - set before expressions are read
        start = 'make_timestamp("_ws")'
        if self.time is not None and self.time.type != types.WINDOW:
            return Typed(start, self.time.type, time=Time(WINDOW_BASE))
        width = self.windows.size_us
        if self.time is not None and self.time.time is not None:
            width = self.time.time.width_us or 0
        end = f'make_timestamp("_ws" + {width})'
        sql = f"{{'start': {start}, 'end': {end}}}"
        return Typed(sql, types.WINDOW, time=Time(WINDOW_BASE, 0, width))

    def _aggregate(self, node: Ast) -> Typed | None:
        made = aggregate(self.translate, node)
        if made is None:
            return None
        names = []
        for partial in made.partials:
            if partial.update not in dict(self.updates).values():
                name = f"p{len(self.updates)}"
                self.updates.append((name, partial.update))
                self.merges.append((name, partial.merge.format(types.name(name))))
                self.stored.append((name, partial.type))
            names.append(next(n for n, sql in self.updates if sql == partial.update))
        sql = made.final.format(*(types.name(n) for n in names))
        return Typed(sql, made.type)


def group(
    compiler: "Compiler",
    select: Ast,
    expressions: list[Ast],
    source: "From",
    where: list[Typed],
) -> Node:
    """Compile SELECT ... GROUP BY into partial rows per pane and an answer per window."""
    translate = source.translate
    lags = source.lags()
    made = _Grouping(translate)
    clause = select.args.get("group")
    for node in clause.expressions if clause is not None else ():
        _add(made, _meant(node, expressions, translate), lags)
    if made.windows is None:
        raise InputError(
            "the aggregate has no window, so it would never be complete; "
            "add window(time, '10 seconds') to GROUP BY"
        )
    above = Translator({}, made.answer)
    outputs = []
    if source.subscribed:
        made.keys.setdefault(SUBSCRIPTION.sql, SUBSCRIPTION)
        at = list(made.keys).index(SUBSCRIPTION.sql)
        outputs.append(
            ("subscription", Typed(types.name(f"g{at}"), types.STRING, column=("", f"g{at}")))
        )
    for node in expressions:
        name = output_name(node)
        outputs.append((name, above(node.this if isinstance(node, exp.Alias) else node)))
    having = select.args.get("having")
    condition = above.boolean(_aliases(having.this, expressions, translate)) if having else None
    made.having = condition.sql if condition is not None else None
    return _node(compiler, source, where, made, outputs)


def _node(
    compiler: "Compiler",
    source: "From",
    where: list[Typed],
    made: _Grouping,
    outputs: list[tuple[str, Typed]],
) -> Node:
    windows = made.windows
    assert windows is not None  # noqa: S101 - checked by the caller
    keys = tuple(f"g{at}" for at in range(len(made.keys)))
    inner = [("_t", made.time_sql)]
    inner += [(key, value.sql) for key, value in zip(keys, made.keys.values(), strict=True)]
    inner += [*made.updates, ("_n", "CAST(count(*) AS BIGINT)")]
    stored = pa.schema(
        [("_t", types.LONG)]
        + [
            (key, types.physical(value.type))
            for key, value in zip(keys, made.keys.values(), strict=True)
        ]
        + made.stored
        + [("_n", types.LONG)]
    )
    lineage = {k: v.column for k, v in zip(keys, made.keys.values(), strict=True) if v.column}
    present = Typed(f"({made.moment} IS NOT NULL)", types.BOOLEAN)
    feed = compiler.block(
        source, [*where, present], tuple(inner), Relation(()), lineage, grouped=True
    )
    feeds = feed.parts if isinstance(feed, Union) else (feed,)
    types.check_names(name for name, _ in outputs)
    relation = Relation(
        tuple(Field(name, value.type, value.time) for name, value in outputs),
        {WINDOW_BASE: windows.lag_us + windows.size_us - 1},
    )
    return Group(
        next(compiler.ids),
        tuple(f for f in feeds if isinstance(f, Block)),
        windows,
        keys,
        (*made.merges, ("_n", 'CAST(sum("_n") AS BIGINT)')),
        stored,
        tuple((name, value.sql) for name, value in outputs),
        made.having,
        relation,
        {name: value.column[1] for name, value in outputs if value.column},
    )


def _meant(node: Ast, expressions: list[Ast], translate: Translator) -> Ast:
    """Follow GROUP BY 1 and GROUP BY alias to the expression of SELECT."""
    if isinstance(node, exp.Literal) and not node.is_string:
        at = int(str(node.this)) - 1
        if not 0 <= at < len(expressions):
            raise InputError(f"GROUP BY {node.this}: SELECT has {len(expressions)} columns")
        node = expressions[at]
        return node.this if isinstance(node, exp.Alias) else node
    return _aliases(node, expressions, translate)


def _aliases(node: Ast, expressions: list[Ast], translate: Translator) -> Ast:
    """Replace names that only SELECT gives."""
    given = {
        e.alias.lower(): e.this
        for e in expressions
        if isinstance(e, exp.Alias)
        and not any(relation.find(e.alias) for relation in translate.inputs.values())
    }

    def replaced(at: Ast) -> Ast:
        if isinstance(at, exp.Column) and not at.table and at.name.lower() in given:
            return exp.Paren(this=given[at.name.lower()].copy())
        return at

    result = node.copy().transform(replaced)
    return result.this if isinstance(result, exp.Paren) else result


def _add(made: _Grouping, node: Ast, lags: Mapping[str, int]) -> None:
    """Take one item of GROUP BY."""
    if is_window(node):
        if made.windows is not None:
            raise InputError(f"{said(node)}: a query has one window; move the other to a subquery")
        value, sql, size, slide, start = window_call(made.translate, node)
        made._call = (sql, size, slide, start)
        made.is_window_call = True
        lag = lag_of(node, value, lags)
        pane = gcd(size, slide)
        made.windows = Windows(size, slide, start, pane, lag)
        made.moment, us = sql, f"epoch_us({sql})"
        # A time before `start` has a negative remainder, which a second modulo repairs.
        made.time_sql = f"({us} - ((({us} - {start}) % {pane}) + {pane}) % {pane})"
        return
    value = made.translate(node)
    if value.time is not None and made.windows is None:
        lag = lag_of(node, value, lags)
        made.time = value
        made.windows = Windows(1, 1, 0, 1, lag)
        made.moment = value.sql
        if value.time.width_us:
            made.moment = f"struct_extract({value.sql}, 'start')"
        made.time_sql = f"epoch_us({made.moment})"
        return
    if value.literal is None or value.columns:
        made.keys.setdefault(value.sql, value)
