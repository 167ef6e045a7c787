"""A greedy tenant beside an innocent one, on Spark."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.spark_harness import (
    BEGIN_US,
    SECOND,
    Play,
    batch_rows,
    closing,
    reports,
    rows_of,
    shifted,
    trades,
    write_batches,
)

from evenflow.errors import InputError

GREEDY = """SELECT a.symbol, a.ts AS t1, b.ts AS t2, a.qty FROM trades a JOIN trades b
    ON a.symbol = b.symbol AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 4 SECONDS"""
SUMS = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""


@pytest.mark.parametrize("limit", [{"result_bytes": "10 kB"}, {"cpu_share": 0.001}], ids=str)
def test_a_greedy_tenant_waits_and_every_answer_stays(
    spark: SparkSession, tmp_path: Path, limit: dict[str, Any]
) -> None:
    rng = np.random.default_rng(1)
    batches = [shifted(trades(rng, 150, span_s=4, late_s=2), 4 * at) for at in range(10)]
    batches.append(closing(batches[0], BEGIN_US + 3600 * SECOND))
    write_batches(tmp_path / "trades", batches)
    flow = Play(spark, tmp_path).flow()
    flow.tenant("acme", queries=2, **limit)
    flow.query("greedy", GREEDY, key="symbol", tenant="acme")
    flow.query("light", SUMS, key="symbol", tenant="acme")
    flow.query("innocent", SUMS, tenant="globex")
    run = flow.start(available_now=True)
    run.await_termination()
    assert run.quarantined == {}
    waited = {uid.partition("@")[0] for report in reports(run) for uid in report.waiting}
    assert "greedy" in waited
    assert waited <= {"greedy", "light"}, "others do not wait"
    assert "cpu_share" in limit or waited == {"greedy"}
    rows = pa.concat_tables(batches)
    for name, sql in (("greedy", GREEDY), ("light", SUMS), ("innocent", SUMS)):
        expected = batch_rows(spark, sql, {"trades": rows})
        if name != "greedy":  # the last row's window stays open
            last = max(row[0] for row in expected)
            expected = Counter({row: n for row, n in expected.items() if row[0] < last})
        assert rows_of(run.results(name)) == expected, name
    uses = {use.tenant: use for use in run.tenants}
    assert (uses["acme"].queries, uses["acme"].limits.queries) == (2, 2)
    assert uses["globex"].queries == 1
    with pytest.raises(InputError, match="tenant 'acme' has 3 queries and may have 2"):
        flow.query("third", SUMS, tenant="acme")
        flow.start(available_now=True)
