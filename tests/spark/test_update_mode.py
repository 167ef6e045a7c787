"""Update mode in a run with moves: the last versions are Spark's batch answer."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from tests.support.spark_harness import Play, batch_rows, cut, trades, write_batches

from evenflow.model import Plan, RoutingTable, hash_keys

TOTALS = "SELECT symbol, count(*) AS n, sum(qty) AS q FROM trades GROUP BY symbol"
WINDOWS = "SELECT window.start AS w, symbol, count(*) AS n FROM trades GROUP BY {w}, symbol"
WINDOWS = WINDOWS.format(w="window(ts, '10 seconds')")


def test_the_last_versions_of_a_run_with_moves_are_the_batch_answer(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng, batches = np.random.default_rng(4), 5
    rows = trades(rng, 300)
    write_batches(tmp_path / "trades", cut(rng, rows, batches))
    hashes = hash_keys(pa.array(["a", "b", "c", "d", "e'"]))
    play = Play(spark, tmp_path, workers=3)
    play.plans = {
        at: Plan(3, {}, {
            name: RoutingTable.from_entries(hashes, rng.integers(0, 3, len(hashes)).tolist())
            for name in ("totals", "windows")
        })
        for at in range(1, batches)
    }  # fmt: skip
    flow = play.flow()
    flow.query("totals", TOTALS, key="symbol", mode="update", ttl="1 day")
    flow.query("windows", WINDOWS, key="symbol", mode="update")
    run = play.run(flow)
    assert (dict(run.quarantined), dict(run.late), run.refused) == ({}, {}, ())
    assert any(report.handoffs for batch in run.batches for report in batch.reports)
    for name, sql in (("totals", TOTALS), ("windows", WINDOWS)):
        last = {}
        found = run.results(name).orderBy("version").collect()
        for row in found:
            values = row.asDict()
            last[values.get("w"), row.symbol] = tuple(
                values[column] for column in values if column not in ("version", "is_final")
            )
        assert len(found) > len(last), "no result was updated"
        assert Counter(last.values()) == batch_rows(spark, sql, {"trades": rows})
