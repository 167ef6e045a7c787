"""SQL that compiles, and needs far too much time or memory for each row; and types that are deep.

The trial refuses the first, the compiler the second: nothing could read such types back.
"""

from tests.support.hostile_sql import HostileSql, column, levels, nest, windowed

_VIEWS = "LATERAL VIEW explode(sequence(1, 10000)) t AS x "
_MORE_VIEWS = _VIEWS + "LATERAL VIEW explode(sequence(1, 10000)) u AS y "
_SUM = "aggregate(sequence(1, 10000), 0, (a, y) -> a + y)"
_NESTED = "transform(sequence(1, 2000), x -> transform(sequence(1, 2000), y -> x + y))"

DEAR = tuple(
    HostileSql(f"dear-{name}", "memory", sql, True)
    for name, sql in {
        "repeated-repeat": column("repeat(repeat('x', 10000), 10000)"),
        "repeated-text": column("repeat(note, 10000)"),
        "repeated-text-unseen": column("length(repeat(note, 10000))"),
        "repeated-pad": column("lpad(note, 10000, repeat(note, 10000))"),
        "replaced-everywhere": column("length(replace(note, '1', repeat(note, 1000)))"),
        "repeated-translate": column("length(translate(repeat(note, 10000), 'x', 'y'))"),
        "array-of-texts": column("array_repeat(note, 10000)"),
        "array-of-arrays": column("array_repeat(array_repeat(array_repeat(1, 300), 300), 300)"),
        "flattened-arrays": column("size(flatten(array_repeat(array_repeat(note, 99), 9999)))"),
        "joined-array": column("length(array_join(array_repeat(note, 10000), note))"),
        "nested-lambdas": column(_NESTED),
        "nested-loops": column(f"aggregate(transform(sequence(1, 10000), x -> {_SUM}), 0, "
                               "(a, z) -> a + z)"),
        "nested-filter": column("size(filter(sequence(1, 10000), x -> exists(sequence(1, 10000), "
                                "y -> y * x = -1)))"),
        "doubled-in-lambda": column("aggregate(sequence(1, 40), 'x', (a, x) -> concat(a, a))"),
        "doubled-array": column("aggregate(sequence(1, 24), array(1), (a, x) -> "
                                "flatten(array(a, a)))"),
        "exploded-twice": f"SELECT ts, x, y FROM trades {_MORE_VIEWS}",
        "exploded-to-count": f"SELECT count(*) AS n FROM trades {_MORE_VIEWS}"
                             "GROUP BY window(ts, '1 second')",
        "exploded-to-join": f"SELECT a.x FROM (SELECT ts, x FROM trades {_VIEWS}) a JOIN "
                            f"(SELECT ts, x FROM trades {_VIEWS}) b ON a.ts = b.ts",
        "exploded-to-slides": f"SELECT x, count(*) AS n FROM trades {_VIEWS}"
                              "GROUP BY window(ts, '1 hour', '1 second'), x",
        "collected-slides": windowed("'1 hour', '1 second'",
                                     "collect_list(repeat(note, 1000)) AS n"),
    }.items()
)  # fmt: skip

DEEP = tuple(
    HostileSql(f"deep-{name}", "size", sql)
    for name, sql in {
        "arrays": column(nest("array({})", 70, "small")),
        "structs": column(nest("named_struct('a', {})", 150, "small")),
        "groups": windowed("'1 second'", f"collect_list({nest('array({})', 66, 'small')}) AS k"),
        "doubled-struct": levels("SELECT ts, named_struct('a', c, 'b', c) AS c FROM {}", 25,
                                 "(SELECT ts, small AS c FROM trades) q"),
    }.items()
)  # fmt: skip
