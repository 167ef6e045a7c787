"""Functions of the user: called in SQL, over Arrow arrays, on every worker."""

import pyarrow as pa
import pytest
from tests.support import functions
from tests.support.spark_harness import SECOND

from evenflow import run_local
from evenflow.errors import InputError
from evenflow.model.user_function import UserFunction
from evenflow.spark.protocol.registry import Registry
from evenflow.sql import QueryFailed, declare_function
from evenflow.sql.user_functions import UserCallable
from evenflow.storage.records import decode, encode

TIMES = pa.array([0, 12 * SECOND, 13 * SECOND, 61 * SECOND], pa.timestamp("us", "UTC"))
ROWS = {"t": pa.table({"ts": TIMES, "x": [1.5, 3.0, 1.0, None], "s": ["a", None, "c", "b"]})}
DECLARED: dict[str, tuple[UserCallable, str]] = {
    "doubled": (functions.doubled, "DOUBLE"),
    "bracketed": (functions.bracketed, "STRING"),
    "short": (functions.short, "DOUBLE"),
    "raising": (functions.raising, "DOUBLE"),
}


@pytest.mark.parametrize("batches", [1, 3])
def test_a_function_is_called_where_an_expression_may_stand(batches: int) -> None:
    def answer(sql: str) -> list[tuple[object, ...]]:
        found = run_local(sql, ROWS, time="ts", functions=DECLARED, batches=batches, workers=2)
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)

    assert answer("SELECT Doubled(x) AS y, bracketed(s, ts) AS b FROM t WHERE doubled(x) > 2") == [
        (3.0, "a<00:00.000000"),
        (6.0, None),
    ]
    windows = "SELECT doubled(sum(x)) AS y, max(doubled(x)) AS m FROM t GROUP BY window(ts, '1 m')"
    assert answer(windows.replace("1 m", "1 minute")) == [(11.0, 6.0), (None, None)]
    ranks = "SELECT doubled(row_number() OVER (PARTITION BY to_date(ts) ORDER BY ts)) AS r FROM t"
    assert answer(ranks) == [(2.0,), (4.0,), (6.0,), (8.0,)]


@pytest.mark.parametrize(("name", "error"), [("short", "TypeError"), ("raising", "ValueError")])
def test_a_function_that_fails_is_named_without_values_of_rows(name: str, error: str) -> None:
    with pytest.raises(QueryFailed) as failed:
        run_local(f"SELECT {name}(x) AS y FROM t", ROWS, time="ts", functions=DECLARED)
    assert str(failed.value) == f"the function tests.support.functions:{name} failed: {error}"


def test_what_cannot_be_a_function_is_refused() -> None:
    def local(values: pa.Array) -> pa.Array:
        return values

    for given, returns, said in (
        (local, "DOUBLE", "define it at the top of a module"),
        ("tests.support.functions:gone", "DOUBLE", "cannot be imported"),
        (functions.doubled, "DOBLE", "DOBLE"),
        (functions.doubled, "ARRAY<INT>", "use a scalar type"),
    ):
        with pytest.raises(InputError, match=said):
            declare_function("f", given, returns, ())
    with pytest.raises(InputError, match="exists already"):
        declare_function("upper", functions.doubled, "DOUBLE", ())
    with pytest.raises(InputError, match="calls gone, which is not supported"):
        run_local("SELECT gone(x) AS y FROM t", ROWS, time="ts", functions=DECLARED)


def test_a_registry_keeps_its_functions() -> None:
    registry = Registry(functions={"f": UserFunction("a.b:c", "DOUBLE")})
    assert decode(encode(registry), Registry) == registry
