"""Bounds between the clocks of a join's inputs, closed under addition (difference bounds).

`a <= b + 20 s` and `b <= c` give `a <= c + 20 s`. The closure determines how long a row must be
buffered, and how far behind the watermark the times of joined rows can be.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.relation import EventTime, Relation
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast

UNBOUNDED_US = 1 << 61


@dataclass(frozen=True)
class TimeBounds:
    """`max_difference_us[x][y]` bounds x - y; `clocks` has one clock of each input, by alias."""

    max_difference_us: Mapping[str, Mapping[str, int]]
    clocks: Mapping[str, str]
    input_lags_us: Mapping[str, int]

    @classmethod
    def from_conditions(
        cls, inputs: Mapping[str, Relation], conditions: Iterable[Ast], translate: Translator
    ) -> "TimeBounds":
        """Read the bounds of a join; refuse a join of which two inputs are not bounded."""
        lags = {
            EventTime(clock).qualified(alias).clock: lag
            for alias, relation in inputs.items()
            for clock, lag in relation.lags_us.items()
        }
        bounds = {x: {y: 0 if x == y else UNBOUNDED_US for y in lags} for x in lags}
        for node in conditions:
            for x, y, bound in _read_condition(node, translate):
                if x in lags and y in lags:
                    bounds[x][y] = min(bounds[x][y], bound)
        for via, x, y in product(lags, repeat=3):
            bounds[x][y] = min(bounds[x][y], bounds[x][via] + bounds[via][y])
        return cls(bounds, _choose_clocks(inputs, bounds), lags)

    def retention_us(self, alias: str) -> int:
        """Return how far behind the watermark a row of this input can still match."""
        clock = self.clocks[alias]
        return max(
            self.max_difference_us[other][clock] + self.input_lags_us[other]
            for other_alias, other in self.clocks.items()
            if other_alias != alias
        )

    def output_lags_us(self) -> dict[str, int]:
        """Return how far each clock can lag behind the watermark in joined rows still to come."""
        lags = {}
        for clock, input_lag in self.input_lags_us.items():
            alias = clock.split("\0", 1)[0]
            others = [
                self.input_lags_us[other] + self.max_difference_us[other][clock]
                for other_alias, other in self.clocks.items()
                if other_alias != alias
            ]
            lag = max(input_lag, *others)
            if lag < UNBOUNDED_US // 2:
                lags[clock] = lag
        return lags

    def difference_range_us(self, source: str, target: str) -> tuple[int, int]:
        """Return the minimum and the maximum of target - source."""
        a, b = self.clocks[source], self.clocks[target]
        return -self.max_difference_us[a][b], self.max_difference_us[b][a]


def _choose_clocks(
    inputs: Mapping[str, Relation], bounds: Mapping[str, Mapping[str, int]]
) -> dict[str, str]:
    """Choose the clock of each input that is bounded to the most other clocks."""

    def is_bounded(x: str, y: str) -> bool:
        return max(bounds[x][y], bounds[y][x]) < UNBOUNDED_US // 2

    chosen: dict[str, str] = {}
    for alias, relation in inputs.items():
        clocks = [EventTime(clock).qualified(alias).clock for clock in relation.lags_us]
        if not clocks:
            raise InputError(f"{alias!r} does not select an event time; select it in the subquery")
        others = [x for x in bounds if not x.startswith(f"{alias}\0")]
        counts = [sum(is_bounded(clock, other) for other in others) for clock in clocks]
        chosen[alias] = clocks[counts.index(max(counts))]
    for left, right in combinations(chosen, 2):
        if not is_bounded(chosen[left], chosen[right]):
            a, b = (_clock_column(inputs[alias], alias, chosen[alias]) for alias in (left, right))
            raise InputError(
                f"the join of {left} and {right} has no bound on their times, so rows would be "
                f"kept forever; add AND {b} BETWEEN {a} - INTERVAL 20 SECONDS "
                f"AND {a} + INTERVAL 20 SECONDS"
            )
    return chosen


def _clock_column(relation: Relation, alias: str, clock: str) -> str:
    for column in relation.fields:
        if column.time is not None and column.time.clock == clock.split("\0", 1)[1]:
            return f"{alias}.{column.name}" + (".start" if column.time.width_us else "")
    return alias


def _read_condition(node: Ast, translate: Translator) -> list[tuple[str, str, int]]:
    """Read one condition as bounds (x, y, maximum of x - y)."""
    if not isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return []
    left, right = translate(node.left).time, translate(node.right).time
    if left is None or right is None or (left.width_us is None) != (right.width_us is None):
        return []
    if left.width_us is not None and not isinstance(node, exp.EQ):
        return []
    gap = right.offset_us - left.offset_us
    upper, lower = (left.clock, right.clock, gap), (right.clock, left.clock, -gap)
    if isinstance(node, exp.EQ):
        return [upper, lower]
    x, y, bound = upper if isinstance(node, exp.LT | exp.LTE) else lower
    return [(x, y, bound - int(isinstance(node, exp.LT | exp.GT)))]
