"""PKG, D-Choices and W-Choices on a running flow: aggregates stay right, joins are refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.driver.test_split_decisions import SQL
from tests.support.priced_flow import PricedFlow, worker_seconds
from tests.support.spark_harness import SECOND, zipf_batches

from evenflow.model import VerdictCode
from evenflow.planning.controller import Balancing
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import StreamSpec

COUNTS = (
    "SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q FROM trades "
    "GROUP BY window(ts, '4 seconds'), symbol"
)
WORKERS, BATCHES = 6, 12


def batches() -> list[pa.Table]:
    """A key with 43 % of the rows, later another one."""
    return zipf_batches(BATCHES, 3000, 300, skew=1.6, shift=7)


def play(folder: Path, sql: str, key: str, workers: int, config: Balancing) -> PricedFlow:
    rows = batches()
    streams = {"trades": StreamSpec(rows[0].schema, "ts", 2 * SECOND)}
    flow = PricedFlow(folder, streams, [Submission("query", "q", sql, (key,))], workers=workers)
    flow.balance(config)
    flow.busiest = [
        float(loads.max() / loads.mean())
        for each in rows[:-1]
        for loads in [worker_seconds(flow.batch({"trades": each}))]
    ]
    flow.batch({"trades": rows[-1]})
    flow.rest()
    assert flow.committer.checkpoint.head().quarantined == {}
    return flow


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> PricedFlow:
    return play(tmp_path_factory.mktemp("calm"), COUNTS, "symbol", 1, Balancing.off())


@pytest.mark.parametrize(("keys", "bound"), [("pkg", 1.5), ("d-choices", 1.15), ("w-choices", 1.1)])
def test_a_windowed_count_is_divided_by_the_rules_of_the_papers(
    tmp_path: Path, calm: PricedFlow, keys: str, bound: float
) -> None:
    flow = play(tmp_path, COUNTS, "symbol", WORKERS, Balancing(keys=keys))
    assert flow.results("q") == calm.results("q")
    assert calm.results("q")
    assert np.median(flow.busiest[5:7]) <= bound
    owners = [len(s.owners) for s in flow.committer.balancer.snapshots[6].plan.tables["q"].splits]
    assert {"pkg": {2}, "w-choices": {2, WORKERS}}.get(keys, set(owners)) >= set(owners)
    assert owners
    if keys == "pkg":
        assert flow.busiest[5] > 1.2, "two workers share 43 % of the load of six"


def test_a_join_is_refused_by_name(tmp_path: Path) -> None:
    sql = SQL.replace(".k", ".symbol").replace(".x", ".qty").replace("+ 990", "+ 7")
    flow = play(tmp_path, sql, "symbol", 3, Balancing(keys="pkg"))
    decisions = flow.committer.balancer.decisions
    assert all(decision.plan is None for decision in decisions)
    verdicts = {verdict.code: verdict.message for d in decisions for verdict in d.verdicts}
    assert "pkg divides the rows of a key" in verdicts[VerdictCode.NOT_DIVISIBLE]
