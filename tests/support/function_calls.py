"""Calls of every function on operands of random kinds: what Spark refuses must be refused."""

import random

from tests.support.function_cases import INEXACT
from tests.support.sql_grammar import Expr, Grammar
from tests.support.sql_values import COLUMNS

from evenflow.sql.translate.registry import FUNCTIONS

_TOPICS = {"aggregates", "lambdas"}  # these have a grammar of their own
_OTHER_SYNTAX = {"cast", "try_cast", "extract", "window_time"}
_WITHOUT_MAPS = {"array", "array_repeat", "named_struct", "struct"}  # Arrow cannot have them there
_CONSTANTS = (
    "0", "1", "2", "-1", "7", "300", "2L", "1.5", "0.5D", "true", "NULL", "''", "'a'", "'ab'",
    "','", "'UTC'", "'Europe/Berlin'", "'yyyy-MM-dd'", "'yyyy-MM-dd HH:mm:ss'", "'MM'", "'year'",
    "'week'", "'hour'", "'%s'", "'%d|%6s'", "'[a-z]+'", "'(.)'", "'$.a'", "'utf-8'", "'12'",
    "'x INT'", "'Mon'", "DATE '2024-02-29'", "TIMESTAMP '2024-03-31 01:00:00'",
)  # fmt: skip
_KINDS = [kind for kind in COLUMNS if kind != "STRUCT"]


class CallGrammar:
    """Draws calls; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self.grammar = Grammar(seed)
        self.rng: random.Random = self.grammar.rng
        self.functions = [
            f for f in FUNCTIONS.values() if f.topic not in _TOPICS and f.name not in _OTHER_SYNTAX
        ]

    def call(self) -> Expr:
        """Draw a function, a number of operands it takes, and operands."""
        function = self.rng.choice(self.functions)
        counts = [count for count in function.overloads if count >= 0] or [1, 2, 3]
        maps = function.name not in _WITHOUT_MAPS
        args = tuple(self._operand(at, maps=maps) for at in range(self.rng.choice(counts)))
        places = ", ".join(f"{{{at}}}" for at in range(len(args)))
        return Expr(f"{function.name}({places})", "ANY", args)

    def _operand(self, at: int, *, maps: bool) -> Expr:
        chance = self.rng.random()
        if chance < (0.15 if at == 0 else 0.5):
            return Expr(self.rng.choice(_CONSTANTS), "CONST")
        if chance < 0.85:
            return self.grammar.leaf(self.rng.choice(_KINDS))
        kind = self.rng.choice(("I32", "STR", "F64", "DATE"))
        if maps and self.rng.random() < 0.3:
            return Expr("map({0}, {1})", "MAP", (self.grammar.leaf("I32"), self.grammar.leaf(kind)))
        return Expr("array({0}, {1})", f"ARRAY {kind}",
                    (self.grammar.leaf(kind), self.grammar.leaf(kind)))  # fmt: skip


def is_inexact(template: str) -> bool:
    """Tell whether Java and C differ in the last digit of a function."""
    return template.startswith(INEXACT)
