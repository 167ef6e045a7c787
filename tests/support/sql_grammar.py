"""A grammar of typed Spark SQL: random expressions and whole queries, as trees that can shrink."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.support.function_grammar import function_rules
from tests.support.sql_values import COLUMNS

INTS = ("I8", "I16", "I32", "I64")
FLOATS = ("F32", "F64")
NUMBERS = (*INTS, *FLOATS, "DEC", "WIDE")
PLAIN = ("BOOL", *NUMBERS, "STR", "DATE", "TS", "NTZ")
TYPES = {
    "BOOL": "BOOLEAN", "I8": "TINYINT", "I16": "SMALLINT", "I32": "INT", "I64": "BIGINT",
    "F32": "FLOAT", "F64": "DOUBLE", "DEC": "DECIMAL(10,2)", "WIDE": "DECIMAL(38,6)",
    "STR": "STRING", "DATE": "DATE", "TS": "TIMESTAMP", "NTZ": "TIMESTAMP_NTZ",
}  # fmt: skip
LITERALS = {
    "BOOL": ("true", "false"),
    "I8": ("CAST(1 AS TINYINT)", "CAST(-128 AS TINYINT)"),
    "I16": ("CAST(7 AS SMALLINT)", "CAST(-32768 AS SMALLINT)"),
    "I32": ("0", "1", "-1", "3", "2147483647", "-2147483648"),
    "I64": ("0L", "1L", "-3L", "9223372036854775807L", "4294967296"),
    "F32": ("CAST(1.5 AS FLOAT)", "CAST(-0.0D AS FLOAT)", "CAST(0.1D AS FLOAT)"),
    "F64": ("0.0D", "-0.0D", "1.005D", "2.5D", "1e22", "1e308", "-3e0"),
    "DEC": ("1.005", "0.5", "99999999.99", "0.00", "-2.45"),
    "WIDE": ("CAST(0.145 AS DECIMAL(38,6))", "12345678901234567890.123456"),
    "STR": ("''", "'a'", "'ß'", "'日本'", "' 12 '", "'it''s'", "'2024-02-29'", "'x%'"),
    "DATE": ("DATE '2024-02-29'", "DATE '1970-01-01'", "DATE '1582-10-15'"),
    "TS": ("TIMESTAMP '2024-03-31 01:00:00'", "TIMESTAMP '1969-12-31 23:59:59.999999'"),
    "NTZ": ("TIMESTAMP_NTZ '2024-10-27 00:30:00'", "CAST('2024-02-29 01:02:03' AS TIMESTAMP_NTZ)"),
    "STRUCT": (),
}


@dataclass(frozen=True)
class Expr:
    """A node: its text with `{0}`, `{1}` for the operands; a leaf has none."""

    template: str
    kind: str
    args: tuple["Expr", ...] = ()

    @property
    def text(self) -> str:
        return (
            self.template.format(*(arg.text for arg in self.args)) if self.args else self.template
        )

    @property
    def is_literal(self) -> bool:
        return not self.args and self.template not in _COLUMN_NAMES

    def nodes(self) -> Iterator["Expr"]:
        """Yield all nodes, operands first."""
        for arg in self.args:
            yield from arg.nodes()
        yield self

    @property
    def shape(self) -> str:
        """The node with the kinds of its operands."""
        return self.template.format(*(arg.kind for arg in self.args)) if self.args else self.kind


_COLUMN_NAMES = {name for names in COLUMNS.values() for name in names}
Rule = tuple[str, str, tuple[str, ...]]  # result, template, operands


def _rules() -> list[Rule]:
    found: list[Rule] = []

    def add(result: str, template: str, *operands: str) -> None:
        found.append((result, template, operands))

    for kind in NUMBERS:
        for operator in "+-*":
            add(kind, f"({{0}} {operator} {{1}})", kind, kind)
        add(kind, "(-{0})", kind)
        add(kind, "abs({0})", kind)
        add(kind, "({0} % {1})", kind, kind)
        add("F64", "({0} / {1})", kind, "F64")
        add("F64", "try_divide({0}, {1})", "F64", kind)
        add("BOOL", "isnan({0})", kind)
    pairs = [("I8", "I32", "I32"), ("I32", "I64", "I64"), ("I16", "I64", "I64"),
             ("F32", "F64", "F64"), ("I64", "F32", "F64"), ("DEC", "I32", "DEC"),
             ("I8", "DEC", "DEC"), ("DEC", "F64", "F64"), ("DEC", "WIDE", "WIDE"),
             ("I32", "F64", "F64")]  # fmt: skip
    for left, right, result in pairs:
        for operator in "+-*":
            add(result, f"({{0}} {operator} {{1}})", left, right)
        for operator in ("=", "<", ">=", "<>", "<=>"):
            add("BOOL", f"({{0}} {operator} {{1}})", left, right)
        add(result, "coalesce({0}, {1})", left, right)
        add(result, "greatest({0}, {1})", left, right)
        add(result, "if({0}, {1}, {2})", "BOOL", left, right)
    for left in INTS:
        add("F64", "({0} / {1})", left, "I32")
        add("I64", "({0} div {1})", left, "I64")
        add(left, "pmod({0}, {1})", left, left)
        add("I64", "({0} div {1})", "I64", left)
    for kind in PLAIN:
        for operator in ("=", "<>", "<", "<=", ">", ">=", "<=>"):
            add("BOOL", f"({{0}} {operator} {{1}})", kind, kind)
        add("BOOL", "({0} BETWEEN {1} AND {2})", kind, kind, kind)
        add("BOOL", "({0} NOT BETWEEN {1} AND {2})", kind, kind, kind)
        add("BOOL", "({0} IN ({1}, {2}))", kind, kind, kind)
        add("BOOL", "({0} NOT IN ({1}, {2}, NULL))", kind, kind, kind)
        add("BOOL", "({0} IS NULL)", kind)
        add("BOOL", "({0} IS NOT NULL)", kind)
        add(kind, "coalesce({0}, {1})", kind, kind)
        add(kind, "nullif({0}, {1})", kind, kind)
        add(kind, "greatest({0}, {1}, {2})", kind, kind, kind)
        add(kind, "least({0}, {1})", kind, kind)
        add(kind, "if({0}, {1}, {2})", "BOOL", kind, kind)
        add(kind, "nvl2({0}, {1}, {2})", "STR", kind, kind)
        add(kind, "CASE WHEN {0} THEN {1} END", "BOOL", kind)
        add(kind, "CASE {0} WHEN {1} THEN {2} ELSE {3} END", kind, kind, kind, kind)
        add(kind, "CASE WHEN {0} THEN {1} WHEN {2} THEN {3} ELSE NULL END",
            "BOOL", kind, "BOOL", kind)  # fmt: skip
    for source in PLAIN:
        for kind in PLAIN:
            if source != kind:
                add(kind, f"CAST({{0}} AS {TYPES[kind]})", source)
                add(kind, f"TRY_CAST({{0}} AS {TYPES[kind]})", source)
    for target in ("DECIMAL(5,0)", "DECIMAL(20,10)", "DECIMAL(38,18)", "DECIMAL(3,3)"):
        for source in (*NUMBERS, "STR"):
            add("WIDE", f"CAST({{0}} AS {target})", source)
    for kind in NUMBERS:
        for digits in ("", ", 0", ", 1", ", 2", ", 5"):
            add(kind, f"round({{0}}{digits})", kind)
        add("I64", "ceil({0})", kind)
        add("I64", "floor({0})", kind)
        add("F64", "sqrt({0})", kind)
    for template in ("({0} AND {1})", "({0} OR {1})"):
        found += [("BOOL", template, ("BOOL", "BOOL"))] * 3
    for template in ("(NOT {0})", "({0} IS TRUE)", "({0} IS NOT FALSE)", "({0} IS FALSE)"):
        add("BOOL", template, "BOOL")
    for template in ("upper({0})", "lower({0})", "md5({0})", "substring({0}, 1, 1)",
                     "substring({0}, 2)", "substring({0}, 2, -1)", "substring({0}, 3, 100)",
                     "substring({0}, 0, 2)", "substring({0}, 1, 0)"):  # fmt: skip
        add("STR", template, "STR")
    add("STR", "({0} || {1})", "STR", "STR")
    add("STR", "concat({0}, {1}, {2})", "STR", "STR", "STR")
    add("I32", "length({0})", "STR")
    for name in ("startswith", "endswith", "contains"):
        add("BOOL", f"{name}({{0}}, {{1}})", "STR", "STR")
    for pattern in ("%", "", "a%", "%b_c", "_", "%ß%", "a\\\\%b%", "日%"):
        add("BOOL", f"({{0}} LIKE '{pattern}')", "STR")
        add("BOOL", f"({{0}} NOT LIKE '{pattern}')", "STR")
    for kind in ("TS", "NTZ", "DATE"):
        for part in ("year", "month", "day", "hour", "minute", "second"):
            add("I32", f"{part}({{0}})", kind)
        for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second"):
            add("TS" if kind == "DATE" else kind, f"date_trunc('{unit}', {{0}})", kind)
        add("DATE", "to_date({0})", kind)
        for span in ("1 DAY", "90 MINUTES", "1 SECOND", "'1.5' SECOND"):
            add(kind, f"({{0}} + INTERVAL {span})", kind)
            add(kind, f"({{0}} - INTERVAL {span})", kind)
    for name in ("unix_micros", "unix_millis", "unix_seconds"):
        add("I64", f"{name}({{0}})", "TS")
    add("DATE", "to_date({0})", "STR")
    for left, right in (("TS", "NTZ"), ("TS", "DATE"), ("NTZ", "DATE")):
        for operator in ("=", "<", ">="):
            add("BOOL", f"({{0}} {operator} {{1}})", left, right)
    add("I32", "{0}.x", "STRUCT")
    add("STR", "{0}.y", "STRUCT")
    add("F64", "{0}.z.v", "STRUCT")
    add("BOOL", "({0} IS NULL)", "STRUCT")
    add("BOOL", "({0} = {1})", "STRUCT", "STRUCT")
    add("STRUCT", "coalesce({0}, {1})", "STRUCT", "STRUCT")
    add("STRUCT", "CASE WHEN {0} THEN {1} END", "BOOL", "STRUCT")
    return found


RULES = [*_rules(), *function_rules()]
BY_RESULT: dict[str, list[Rule]] = {}
for _rule in RULES:
    BY_RESULT.setdefault(_rule[0], []).append(_rule)
# Java and C differ in the last digit of these: only the outermost call, compared to 1e-13.
INEXACT = ("exp({0})", "ln({0})", "power({0}, {1})")


class Grammar:
    """Draws expressions and queries; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311

    def expression(self, depth: int = 3) -> Expr:
        """Draw an expression; every rule of the grammar is equally likely at the root."""
        if self.rng.random() < 0.02:
            template = self.rng.choice(INEXACT)
            return Expr(template, "F64", tuple(
                self.of_kind(self.rng.choice(("F64", "I32", "F32")), 1)
                for _ in range(template.count("{")))
            )  # fmt: skip
        return self._build(self.rng.choice(RULES), depth)

    def _build(self, rule: Rule, depth: int) -> Expr:
        kind, template, operands = rule
        args = tuple(self.of_kind(operand, depth - 1) for operand in operands)
        return Expr(template, kind, args)

    def of_kind(self, kind: str, depth: int) -> Expr:
        """Draw an expression of a kind."""
        if depth <= 0 or self.rng.random() < 0.35 or kind not in BY_RESULT:
            return self.leaf(kind)
        return self._build(self.rng.choice(BY_RESULT[kind]), depth)

    def leaf(self, kind: str) -> Expr:
        """Draw a column, a constant or NULL."""
        chance = self.rng.random()
        if chance < 0.7 or not LITERALS[kind]:
            return Expr(self.rng.choice(COLUMNS[kind]), kind)
        if chance < 0.95:
            return Expr(self.rng.choice(LITERALS[kind]), kind)
        return Expr(f"CAST(NULL AS {TYPES[kind]})", kind)


def with_leaves(node: Expr, leaves: dict[int, Expr]) -> Expr:
    """Replace operands of a node by their positions."""
    return replace(node, args=tuple(leaves.get(at, arg) for at, arg in enumerate(node.args)))
