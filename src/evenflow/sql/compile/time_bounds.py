"""Bounds on the differences between the event times of a join's inputs.

`a <= b + 20 s` and `b <= c` give `a <= c + 20 s`. Given and implied bounds determine how long a row
must be buffered, and how far behind the watermark the times of joined rows can be.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.relation import EventTime, Relation
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast

MAX_CLOCKS = 64  # event times of all inputs of one join
_UNBOUNDED_US, _FINITE_BELOW_US = 1 << 61, 1 << 60  # unbounded minus a bound is not finite


@dataclass(frozen=True)
class TimeBounds:
    """Bounds between clocks; the name of a clock starts with the alias of its input.

    max_difference_us  [x][y] is the maximum of x - y
    clocks             alias of an input -> the clock by which its rows are buffered
    input_lags_us      clock -> how far it can lag behind the watermark in its input
    """

    max_difference_us: Mapping[str, Mapping[str, int]]
    clocks: Mapping[str, str]
    input_lags_us: Mapping[str, int]

    @classmethod
    def from_conditions(
        cls, inputs: Mapping[str, Relation], conditions: Iterable[Ast], translate: Translator
    ) -> "TimeBounds":
        """Read the bounds of a join; refuse it if two inputs have no bound between them."""
        lags_us = {
            EventTime(clock).qualified(alias).clock: lag_us
            for alias, relation in inputs.items()
            for clock, lag_us in relation.lags_us.items()
        }
        if len(lags_us) > MAX_CLOCKS:
            raise InputError(
                f"the inputs of a join have {len(lags_us)} event-time columns, at most "
                f"{MAX_CLOCKS} are possible; select fewer of them in the subqueries"
            )
        bounds = {x: {y: 0 if x == y else _UNBOUNDED_US for y in lags_us} for x in lags_us}
        for node in conditions:
            for x, y, bound_us in _read_condition(node, translate):
                if x in lags_us and y in lags_us:
                    bounds[x][y] = min(bounds[x][y], bound_us)
        for via, x, y in product(lags_us, repeat=3):  # Floyd-Warshall: add the implied bounds
            bounds[x][y] = min(bounds[x][y], bounds[x][via] + bounds[via][y])
        return cls(bounds, _choose_clocks(inputs, bounds), lags_us)

    def retention_us(self, alias: str) -> int:
        """Return how far behind the watermark a row of this input can still match."""
        return self._lag_behind_others_us(self.clocks[alias])

    def output_lags_us(self) -> dict[str, int]:
        """Return how far each clock can lag behind the watermark in joined rows still to come."""
        lags_us = {
            clock: max(input_lag_us, self._lag_behind_others_us(clock))
            for clock, input_lag_us in self.input_lags_us.items()
        }
        return {clock: lag_us for clock, lag_us in lags_us.items() if lag_us < _FINITE_BELOW_US}

    def difference_range_us(self, from_alias: str, to_alias: str) -> tuple[int, int]:
        """Return the minimum and the maximum of the time of `to_alias` - `from_alias`."""
        a, b = self.clocks[from_alias], self.clocks[to_alias]
        return -self.max_difference_us[a][b], self.max_difference_us[b][a]

    def _lag_behind_others_us(self, clock: str) -> int:
        """Return how far `clock` can lag in a row that still joins a new row of another input."""
        return max(
            self.max_difference_us[other][clock] + self.input_lags_us[other]
            for alias, other in self.clocks.items()
            if alias != clock.split("\0", 1)[0]
        )


def _choose_clocks(
    inputs: Mapping[str, Relation], bounds: Mapping[str, Mapping[str, int]]
) -> dict[str, str]:
    """Choose for each input the clock that is bounded to the most clocks of other inputs."""

    def is_bounded(x: str, y: str) -> bool:
        return max(bounds[x][y], bounds[y][x]) < _FINITE_BELOW_US

    chosen: dict[str, str] = {}
    for alias in inputs:
        clocks = [x for x in bounds if x.startswith(f"{alias}\0")]
        if not clocks:
            raise InputError(f"{alias!r} does not select an event time; select it in the subquery")
        others = [x for x in bounds if x not in clocks]
        bounded = {clock: sum(is_bounded(clock, other) for other in others) for clock in clocks}
        chosen[alias] = max(clocks, key=bounded.__getitem__)
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
        return []  # only equal windows give a bound
    bound_us = right.offset_us - left.offset_us
    at_most, at_least = (left.clock, right.clock, bound_us), (right.clock, left.clock, -bound_us)
    if isinstance(node, exp.EQ):
        return [at_most, at_least]
    x, y, bound_us = at_most if isinstance(node, exp.LT | exp.LTE) else at_least
    return [(x, y, bound_us - int(isinstance(node, exp.LT | exp.GT)))]  # < is <= less 1 us
