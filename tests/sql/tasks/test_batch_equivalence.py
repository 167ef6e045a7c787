"""For every class of query: union of what the batches gave = the batch answer."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.sql_cases import CASES
from tests.support.sql_oracle import CATALOG, Cluster, Rows, batch_answer, made, rows, same

from evenflow.sql import Engine, compile_query


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    shared = Engine()
    yield shared
    shared.close()


@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(given_rows=rows(), seed=st.integers(0, 2**32 - 1))
def test_batches_add_up_to_the_batch_answer(
    engine: Engine, case: str, given_rows: Rows, seed: int
) -> None:
    sql, batch_sql = CASES[case]
    program = compile_query("q", sql, CATALOG)
    cluster = Cluster(program, engine, np.random.default_rng(seed))
    got = cluster.run(given_rows)
    assert cluster.late == 0
    same(got, batch_answer(batch_sql or sql, given_rows))


@pytest.mark.parametrize("case", ["self-join", "three inputs", "sliding", "join, then aggregate"])
def test_many_batches_with_merges_moves_and_restarts_add_up(engine: Engine, case: str) -> None:
    sql, batch_sql = CASES[case]
    program = compile_query("q", sql, CATALOG)
    given_rows = made(np.random.default_rng(1), 1000, 40, 200)
    cluster = Cluster(program, engine, np.random.default_rng(2))
    got = cluster.run(given_rows)
    assert len(got) > 50
    same(got, batch_answer(batch_sql or sql, given_rows))
