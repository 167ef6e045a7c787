"""Aggregates of moments: variance, covariance, skewness, kurtosis.

The partial of each is the count, the means and the sums of products of deviations; two partials
merge exactly, so the result does not depend on how rows are divided.
"""

import pyarrow as pa

from evenflow.sql import types
from evenflow.sql.translate.aggregates import (
    OVER_MARK,
    Aggregate,
    AggregateCall,
    AggregateRule,
    PartialColumn,
    aggregate,
    braces,
    counter,
)

_NAN = "CAST('NaN' AS DOUBLE)"
_SAMPLE = "CASE WHEN {0}.n < 2 THEN NULL ELSE %s END"
_POPULATION = "CASE WHEN {0}.n < 1 THEN NULL ELSE %s END"


def _struct(*names: str) -> pa.DataType:
    return pa.struct([(name, types.DOUBLE) for name in names])


def _merge(fields: dict[str, str]) -> str:
    """Write the merge of two partials `a` and `b`; `{d}` and `{e}` are differences of means."""
    written = {
        name: text.replace("{d}", "(b.mean - a.mean)").replace("{n}", "(a.n + b.n)")
        for name, text in fields.items()
    }
    arms = ", ".join(
        f"'{name}': CASE WHEN a.n = 0 THEN b.{name} WHEN b.n = 0 THEN a.{name} ELSE {text} END"
        for name, text in written.items()
    )
    return f"lambda a, b: {{'n': a.n + b.n, {arms}}}"


_MEAN = "a.mean + {d} * b.n / {n}"
_M2 = "a.m2 + b.m2 + {d} * {d} * a.n * b.n / {n}"
_VARIANCE_MERGE = _merge({"mean": _MEAN, "m2": _M2})


def _variance(final: str) -> AggregateRule:
    def rule(call: AggregateCall) -> Aggregate:
        operand = f"CAST({call.number().sql} AS DOUBLE)"

        def update(over: str) -> str:
            count, mean = f"count({operand}){over}", _mean(operand, over)
            squares = f"var_pop({operand}){over} * {count}"
            return (
                f"{{'n': CAST({count} AS DOUBLE), 'mean': CAST(coalesce({mean}, 0) AS DOUBLE), "
                f"'m2': CAST(coalesce({squares}, 0) AS DOUBLE)}}"
            )

        merge = f"list_reduce(list({{}}), {braces(_VARIANCE_MERGE)})"
        kind = _struct("n", "mean", "m2")
        partial = PartialColumn(update(""), merge, kind, update(OVER_MARK))
        return Aggregate((partial,), final, types.DOUBLE)

    return rule


def _mean(sql: str, over: str = "") -> str:
    """Write the mean; that of equal values is their value, without the rounding of a quotient."""
    least, most, mean = (f"{name}({sql}){over}" for name in ("min", "max", "avg"))
    return f"CASE WHEN {least} = {most} THEN {least} ELSE {mean} END"


_PAIR_MERGE = (
    _merge({
        "mean": _MEAN, "m2": _M2, "other": "a.other + (b.other - a.other) * b.n / {n}",
        "o2": "a.o2 + b.o2 + (b.other - a.other) * (b.other - a.other) * a.n * b.n / {n}",
        "co": "a.co + b.co + {d} * (b.other - a.other) * a.n * b.n / {n}",
    })
)  # fmt: skip


def _pair(final: str) -> AggregateRule:
    """Return the rule of a statistic of two columns, over rows in which neither is NULL."""

    def rule(call: AggregateCall) -> Aggregate:
        values = [f"CAST({call.number(at).sql} AS DOUBLE)" for at in (0, 1)]
        x, y = (f"(CASE WHEN {values[1 - at]} IS NOT NULL THEN {values[at]} END)" for at in (0, 1))
        count = f"count({x})"
        parts = {
            "n": count, "mean": _mean(x), "m2": f"var_pop({x}) * {count}",
            "other": _mean(y), "o2": f"var_pop({y}) * {count}",
            "co": f"covar_pop({x}, {y}) * {count}",
        }  # fmt: skip
        fields = (f"'{n}': CAST(coalesce({sql}, 0) AS DOUBLE)" for n, sql in parts.items())
        merge = f"list_reduce(list({{}}), {braces(_PAIR_MERGE)})"
        partial = PartialColumn(f"{{{', '.join(fields)}}}", merge, _struct(*parts))
        return Aggregate((partial,), final, types.DOUBLE)

    return rule


def _count_pairs(call: AggregateCall) -> Aggregate:
    tests = " AND ".join(f"{call.number(at).sql} IS NOT NULL" for at in (0, 1))
    return Aggregate((counter(f"CASE WHEN {tests} THEN 1 END"),), "{0}", types.LONG)


_MOMENTS = ("n", "mean", "m2", "m3", "m4")
_D2, _NN = "{d} * {d} / ({n} * {n})", "{d} / {n}"
_MOMENTS_MERGE = _merge({
    "mean": _MEAN, "m2": _M2,
    "m3": "a.m3 + b.m3 + {d} * {d} * {d} * a.n * b.n * (a.n - b.n) / ({n} * {n}) "
          f"+ 3 * {_NN} * (a.n * b.m2 - b.n * a.m2)",
    "m4": "a.m4 + b.m4 + {d} * {d} * {d} * {d} * a.n * b.n * (a.n * a.n - a.n * b.n + b.n * b.n) "
          f"/ ({{n}} * {{n}} * {{n}}) + 6 * {_D2} * (a.n * a.n * b.m2 + b.n * b.n * a.m2) "
          f"+ 4 * {_NN} * (a.n * b.m3 - b.n * a.m3)",
})  # fmt: skip


def _moments(final: str) -> AggregateRule:
    def rule(call: AggregateCall) -> Aggregate:
        operand = f"CAST({call.number().sql} AS DOUBLE)"
        zeros = ", ".join(f"'{name}': CAST(0 AS DOUBLE)" for name in _MOMENTS[2:])
        one = f"{{'n': CAST(1 AS DOUBLE), 'mean': {operand}, {zeros}}}"
        none = ", ".join(f"'{name}': CAST(0 AS DOUBLE)" for name in _MOMENTS)
        update = (
            f"coalesce(list_reduce(list({one}) FILTER (WHERE {operand} IS NOT NULL), "
            f"{_MOMENTS_MERGE}), {{{none}}})"
        )
        merge = f"list_reduce(list({{}}), {braces(_MOMENTS_MERGE)})"
        partial = PartialColumn(update, merge, _struct(*_MOMENTS))
        return Aggregate((partial,), final, types.DOUBLE)

    return rule


_MOMENT_FINAL = "CASE WHEN {0}.n = 0 THEN NULL WHEN {0}.m2 = 0 THEN NULL ELSE %s END"
aggregate("stddev std stddev_samp", _variance(_SAMPLE % "sqrt({0}.m2 / ({0}.n - 1))"), 1)
aggregate("stddev_pop", _variance(_POPULATION % "sqrt({0}.m2 / {0}.n)"), 1)
aggregate("variance var_samp", _variance(_SAMPLE % "({0}.m2 / ({0}.n - 1))"), 1)
aggregate("var_pop", _variance(_POPULATION % "({0}.m2 / {0}.n)"), 1)
aggregate("covar_pop", _pair(_POPULATION % "({0}.co / {0}.n)"), 2)
aggregate("covar_samp", _pair(_SAMPLE % "({0}.co / ({0}.n - 1))"), 2)
_FLAT = "CASE WHEN {0}.n < 1 OR {0}.o2 = 0 THEN NULL %s END"  # no line through one x
_CORRELATION = "{0}.co / sqrt({0}.m2 * {0}.o2)"
aggregate(
    "corr",
    _pair(f"CASE WHEN {{0}}.n < 1 OR {{0}}.m2 * {{0}}.o2 = 0 THEN NULL ELSE {_CORRELATION} END"),
    2,
)
# The first argument is y, the second x.
aggregate("regr_count", _count_pairs, 2)
aggregate("regr_avgy", _pair(_POPULATION % "{0}.mean"), 2)
aggregate("regr_avgx", _pair(_POPULATION % "{0}.other"), 2)
aggregate("regr_syy", _pair(_POPULATION % "{0}.m2"), 2)
aggregate("regr_sxx", _pair(_POPULATION % "{0}.o2"), 2)
aggregate("regr_sxy", _pair(_POPULATION % "{0}.co"), 2)
aggregate("regr_slope", _pair(_FLAT % "ELSE {0}.co / {0}.o2"), 2)
aggregate("regr_intercept", _pair(_FLAT % "ELSE {0}.mean - {0}.co / {0}.o2 * {0}.other"), 2)
aggregate("regr_r2", _pair(
    _FLAT % f"WHEN {{0}}.m2 = 0 THEN 1 ELSE power({_CORRELATION}, 2)"), 2)  # fmt: skip
aggregate("skewness", _moments(
    _MOMENT_FINAL % "sqrt({0}.n) * {0}.m3 / sqrt({0}.m2 * {0}.m2 * {0}.m2)"), 1)  # fmt: skip
aggregate("kurtosis", _moments(
    _MOMENT_FINAL % "({0}.n * {0}.m4 / ({0}.m2 * {0}.m2) - 3)"), 1)  # fmt: skip
