"""Functions with OVER: ranks, earlier and later rows, running aggregates.

Where Spark's answer depends on the order of arrival, because rows are equal in ORDER BY, the other
columns decide, so a batch that runs again gives the same result.
"""

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.aggregates import OVER_MARK, read_aggregate
from evenflow.sql.translate.literals import interval_us
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import parsed
from evenflow.sql.translate.translator import (
    NAMED_RULES,
    RULES,
    Translator,
    declare,
    refuse_struct_order,
    widen,
)
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

TOPIC = "window functions"
MAX_OFFSET = 10_000  # of lag and lead
_INT, _DOUBLE = pa.int32(), types.DOUBLE
_RANKS = {"row_number": _INT, "rank": _INT, "dense_rank": _INT, "percent_rank": _DOUBLE,
          "cume_dist": _DOUBLE}  # fmt: skip
_VALUES = {"first_value": "first_value", "first": "first_value", "last_value": "last_value",
           "last": "last_value", "nth_value": "nth_value"}  # fmt: skip
_NEEDS_ORDER = "needs ORDER BY inside OVER (...)"


def translate_over(translate: Translator, node: Ast, tie_breakers: Sequence[str]) -> TypedExpr:
    """Translate a call with OVER; `tie_breakers` are the columns that decide among equal rows."""
    call, ignores_nulls = node.this, False
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        call, ignores_nulls = call.this, isinstance(call, exp.IgnoreNulls)
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    over = _Over(translate, node, tie_breakers)
    nulls = " IGNORE NULLS" if ignores_nulls else ""
    if name in _RANKS or name == "ntile":
        return over.rank(call, name)
    if name in ("lag", "lead"):
        return over.neighbour(call, name, nulls)
    if name in _VALUES:
        return over.value(call, name, nulls)
    return over.aggregate()


class _Over:
    """The clause OVER (PARTITION BY ... ORDER BY ... frame) of one call."""

    def __init__(self, translate: Translator, node: Ast, tie_breakers: Sequence[str]) -> None:
        self.translate, self.node, self.tie_breakers = translate, node, tie_breakers
        order = node.args.get("order")
        self.order = list(order.expressions) if order is not None else []

    def rank(self, call: Ast, name: str) -> TypedExpr:
        if not self.order:
            raise refusal(self.node, _NEEDS_ORDER)
        argument, kind = "", _RANKS.get(name, _INT)
        if name == "ntile":
            argument = str(self._constant(call, 0))
        elif call.expressions:
            raise refusal(call, f"has arguments; {name} takes none")
        has_ties = name not in ("row_number", "ntile")
        over = self._sql(breaks_ties=not has_ties, frame="")
        return self._typed(f"CAST({name}({argument}){over} AS {types.duckdb_name(kind)})", kind)

    def neighbour(self, call: Ast, name: str, nulls: str) -> TypedExpr:
        if not self.order or not 1 <= len(call.expressions) <= 3:
            raise refusal(self.node, f"is not supported; write {name}(x, 1) OVER (... ORDER BY t)")
        value = self.translate(call.expressions[0])
        offset = self._constant(call, 1) if len(call.expressions) > 1 else 1
        default = ""
        if len(call.expressions) > 2:
            value, other = widen(call, value, self.translate(call.expressions[2]))
            default = f", {other.sql}"
        over = self._sql(breaks_ties=True, frame="")
        return self._typed(f"{name}({value.sql}, {offset}{default}{nulls}){over}", value.type)

    def value(self, call: Ast, name: str, nulls: str) -> TypedExpr:
        value, frame = self.translate(call.expressions[0]), self._frame()
        if not self.order:
            raise refusal(self.node, _NEEDS_ORDER)
        if not frame.startswith(" ROWS") and _VALUES[name] != "first_value":
            raise refusal(self.node, "takes any of equal rows; add ROWS BETWEEN ... AND ...")
        argument = f", {self._constant(call, 1)}" if name == "nth_value" else ""
        over = self._sql(breaks_ties=True, frame=frame)
        return self._typed(f"{_VALUES[name]}({value.sql}{argument}{nulls}){over}", value.type)

    def aggregate(self) -> TypedExpr:
        found = read_aggregate(self.translate, self.node.this)
        if found is None or not all(partial.windowed for partial in found.partials):
            raise refusal(self.node, "cannot have OVER here")
        frame = self._frame()
        over = self._sql(breaks_ties=frame.startswith(" ROWS"), frame=frame)
        partials = [partial.windowed.replace(OVER_MARK, over) for partial in found.partials]
        return self._typed(found.final.format(*partials), found.type)

    def _typed(self, sql: str, kind: pa.DataType) -> TypedExpr:
        return TypedExpr(sql, kind, can_fail=True)

    def _constant(self, call: Ast, at: int) -> int:
        given = call.expressions[at] if len(call.expressions) > at else None
        text = str(given.this) if isinstance(given, exp.Literal) and not given.is_string else ""
        if not text.isdigit() or not 0 < int(text) <= MAX_OFFSET:
            raise refusal(call, f"needs a number from 1 to {MAX_OFFSET:,}")
        return int(text)

    def _sql(self, *, breaks_ties: bool, frame: str) -> str:
        values = [self.translate(part) for part in self.node.args.get("partition_by") or ()]
        groups = ", ".join(types.group_key_sql(value.sql, value.type) for value in values)
        order = [self._order_sql(item) for item in self.order]
        order += self.tie_breakers if breaks_ties and order else ()
        ordering = f" ORDER BY {', '.join(order)}" if order else ""
        return f" OVER (PARTITION BY {groups}{ordering}{frame})"

    def _order_sql(self, item: Ast) -> str:
        value = self.translate(item.this)
        refuse_struct_order(self.node, value)
        descends = bool(item.args.get("desc"))
        first = item.args.get("nulls_first")
        nulls_first = not descends if first is None else bool(first)
        nulls = "NULLS FIRST" if nulls_first else "NULLS LAST"
        return f"{value.sql} {'DESC' if descends else 'ASC'} {nulls}"

    def _frame(self) -> str:
        spec = self.node.args.get("spec")
        if spec is None:
            return ""
        bounds = [
            self._bound(spec.args.get(edge), spec.args.get(f"{edge}_side"), spec.args["kind"])
            for edge in ("start", "end")
        ]
        if not self.order:
            raise refusal(self.node, "has a frame and " + _NEEDS_ORDER)
        return f" {spec.args['kind']} BETWEEN {bounds[0]} AND {bounds[1]}"

    def _bound(self, value: Ast, side: str | None, kind: str) -> str:
        if value is None or value == "CURRENT ROW":
            return "CURRENT ROW"
        if value == "UNBOUNDED":
            return f"UNBOUNDED {side}"
        if isinstance(value, exp.Interval) and kind == "RANGE":
            return f"to_microseconds({interval_us(value)}) {side}"
        if isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit():
            return f"{int(str(value.this))} {side}"
        raise refusal(self.node, "has a bound that is neither a number nor an interval")


def _refuse_bare(_: Translator, node: Ast) -> TypedExpr:
    raise refusal(node, "needs OVER (PARTITION BY window, ... ORDER BY ...)")


def _refuse_elsewhere(_: Translator, node: Ast) -> TypedExpr:
    raise refusal(node, "is refused: OVER belongs in SELECT, not in conditions or other functions")


_NAMES = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead",
          "nth_value")  # fmt: skip
for _name in _NAMES:
    parsed(_name, topic=TOPIC)
    NAMED_RULES[_name] = _refuse_bare
RULES[exp.Window] = _refuse_elsewhere
declare("this partition_by order spec over", exp.Window)
declare("kind start start_side end end_side", exp.WindowSpec)
