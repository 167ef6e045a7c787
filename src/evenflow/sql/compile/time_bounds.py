"""Bounds between the clocks of a join's inputs, closed under addition (difference bounds).

`a <= b + 20 s` and `b <= c` give `a <= c + 20 s`. From the closure follow how long a row must wait
for partners, and how far behind the watermark the times of joined rows may be.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast, EventTime, Relation, TypedExpr

UNBOUNDED_US = 1 << 61


@dataclass(frozen=True)
class TimeBounds:
    """`most[x][y]` is the most x - y can be; `clocks` is the clock chosen of each input."""

    max_difference_us: Mapping[str, Mapping[str, int]]
    clocks: Mapping[str, str]
    input_lags_us: Mapping[str, int]

    @classmethod
    def from_conditions(
        cls, inputs: Mapping[str, Relation], conditions: Iterable[Ast], translate: Translator
    ) -> "TimeBounds":
        """Read the bounds of a join, or refuse it for want of one."""
        lags = {
            EventTime(base).qualified(alias).clock: lag
            for alias, relation in inputs.items()
            for base, lag in relation.lags_us.items()
        }
        most = {x: {y: 0 if x == y else UNBOUNDED_US for y in lags} for x in lags}
        for node in conditions:
            for x, y, bound in _read_condition(node, translate):
                if x in lags and y in lags:
                    most[x][y] = min(most[x][y], bound)
        for via in lags:
            for x in lags:
                for y in lags:
                    most[x][y] = min(most[x][y], most[x][via] + most[via][y])
        return cls(most, _choose_clocks(inputs, most), lags)

    def retention_us(self, alias: str) -> int:
        """Say how far behind the watermark a row of this input may be and still find a partner."""
        mine = self.clocks[alias]
        return max(
            self.max_difference_us[other][mine] + self.input_lags_us[other]
            for at, other in self.clocks.items()
            if at != alias
        )

    def output_lags_us(self) -> dict[str, int]:
        """Say how far behind the watermark each clock may be in joined rows still to come."""
        found = {}
        for base, own in self.input_lags_us.items():
            alias = base.split("\0", 1)[0]
            others = [
                self.input_lags_us[clock] + self.max_difference_us[clock][base]
                for at, clock in self.clocks.items()
                if at != alias
            ]
            lag = max(own, *others)
            if lag < UNBOUNDED_US // 2:
                found[base] = lag
        return found

    def difference_range_us(self, source: str, target: str) -> tuple[int, int]:
        """Return the least and the most of target - source."""
        a, b = self.clocks[source], self.clocks[target]
        return -self.max_difference_us[a][b], self.max_difference_us[b][a]


def _choose_clocks(
    inputs: Mapping[str, Relation], most: Mapping[str, Mapping[str, int]]
) -> dict[str, str]:
    """Choose of each input the clock that is bound to the others'."""
    found: dict[str, str] = {}
    for alias, relation in inputs.items():
        bases = [EventTime(base).qualified(alias).clock for base in relation.lags_us]
        if not bases:
            raise InputError(f"{alias!r} passes no event time on; select it in the subquery")
        others = [x for x in most if not x.startswith(f"{alias}\0")]

        def bound(base: str, others: list[str] = others) -> int:
            return sum(1 for x in others if max(most[base][x], most[x][base]) < UNBOUNDED_US // 2)

        found[alias] = max(bases, key=bound)
    for one, other in combinations(found, 2):
        x, y = found[one], found[other]
        if max(most[x][y], most[y][x]) >= UNBOUNDED_US // 2:
            a, b = _clock_column(inputs, one, x), _clock_column(inputs, other, y)
            raise InputError(
                f"the join of {one} and {other} has no bound on their times, so rows could "
                f"never be forgotten; add AND {b} BETWEEN {a} - INTERVAL 20 SECONDS "
                f"AND {a} + INTERVAL 20 SECONDS"
            )
    return found


def _clock_column(inputs: Mapping[str, Relation], alias: str, base: str) -> str:
    wanted = base.split("\0", 1)[1]
    for entry in inputs[alias].fields:
        if entry.time is not None and entry.time.clock == wanted:
            return f"{alias}.{entry.name}" + (".start" if entry.time.width_us else "")
    return alias


def _read_condition(node: Ast, translate: Translator) -> list[tuple[str, str, int]]:
    """Read what one condition says: triples x, y, most of x - y."""
    if not isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return []
    left, right = _event_time(node.left, translate), _event_time(node.right, translate)
    if left is None or right is None or (left.width_us is None) != (right.width_us is None):
        return []
    if left.width_us is not None and not isinstance(node, exp.EQ):
        return []
    gap = right.offset_us - left.offset_us
    below = [(left.clock, right.clock, gap)]
    above = [(right.clock, left.clock, -gap)]
    if isinstance(node, exp.EQ):
        return below + above
    strict = 1 if isinstance(node, exp.LT | exp.GT) else 0
    x, y, bound = (below if isinstance(node, exp.LT | exp.LTE) else above)[0]
    return [(x, y, bound - strict)]


def _event_time(node: Ast, translate: Translator) -> EventTime | None:
    value: TypedExpr = translate(node)
    return value.time
