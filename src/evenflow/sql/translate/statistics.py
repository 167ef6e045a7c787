"""Aggregates of moments: variance, covariance, skewness, kurtosis.

The partial of each is the count, the means and the sums of products of deviations; two partials
merge exactly, so the result does not depend on how rows are divided.
"""

import pyarrow as pa

from evenflow.sql import types
from evenflow.sql.translate.aggregates import (
    Aggregate,
    AggregateCall,
    AggregateRule,
    PartialColumn,
    aggregate,
    braces,
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
        count, variance, mean = f"count({operand})", f"var_pop({operand})", _mean(operand)
        update = (
            f"{{'n': CAST({count} AS DOUBLE), 'mean': CAST(coalesce({mean}, 0) AS DOUBLE), "
            f"'m2': CAST(coalesce({variance} * {count}, 0) AS DOUBLE)}}"
        )
        merge = f"list_reduce(list({{}}), {braces(_VARIANCE_MERGE)})"
        partial = PartialColumn(update, merge, _struct("n", "mean", "m2"))
        return Aggregate((partial,), final, types.DOUBLE)

    return rule


def _mean(sql: str) -> str:
    """Write the mean; that of equal values is their value, without the rounding of a quotient."""
    return f"CASE WHEN min({sql}) = max({sql}) THEN min({sql}) ELSE avg({sql}) END"


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
aggregate("skewness", _moments(
    _MOMENT_FINAL % "sqrt({0}.n) * {0}.m3 / sqrt({0}.m2 * {0}.m2 * {0}.m2)"), 1)  # fmt: skip
aggregate("kurtosis", _moments(
    _MOMENT_FINAL % "({0}.n * {0}.m4 / ({0}.m2 * {0}.m2) - 3)"), 1)  # fmt: skip
