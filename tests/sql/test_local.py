"""`run_local` gives the batch answer, however the rows are cut and split."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from tests.support.sql_cases import CASES
from tests.support.sql_oracle import TABLES, batch_answer, made, same

import evenflow
from evenflow.errors import InputError
from evenflow.sql import QueryFailed

GIVEN = made(np.random.default_rng(3), 120, 4, 40)
STREAMS = {name: GIVEN.all(name) for name in ("trades", "quotes")}
TIMES = {"trades": "ts", "quotes": "qt"}


@pytest.mark.parametrize(("batches", "workers"), [(1, 1), (5, 1), (5, 3)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_class_of_query_gives_the_batch_answer(case: str, batches: int, workers: int) -> None:
    sql, batch_sql = CASES[case]
    got = evenflow.run_local(
        sql,
        STREAMS,
        time=TIMES,
        watermark="5 seconds",
        tables=TABLES,
        batches=batches,
        workers=workers,
    )
    same(got, batch_answer(batch_sql or sql, GIVEN))


def seconds(*values: int | None) -> pa.Array:
    return pa.array([None if v is None else v * 1_000_000 for v in values]).cast(
        pa.timestamp("us", "UTC")
    )


def test_rows_behind_the_watermark_of_earlier_batches_are_dropped() -> None:
    rows = pa.table({"ts": seconds(1, 30, 2, 31)})
    sql = "SELECT window.start AS s, count(*) AS n FROM t GROUP BY window(ts, '10 seconds')"

    def counts(**options: object) -> list[int]:
        return sorted(evenflow.run_local(sql, {"t": rows}, time="ts", **options)["n"].to_pylist())  # type: ignore[arg-type]

    assert counts() == [2, 2]
    assert counts(batches=2) == [1, 2]
    assert counts(batches=2, watermark="25 seconds") == [2, 2]


def test_rows_without_a_valid_time_are_set_aside_as_in_a_run() -> None:
    rows = pa.table({"ts": seconds(None, 1), "x": [1, 2]})
    assert evenflow.run_local("SELECT x FROM t", {"t": rows}, time="ts")["x"].to_pylist() == [2]


def test_other_arrow_types_are_read_as_the_types_of_spark() -> None:
    times = pa.array([1_999], pa.timestamp("ns", "America/New_York"))
    rows = pa.table({"ts": times, "s": pa.array(["a"]).dictionary_encode()})
    got = evenflow.run_local("SELECT ts, s FROM t", {"t": rows}, time="ts")
    assert got.schema.types == [pa.timestamp("us", "UTC"), pa.string()]
    assert got["ts"].cast(pa.int64()).to_pylist() == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batches": 0}, "at least 1"),
        ({"workers": 0}, "at least 1"),
        ({"time": {"other": "ts"}}, "no event-time column"),
        ({"time": {"t": "ts", "other": "ts"}}, "names 'other', which is not among the streams"),
        ({"tables": {"r": [1]}}, "'r' must be a pyarrow.Table, got list"),
        ({"time": "x"}, "cast it to TIMESTAMP"),
        ({"time": "no"}, "is not in the stream"),
        ({"watermark": "soon"}, "not a duration"),
        ({"sql": "SELECT x FROM nowhere"}, "nowhere"),
    ],
)
def test_input_errors_say_what_to_write(options: dict[str, object], message: str) -> None:
    rows = pa.table({"ts": seconds(1), "x": [1]})
    arguments: dict[str, object] = {"sql": "SELECT x FROM t", "time": "ts", **options}
    with pytest.raises(InputError, match=message):
        evenflow.run_local(streams={"t": rows}, **arguments)  # type: ignore[arg-type]


def test_a_row_that_fails_fails_the_query() -> None:
    rows = pa.table({"ts": seconds(1), "x": [0]})
    with pytest.raises(QueryFailed, match="division by zero"):
        evenflow.run_local("SELECT 1 / x AS y FROM t", {"t": rows}, time="ts")


def test_it_needs_no_spark() -> None:
    code = "import evenflow, sys; evenflow.run_local; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
