"""Bounds between the clocks of a join's inputs, closed under addition (difference bounds).

`a <= b + 20 s` and `b <= c` give `a <= c + 20 s`. From the closure follow how long a row must wait
for partners, and how far behind the watermark the times of joined rows may be.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.expressions import Translator
from evenflow.sql.typed import Ast, Relation, Time, Typed

FAR = 1 << 61


@dataclass(frozen=True)
class Bounds:
    """`most[x][y]` is the most x - y can be; `clocks` is the clock chosen of each input."""

    most: Mapping[str, Mapping[str, int]]
    clocks: Mapping[str, str]
    own_lags: Mapping[str, int]

    @classmethod
    def of(
        cls, inputs: Mapping[str, Relation], conditions: Iterable[Ast], translate: Translator
    ) -> "Bounds":
        """Read the bounds of a join, or refuse it for want of one."""
        lags = {
            Time(base).of(alias).base: lag
            for alias, relation in inputs.items()
            for base, lag in relation.lags.items()
        }
        most = {x: {y: 0 if x == y else FAR for y in lags} for x in lags}
        for node in conditions:
            for x, y, bound in _read(node, translate):
                if x in lags and y in lags:
                    most[x][y] = min(most[x][y], bound)
        for via in lags:
            for x in lags:
                for y in lags:
                    most[x][y] = min(most[x][y], most[x][via] + most[via][y])
        return cls(most, _clocks(inputs, most), lags)

    def keep_us(self, alias: str) -> int:
        """Say how far behind the watermark a row of this input may be and still find a partner."""
        mine = self.clocks[alias]
        return max(
            self.most[other][mine] + self.own_lags[other]
            for at, other in self.clocks.items()
            if at != alias
        )

    def lags(self) -> dict[str, int]:
        """Say how far behind the watermark each clock may be in joined rows still to come."""
        found = {}
        for base, own in self.own_lags.items():
            alias = base.split("\0", 1)[0]
            others = [
                self.own_lags[clock] + self.most[clock][base]
                for at, clock in self.clocks.items()
                if at != alias
            ]
            lag = max(own, *others)
            if lag < FAR // 2:
                found[base] = lag
        return found

    def between(self, source: str, target: str) -> tuple[int, int]:
        """Return the least and the most of target - source."""
        a, b = self.clocks[source], self.clocks[target]
        return -self.most[a][b], self.most[b][a]


def _clocks(
    inputs: Mapping[str, Relation], most: Mapping[str, Mapping[str, int]]
) -> dict[str, str]:
    """Choose of each input the clock that is bound to the others'."""
    found: dict[str, str] = {}
    for alias, relation in inputs.items():
        bases = [Time(base).of(alias).base for base in relation.lags]
        if not bases:
            raise InputError(f"{alias!r} passes no event time on; select it in the subquery")
        others = [x for x in most if not x.startswith(f"{alias}\0")]

        def bound(base: str, others: list[str] = others) -> int:
            return sum(1 for x in others if max(most[base][x], most[x][base]) < FAR // 2)

        found[alias] = max(bases, key=bound)
    for one, other in combinations(found, 2):
        x, y = found[one], found[other]
        if max(most[x][y], most[y][x]) >= FAR // 2:
            a, b = _column(inputs, one, x), _column(inputs, other, y)
            raise InputError(
                f"the join of {one} and {other} has no bound on their times, so rows could "
                f"never be forgotten; add AND {b} BETWEEN {a} - INTERVAL 20 SECONDS "
                f"AND {a} + INTERVAL 20 SECONDS"
            )
    return found


def _column(inputs: Mapping[str, Relation], alias: str, base: str) -> str:
    wanted = base.split("\0", 1)[1]
    for entry in inputs[alias].fields:
        if entry.time is not None and entry.time.base == wanted:
            return f"{alias}.{entry.name}" + (".start" if entry.time.width_us else "")
    return alias


def _read(node: Ast, translate: Translator) -> list[tuple[str, str, int]]:
    """Read what one condition says: triples x, y, most of x - y."""
    if not isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return []
    left, right = _time(node.left, translate), _time(node.right, translate)
    if left is None or right is None or (left.width_us is None) != (right.width_us is None):
        return []
    if left.width_us is not None and not isinstance(node, exp.EQ):
        return []
    gap = right.offset_us - left.offset_us
    below = [(left.base, right.base, gap)]
    above = [(right.base, left.base, -gap)]
    if isinstance(node, exp.EQ):
        return below + above
    strict = 1 if isinstance(node, exp.LT | exp.GT) else 0
    x, y, bound = (below if isinstance(node, exp.LT | exp.LTE) else above)[0]
    return [(x, y, bound - strict)]


def _time(node: Ast, translate: Translator) -> Time | None:
    value: Typed = translate(node)
    return value.time
