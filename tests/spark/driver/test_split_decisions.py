"""The controller splits a hot key of a running flow; results stay the same. Without Spark."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import BEGIN_US, SECOND

from evenflow.model import hash_keys
from evenflow.planning.controller import Balancing
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import StreamSpec

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("x", pa.int64())])
SQL = (
    "SELECT p.ts, p.k, p.x, q.x AS y FROM trades p JOIN trades q ON p.k = q.k AND q.ts >= p.ts "
    "AND q.ts <= p.ts + INTERVAL 6 SECONDS WHERE p.x + 990 < q.x"
)
BATCHES, ROWS, WORKERS = 10, 900, 4


def rows_of(batch: int, hot: str | None) -> pa.Table:
    """A second of trades, two thirds of them of one key."""
    rng = np.random.default_rng(batch)
    names = [f"k{key}" for key in rng.integers(0, 60, ROWS)]
    chosen = rng.random(ROWS) < 0.66
    keys = [hot if is_hot else name for is_hot, name in zip(chosen, names, strict=True)]
    times = BEGIN_US + batch * SECOND + np.sort(rng.integers(0, SECOND, ROWS))
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "k": pa.array(keys, pa.string()),
            "x": rng.integers(0, 1000, ROWS),
        },
        schema=SCHEMA,
    )


def play(folder: Path, hot: str | None, workers: int, config: Balancing) -> Local:
    local = Local(
        folder,
        {"trades": StreamSpec(SCHEMA, "ts", 0)},
        [Submission("query", "pairs", SQL, ("k",))],
        workers=workers,
    )
    local.attend(Balancer(config))
    for batch in range(BATCHES):
        local.batch({"trades": rows_of(batch, hot)})
    local.rest()
    assert local.committer.checkpoint.head().quarantined == {}
    return local


@pytest.mark.parametrize("hot", ["hot", None])
def test_a_hot_key_of_a_self_join_is_split_and_results_stay(
    tmp_path: Path, hot: str | None
) -> None:
    """NULL equals nothing, so a hot NULL has no pairs: its rows may be split, or need not."""
    calm = play(tmp_path / "calm", hot, 1, Balancing.off())
    config = Balancing(min_excess=0.0, min_gain=0.01, max_imbalance=0.2)
    split = play(tmp_path / "split", hot, WORKERS, config)
    assert split.results("pairs") == calm.results("pairs")
    assert calm.results("pairs")
    balancer = split.committer.balancer
    made = [decision for decision in balancer.decisions if decision.plan is not None]
    refused = [d.message for d in balancer.decisions if d.reason == "refused"]
    assert not refused
    if hot is None:
        return
    assert any("key hot is " in d.message and "split over" in d.message for d in made), [
        decision.message for decision in balancer.decisions
    ]
    key = int(hash_keys(pa.array([hot], pa.string()))[0])
    assert len(balancer.snapshots[-1].next_plan.owners_of_key("pairs", key)) > 1
    assert balancer.snapshots[-1].queries["pairs"].split_streams == ("trades",)
