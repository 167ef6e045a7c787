"""Late rows: dropped and counted alike, however the query is spread and its keys are moved."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.sql_cases import CASES
from tests.support.sql_oracle import CATALOG, SECOND, Cluster, Rows, made, same

from evenflow.sql import Engine, Program, compile_query

STATEFUL = ["tumbling", "sliding", "self-join", "three inputs", "join, then aggregate"]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made_engine = Engine()
    yield made_engine
    made_engine.close()


def hurried(given_rows: Rows, by_us: int) -> Rows:
    """Let the watermark run ahead, so that rows come late."""
    return Rows(given_rows.batches, [w + by_us for w in given_rows.watermarks])


@pytest.mark.parametrize("case", STATEFUL)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1), by_s=st.integers(1, 12))
def test_late_rows_do_not_depend_on_placement(
    engine: Engine, case: str, seed: int, by_s: int
) -> None:
    given_rows = hurried(made(np.random.default_rng(seed), 80, 6, 40), by_s * SECOND)
    program = compile_query("q", CASES[case][0], CATALOG)
    alone = compile_query("q", CASES[case][0], CATALOG).open(engine)
    results, late = [], 0
    for batch, watermark in zip(given_rows.batches, given_rows.watermarks, strict=True):
        out = alone.step(batch, watermark)
        results.append(out.rows)
        late += sum(out.late.values())
    results.append(alone.step({}, 1 << 60).rows)
    cluster = Cluster(program, engine, np.random.default_rng(seed))
    same(cluster.run(given_rows), pa.concat_tables(results))
    if _sees_each_row_once(program):
        assert cluster.late == late


def _sees_each_row_once(program: Program) -> bool:
    return program.key is not None or program.kind == "aggregate"


def test_a_row_is_late_only_when_all_its_windows_are_answered(engine: Engine) -> None:
    sql = """SELECT window.end AS e, count(*) AS n FROM trades
    GROUP BY window(ts, '10 seconds', '5 seconds')"""
    task = compile_query("q", sql, CATALOG).open(engine)
    schema = CATALOG.streams["trades"].schema
    at = {"ts": 104 * SECOND, "symbol": "a", "venue": 1, "price": 1.0, "qty": 1, "fee": None}
    row = pa.Table.from_pylist([at], schema=schema)
    first = task.step({"trades": row}, 107 * SECOND)  # [95, 105) is answered, [100, 110) is not
    assert (first.late, first.rows.num_rows) == ({}, 0)
    assert task.step({}, 110 * SECOND).rows["n"].to_pylist() == [1]
    assert task.step({"trades": row}, 110 * SECOND).late == {"trades": 1}
