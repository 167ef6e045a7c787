"""LEFT, RIGHT and FULL OUTER, LEFT SEMI and LEFT ANTI joins of two streams.

A row without a match is known once no row that matches it can come any more: then it is *settled*.
The rows that could match it are kept until then, so settling needs no note of earlier matches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.errors import InputError
from evenflow.sql.compile.time_bounds import TimeBounds
from evenflow.sql.relation import ColumnRef
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

_KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")


@dataclass
class OuterClause:
    """An outer join in FROM: its kind, the inputs whose rows are kept, and the conditions of ON."""

    kind: str
    kept: tuple[str, ...]
    conjuncts: list[Ast]
    on: list[TypedExpr] = field(default_factory=list)  # translated

    @property
    def sole_kept(self) -> tuple[str, ...]:
        """The input that is in every row of the result; FULL has none."""
        return self.kept if len(self.kept) == 1 else ()

    def prefilters(self, alias: str, where: list[TypedExpr]) -> list[TypedExpr]:
        """Return the conditions on one input alone that its rows must fulfil to be buffered."""
        if self.kind == "FULL":
            return []
        conditions = where if alias in self.kept else self.on
        return [condition for condition in conditions if condition.inputs == {alias}]

    def lineage(self, lineage: Mapping[str, ColumnRef]) -> dict[str, ColumnRef]:
        """Return the columns that are copied into every row; others can be NULL instead."""
        return {name: column for name, column in lineage.items() if column[0] in self.sole_kept}

    def settle_us(self, alias: str, bounds: TimeBounds) -> int | None:
        """Return how far behind the watermark a row is settled; None if it need not be.

        Then neither a row that matches it nor another row of its time can come.
        """
        return bounds.output_lags_us()[bounds.clocks[alias]] if alias in self.kept else None

    def retention_us(self, alias: str, bounds: TimeBounds) -> int:
        """Return how long a row is buffered: until all rows that it can match are settled."""
        needed = [bounds.retention_us(alias)]
        for kept in self.kept:
            settle_us = self.settle_us(kept, bounds) or 0
            low_us = 0 if kept == alias else bounds.difference_range_us(kept, alias)[0]
            needed.append(settle_us - low_us)
        return max(needed)


def join_kind(join: Ast) -> str:
    """Return the kind of a JOIN: INNER, LEFT, RIGHT, FULL, SEMI or ANTI."""
    side, kind = join.args.get("side") or "", join.args.get("kind") or ""
    if kind in ("SEMI", "ANTI"):
        return str(kind) if side in ("", "LEFT") else f"{side} {kind}"
    if kind not in ("", "INNER", "OUTER", "CROSS"):
        return f"{side} {kind}".strip()
    return str(side) or "INNER"


def check_join(join: Ast) -> None:
    """Refuse what no join can have here."""
    if join.args.get("using") and join_kind(join) == "FULL":
        raise InputError("FULL JOIN ... USING is not supported; write ON a.column = b.column")
    method = join.args.get("method")
    if method or join_kind(join) not in _KINDS:
        join_type = " ".join(word for word in (method, join_kind(join)) if word)
        raise InputError(f"{join_type} JOIN is not supported; write JOIN or LEFT JOIN")
