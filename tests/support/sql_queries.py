"""Whole random queries of every class over the streams t and u and the reference table r."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.support.sql_grammar import FLOATS, INTS, NUMBERS, PLAIN, RULES, Expr, Grammar, Rule
from tests.support.sql_values import COLUMNS

# Whole queries test how clauses work together: their expressions seldom fail by themselves.
_LEFT_OUT = ("CAST", "to_date", "/", "%", "div", "substring", "upper", "lower", "LIKE", "round",
             "date_trunc", "{0}.", "sqrt", "*")  # fmt: skip
CALM: dict[str, list[Rule]] = {}
for _rule in RULES:
    if not any(word in _rule[1] for word in _LEFT_OUT):
        CALM.setdefault(_rule[0], []).append(_rule)
KEYS = ("STR", "I32", "BOOL", "I64", "DATE", "DEC", "F64", "NTZ", "STRUCT", "F32")
SPANS = ("1 second", "5 seconds", "7 seconds", "10 seconds", "1 minute", "1 day")


@dataclass(frozen=True)
class Query:
    """A query in parts, which can be left out one by one."""

    form: str
    template: str  # with {items}, {where}, {having}
    items: tuple[Expr, ...]
    where: str = ""
    having: str = ""

    @property
    def sql(self) -> str:
        listed = ", ".join(f"{item.text} AS c{at}" for at, item in enumerate(self.items))
        where = f"WHERE {self.where}" if self.where else ""
        having = f"HAVING {self.having}" if self.having else ""
        return " ".join(self.template.format(items=listed, where=where, having=having).split())

    @property
    def shape(self) -> str:
        return f"{self.form}: " + ", ".join(sorted(item.shape for item in self.items))

    def smaller(self) -> Iterator["Query"]:
        """Yield queries with one part less."""
        if self.having:
            yield replace(self, having="")
        if self.where:
            yield replace(self, where="")
        if len(self.items) > 1:
            for at in range(len(self.items)):
                yield replace(self, items=self.items[:at] + self.items[at + 1 :])
        for at, item in enumerate(self.items):
            for arg in item.args:
                if arg.args:  # a column in place of an operand
                    plain = Expr(COLUMNS[arg.kind][0], arg.kind)
                    if "a." in arg.text or "b." in arg.text:
                        plain = replace(plain, template=f"a.{plain.template}")
                    new = replace(item, args=tuple(plain if x is arg else x for x in item.args))
                    yield replace(self, items=(*self.items[:at], new, *self.items[at + 1 :]))


class QueryGrammar(Grammar):
    """Draws queries; every form is equally likely."""

    def query(self) -> Query:
        return self.rng.choice(FORMS)(self)

    def calm(self, kind: str, depth: int = 2) -> Expr:
        if depth <= 0 or self.rng.random() < 0.4 or kind not in CALM:
            return self.leaf(kind)
        _, template, operands = self.rng.choice(CALM[kind])
        return Expr(template, kind, tuple(self.calm(operand, depth - 1) for operand in operands))

    def items(self, low: int = 1) -> tuple[Expr, ...]:
        kinds = [self.rng.choice((*PLAIN, "STRUCT")) for _ in range(self.rng.randint(low, 4))]
        return tuple(self.calm(kind) for kind in kinds)

    def condition(self, *aliases: str) -> str:
        return qualified(self.calm("BOOL"), self.rng, aliases).text

    def maybe(self, text: str, chance: float = 0.5) -> str:
        return text if self.rng.random() < chance else ""

    def window(self, time: str) -> str:
        size, slide = (
            self.rng.choice(SPANS),
            self.rng.choice(("", ", '2 seconds'", ", '5 seconds'")),
        )
        if size == "1 second" or (slide and size == "1 day"):
            slide = ""
        start = ", '1 second'" if slide and self.rng.random() < 0.4 else ""
        return f"window({time}, '{size}'{slide}{start})"

    def aggregate(self) -> Expr:
        rng = self.rng
        choices: list[tuple[str, str, tuple[str, ...]]] = [
            ("count(*)", "I64", ()),
            ("count({0})", "I64", (*PLAIN, "STRUCT")),
            ("count(DISTINCT {0})", "I64", (*PLAIN, "STRUCT")),
            ("sum({0})", "", NUMBERS),
            ("avg({0})", "F64", (*INTS, *FLOATS)),
            ("min({0})", "", (*PLAIN, "STRUCT")),
            ("max({0})", "", (*PLAIN, "STRUCT")),
            (rng.choice(("stddev({0})", "stddev_pop({0})", "variance({0})", "var_pop({0})")), "F64",
             ("I32", "I64", "F64", "DEC")),
            (rng.choice(("bool_and({0})", "bool_or({0})", "count_if({0})")), "", ("BOOL",)),
        ]  # fmt: skip
        template, kind, operands = rng.choice(choices)
        args: tuple[Expr, ...] = (self.calm(rng.choice(operands), 1),) if operands else ()
        if rng.random() < 0.2:
            template += f" FILTER (WHERE {{{len(args)}}})"
            args = (*args, self.calm("BOOL", 1))
        return Expr(template, kind or args[0].kind, args)

    def aggregates(self) -> tuple[Expr, ...]:
        return tuple(self.aggregate() for _ in range(self.rng.randint(1, 4)))

    def key(self) -> str:
        return self.rng.choice(COLUMNS[self.rng.choice(KEYS)])


def qualified(e: Expr, rng: random.Random, aliases: tuple[str, ...]) -> Expr:
    """Give each column one of the aliases."""
    if not aliases:
        return e
    if e.args:
        return replace(e, args=tuple(qualified(arg, rng, aliases) for arg in e.args))
    return e if e.is_literal else replace(e, template=f"{rng.choice(aliases)}.{e.template}")


def _select(g: QueryGrammar) -> Query:
    return Query("select", "SELECT id, {items} FROM t {where}", g.items(), g.maybe(g.condition()))


def _aggregate(g: QueryGrammar) -> Query:
    keys = [g.key() for _ in range(g.rng.randint(0, 2))]
    shown = "".join(f", {key} AS k{at}" for at, key in enumerate(keys))
    group = ", ".join([g.window("ts"), *dict.fromkeys(keys)])
    window = g.rng.choice(("window", "window.start AS ws", "window.end AS we"))
    template = f"SELECT {window}{shown}, {{items}} FROM t {{where}} GROUP BY {group} {{having}}"
    having = g.maybe(f"{g.aggregate().text} IS NOT NULL", 0.3)
    return Query("aggregate", template, g.aggregates(), g.maybe(g.condition()), having)


def _union(g: QueryGrammar) -> Query:
    items = g.items()
    pairs = {"I32": "I64", "I8": "DEC", "F32": "F64", "DEC": "I32", "I64": "F64", "DEC ": "WIDE"}
    others = ", ".join(g.calm(pairs.get(i.kind, i.kind) if g.rng.random() < 0.4 else i.kind).text
                       + f" AS c{at}" for at, i in enumerate(items))  # fmt: skip
    inner = f"SELECT {{items}} FROM t {{where}} UNION ALL SELECT {others} FROM u"
    return Query("union", inner, items, g.maybe(g.condition()))


def _subquery(g: QueryGrammar) -> Query:
    inner = f"SELECT *, ts AS t0 FROM t {g.maybe('WHERE ' + g.condition())}"
    if g.rng.random() < 0.5:
        template = f"SELECT id, {{items}} FROM ({inner}) q {{where}}"
    else:
        template = f"WITH q AS ({inner}) SELECT id, {{items}} FROM q {{where}}"
    return Query("subquery", template, g.items(), g.maybe(g.condition()))


def _join_source(g: QueryGrammar) -> str:
    key, back, ahead = g.key(), g.rng.choice((0, 1, 5, 30)), g.rng.choice((0, 2, 10))
    bound = f"b.ts BETWEEN a.ts - INTERVAL {back} SECONDS AND a.ts + INTERVAL {ahead} SECONDS"
    more = g.maybe(f" AND {g.condition('a', 'b')}", 0.3)
    return f"t a JOIN {g.rng.choice('tu')} b ON a.{key} = b.{key} AND {bound}{more}"


def _join(g: QueryGrammar) -> Query:
    items = tuple(qualified(item, g.rng, ("a", "b")) for item in g.items())
    template = f"SELECT a.id AS x, b.id AS y, {{items}} FROM {_join_source(g)} {{where}}"
    return Query("join", template, items, g.maybe(g.condition("a", "b"), 0.3))


def _join_aggregate(g: QueryGrammar) -> Query:
    items = tuple(qualified(item, g.rng, ("a", "b")) for item in g.aggregates())
    template = f"SELECT window.start AS ws, {{items}} FROM {_join_source(g)} {{where}} GROUP BY "
    template += f"{g.window('a.ts')}, a.{g.key()}"
    return Query("join_aggregate", template, items, g.maybe(g.condition("a", "b"), 0.3))


def _reference(g: QueryGrammar) -> Query:
    items = tuple(qualified(item, g.rng, ("a", "b")) for item in g.items())
    key, word = g.key(), g.rng.choice(("JOIN", "LEFT JOIN"))
    more = g.maybe(f" AND {g.condition('a', 'b')}", 0.3)
    source = f"t a {word} r b ON a.{key} = b.{key}{more}"
    template = f"SELECT a.id AS x, b.id AS y, {{items}} FROM {source} {{where}}"
    return Query("reference", template, items, g.maybe(g.condition("a", "b"), 0.3))


def _levels(g: QueryGrammar) -> Query:
    key, span = g.key(), g.rng.choice(("1 second", "5 seconds"))
    inner = f"SELECT window AS w, {key} AS k, count(*) AS n, max(i1) AS m FROM t {{where}} "
    inner += f"GROUP BY window(ts, '{span}'), {key}"
    outer = (
        f"SELECT window.start AS ws, {{items}} FROM ({inner}) q GROUP BY window(w, '10 seconds')"
    )
    items = [Expr(t, "I64") for t in ("sum(n)", "max(m)", "min(n)", "count(DISTINCT k)", "avg(n)")]
    return Query("levels", outer, tuple(g.rng.sample(items, 2)), g.maybe(g.condition()))


FORMS = (_select, _aggregate, _aggregate, _union, _subquery, _join, _join_aggregate, _reference,
         _levels)  # fmt: skip
